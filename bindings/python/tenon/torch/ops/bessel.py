"""Rows of the Bessel functions J0, J1, Y0 and Y1. Like PyTorch, they use the rational functions of Cephes, one for |x| <= 5 and
one beyond. At zeros, poles and outside the domain, results are PyTorch's. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ...graph_text import HALVES, Unsupported
from ..lowering.emitter import Promotion
from ..lowering.term import Term
from .row import row

# Numerators and denominators, the highest power first. For |x| > 5: the factor of the cosine, then that of the sine.
_FAR_0 = {
    "cosine": (0.0007969367292973471, 0.08283523921074408, 1.239533716464143, 5.447250030587687, 8.74716500199817, 5.303240382353949, 1.0),
    "under cosine": (0.0009244088105588637, 0.08562884743544745, 1.2535274390105895, 5.470977403304171, 8.761908832370695, 5.306052882353947, 1.0),
    "sine": (-0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683, -177.68116798048806, -147.07750515495118,
         -51.41053267665993, -6.050143506007285),
    "under sine": (64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525, 5930.727011873169, 2062.0933166032783, 242.0057402402914)}
_FAR_1 = {
    "cosine": (0.0007621256162081731, 0.07313970569409176, 1.1271960812968493, 5.112079511468076, 8.424045901417724, 5.214515986823615, 1.0),
    "under cosine": (0.0005713231280725487, 0.06884559087544954, 1.105142326340617, 5.073863861286015, 8.399855543276042, 5.209828486823619, 1.0),
    "sine": (0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508, 710.8563049989261, 597.4896124006136, 211.68875710057213,
         25.207020585802372),
    "under sine": (74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562, 7997.041604473507, 2826.1927851763908, 336.0936078106983)}
_NEAR_J0 = {
    "over": (-4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0),
    "under": (499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683, 2112775201154.892, 310518229857422.56, 3.1812195594320496e+16,
         1.7108629408104315e+18)}
_NEAR_J1 = {
    "over": (-899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0),
    "under": (620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925, 4749141220799.914, 784369607876235.9, 8.952223361846274e+16,
         5.322786203326801e+18)}
_NEAR_Y0 = {
    "over": (15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115, 87590639439536.7, -3466283033847297.0,
         4.4273326857256984e+16, -1.8495080043698668e+16),
    "under": (1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935, 20297961275010.555, 3171577528429750.5, 2.5059625617265306e+17)}
_NEAR_Y1 = {
    "over": (1263204747.9017804, -647355876379.1603, 114509511541823.73, -8127702555013251.0, 2.024394757135949e+17, -7.788771962659501e+17),
    "under": (594.3015923461282, 235564.09294306856, 73481194.44597217, 18760131610.870617, 3882312774962.3857, 620557727146953.8, 6.871410873553005e+16,
         3.9727060811656064e+18)}
_J0_ZEROS = (5.78318596294678452118e+00, 3.04712623436620863991e+01)  # the squares of the first two zeros
_J1_ZEROS = (1.46819706421238932572e+01, 4.92184563216946036703e+01)


def _far(x, fits, quarters, second_kind):
    """J(x), or Y(x), for x > 5; quarters: the phase in quarters of pi."""
    t = 5.0 / x
    square = t * t
    phase = x - quarters * math.pi / 4
    p = square.polynomial(fits["cosine"]) / square.polynomial(fits["under cosine"])
    q = t * (square.polynomial(fits["sine"]) / square.polynomial(fits["under sine"]))
    cosine, sine = phase.map("cos"), phase.map("sin")
    wave = p * sine + q * cosine if second_kind else p * cosine - q * sine
    return wave * math.sqrt(2 / math.pi) / x.map("sqrt")


def _ratio(x, fits):
    return x.polynomial(fits["over"]) / x.polynomial(fits["under"])


def _near_j0(x):
    square = x * x
    y = (square - _J0_ZEROS[0]) * (square - _J0_ZEROS[1]) * _ratio(square, _NEAR_J0)
    return x.map("lt", 1e-5).where(1.0 - square / 4.0, y)


def _near_j1(x):
    square = x * x
    return _ratio(square, _NEAR_J1) * x * (square - _J1_ZEROS[0]) * (square - _J1_ZEROS[1])


def _near_y0(x):
    return _ratio(x * x, _NEAR_Y0) + x.map("log") * (2 / math.pi) * _near_j0(x)


def _near_y1(x):
    return x * _ratio(x * x, _NEAR_Y1) + (_near_j1(x) * x.map("log") - 1.0 / x) * (2 / math.pi)


def _argument(e, x):
    x, = e.promote(Promotion.INT_TO_FLOAT, x)
    if x.dtype in HALVES:
        raise Unsupported("Bessel functions of 16-bit floats")
    return Term(e, x)


@row("special_bessel_j0")
def _(e, x):
    x = _argument(e, x).map("abs")
    return x.map("le", 5.0).where(_near_j0(x), _far(x, _FAR_0, 1, False)).value


@row("special_bessel_j1")
def _(e, x):
    x = _argument(e, x)
    a = x.map("abs")
    far = _far(a, _FAR_1, 3, False)
    return a.map("le", 5.0).where(_near_j1(x), x.map("lt", 0.0).where(-far, far)).value


def _second_kind(e, x, near, fits, quarters):
    x = _argument(e, x)
    y = x.map("le", 5.0).where(near(x), _far(x, fits, quarters, True))
    y = x.map("eq", 0.0).where(-math.inf, y)
    return x.map("lt", 0.0).where(math.nan, y).value


@row("special_bessel_y0")
def _(e, x):
    return _second_kind(e, x, _near_y0, _FAR_0, 1)


@row("special_bessel_y1")
def _(e, x):
    return _second_kind(e, x, _near_y1, _FAR_1, 3)

"""Rows of the backward pass: gradients of activations, softmax and layer norm, by PyTorch's formulas (ATen's kernels and
torch/_decomp/decompositions.py). As there, 16-bit floats are computed in f32 and rounded once. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ..lowering import sizes
from ..lowering.emitter import Promotion
from ..lowering.term import Term
from .row import row


def _terms(e, *values):
    return [Term(e, e.wide(v)) for v in values]


# --- activations ------------------------------------------------------------------------------------------------------
def _gradient(name):
    """Adds a row whose formula takes two Terms, the gradient and the saved tensor, and numbers."""
    def add(formula):
        row(name)(lambda e, grad, x, *numbers, **named: formula(*_terms(e, grad, x), *numbers, **named).value)
    return add


@_gradient("sigmoid_backward")
def _(grad, y):
    return grad * (1 - y) * y


@_gradient("tanh_backward")
def _(grad, y):
    return grad * (1 - y * y)


@_gradient("silu_backward")
def _(grad, x):
    s = x.map("sigmoid")
    return grad * s * (1 + x * (1 - s))


@_gradient("gelu_backward")
def _(grad, x, approximate="none"):
    if approximate == "tanh":
        beta, kappa = math.sqrt(2 / math.pi), 0.044715
        t = (beta * (x + kappa * (x * x * x))).map("tanh")
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (beta * (1 + 3 * kappa * (x * x))))
    return grad * (0.5 * (1 + (x * math.sqrt(0.5)).map("erf")) + x * ((-0.5 * (x * x)).map("exp") * (1 / math.sqrt(2 * math.pi))))


@_gradient("threshold_backward")
def _(grad, x, threshold):
    return x.map("le", threshold).where(0.0, grad)


@_gradient("leaky_relu_backward")
def _(grad, x, slope, is_result):
    return x.map("gt", 0.0).where(grad, grad * slope)


@_gradient("hardshrink_backward")
def _(grad, x, threshold):
    return x.map("abs").map("le", threshold).where(0.0, grad)


@_gradient("hardtanh_backward")
def _(grad, x, low, high):
    return x.map("le", low).map("logical_or", x.map("ge", high)).where(0.0, grad)


@_gradient("hardsigmoid_backward")
def _(grad, x):
    return x.map("gt", -3.0).map("logical_and", x.map("lt", 3.0)).where(grad * (1 / 6), 0.0)


@_gradient("hardswish_backward")
def _(grad, x):
    return x.map("le", -3.0).where(0.0, x.map("lt", 3.0).where(grad * (x * (1 / 3) + 0.5), grad))


@row("soft_margin_loss_backward")
def _(e, grad, x, target, reduction):
    """PyTorch's decomposition cancels digits where target * x is large."""
    grad, x, target = _terms(e, *e.promote(Promotion.DEFAULT, grad, x, target))
    each = -grad * target * (-target * x).map("sigmoid")
    return (each / sizes.product(x.value.shape) if reduction == 1 else each).value


@row("smooth_l1_loss_backward")
def _(e, grad, x, target, reduction, beta):
    """PyTorch's decomposition takes the sign of the difference, which is 0 for NaN; PyTorch's kernel returns NaN."""
    grad, x, target = _terms(e, *e.promote(Promotion.DEFAULT, grad, x, target))
    each = ((x - target) / beta).map("minimum", 1.0).map("maximum", -1.0)
    return (grad * (each / sizes.product(x.value.shape) if reduction == 1 else each)).value


# --- softmax and norms ------------------------------------------------------------------------------------------------
@row("_softmax_backward_data", "_log_softmax_backward_data")
def _(e, grad, y, dim, input_dtype):
    grad, y = _terms(e, grad, y)
    axes = [dim % max(y.value.rank, 1)]
    if "log" in e.target._opname:
        return (grad - y.map("exp") * grad.reduce("sum", axes)).value
    return ((grad - (grad * y).reduce("sum", axes)) * y).value


@row("native_layer_norm_backward")
def _(e, grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    outer = list(range(x.rank - len(normalized_shape)))
    inner = list(range(len(outer), x.rank))
    grad, x, mean, rstd = _terms(e, grad, x, mean, rstd)
    normal = (x - mean) * rstd
    dx = dw = db = None
    if output_mask[0] and e.used(0):
        g = grad if weight is None else grad * _terms(e, weight)[0]
        dx = ((g - g.reduce("mean", inner) - normal * (g * normal).reduce("mean", inner)) * rstd).value
    over_rows = lambda v: (v.reduce("sum", outer, False) if outer else v).value
    if output_mask[1] and e.used(1):
        dw = over_rows(grad * normal)
    if output_mask[2] and e.used(2):
        db = over_rows(grad)
    return dx, dw, db


@row("_weight_norm_interface_backward")
def _(e, grad, v, g, norms, dim):
    """Computes the gradients of v * g / norms for v and g, where norms = |v|."""
    axes = [i for i in range(v.rank) if i != dim % v.rank]
    grad, v, g, norms = _terms(e, grad, v, g, norms)
    dg = (grad * v).reduce("sum", axes) / norms
    return (g / norms * (grad - v * (dg / norms))).value, dg.value

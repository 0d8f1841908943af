"""Rows of the backward pass: gradients of activations, softmax and norms, by PyTorch's formulas (ATen's kernels and
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


# --- group norm, see whole/norms.py ----------------------------------------------------------------------------------
class _Groups:
    """Groups of the channels of images x [N,C,*]. The loops run over [N,groups,C/groups,*], or with by_channels over [N,C,*], where a number
    of each group is repeated for its channels: if the channels are innermost in memory, loops along those of a group would be short."""

    def __init__(self, e, x, groups, by_channels):
        self.e, self.by_channels, self.n, self.groups, self.each = e, by_channels, x.shape[0], groups, sizes.floor_div(x.shape[1], groups)
        self.channels = [x.shape[1]] if by_channels else [groups, self.each]
        self.pixels, self.ones = list(x.shape[2:]), [1] * (x.rank - 2)

    def image(self, x):
        return self._shaped(x, self.n, *self.channels, *self.pixels)

    def of_channels(self, v):
        """v [C] for each pixel."""
        return self._shaped(v, *self.channels, *self.ones)

    def of_groups(self, v):
        """v [N,groups] for each pixel. The maximum of equal elements makes a loop of its own."""
        if not self.by_channels:
            return self._shaped(v, self.n, self.groups, 1, *self.ones)
        return self._repeated(self._shaped(v, self.n, self.groups, 1, 1), "max")

    def first_of_each(self, v):
        """[N,groups] of what over_groups() returns."""
        if self.by_channels:
            split = self._shaped(v, self.n, self.groups, self.each).value
            v = Term(self.e, self.e.slice(split, 2, 0, 1))
        return self._shaped(v, self.n, self.groups)

    def over_pixels(self, head, v):
        axes = [1 + len(self.channels) + i for i in range(len(self.pixels))]
        return v.reduce(head, axes) if axes else v

    def over_groups(self, v):
        """The mean of what over_pixels() returns."""
        if not self.by_channels:
            return v.reduce("mean", [2])
        return self._repeated(self._shaped(v, self.n, self.groups, 1, self.each), "mean")

    def mean(self, v):
        """The mean of an image over each group."""
        if self.by_channels:
            return self.over_groups(self.over_pixels("mean", v))
        return v.reduce("mean", list(range(2, 3 + len(self.pixels))))

    def _repeated(self, v, head):
        """For each channel, the reduction of the elements of its group in v [N,groups,1,*]."""
        repeated = self.e.expand(v.value, (self.n, self.groups, self.each, self.each))
        return self._shaped(Term(self.e, repeated).reduce(head, [3]), self.n, *self.channels, *self.ones)

    def _shaped(self, v, *shape):
        return Term(self.e, self.e.reshape(v.value, shape))


@row("tenon.group_norm_statistics")
def group_norm_statistics(e, x, groups, eps, by_channels):
    g = _Groups(e, x, groups, by_channels)
    image = g.image(*_terms(e, x))
    mean = g.mean(image)
    apart = image - mean
    rstd = (g.mean(apart * apart) + float(eps)).map("rsqrt")
    return g.first_of_each(mean).value, g.first_of_each(rstd).value


@row("tenon.group_norm")
def _(e, x, mean, rstd, weight, bias, by_channels):
    g = _Groups(e, x, mean.shape[1], by_channels)
    x, mean, rstd = _terms(e, x, mean, rstd)
    y = (g.image(x) - g.of_groups(mean)) * g.of_groups(rstd)
    if weight is not None:
        y = y * g.of_channels(*_terms(e, weight))
    if bias is not None:
        y = y + g.of_channels(*_terms(e, bias))
    return e.reshape(y.value, e.shape)


@row("tenon.group_norm_gradient")
def _group_norm_gradient(e, grad, x, mean, rstd, weight, output_mask, by_channels):
    g, shape, channels = _Groups(e, x, mean.shape[1], by_channels), x.shape, x.shape[1]
    grad, x, mean, rstd = _terms(e, grad, x, mean, rstd)
    grad, x, mean, rstd = g.image(grad), g.image(x), g.of_groups(mean), g.of_groups(rstd)
    product = grad * x
    dx = dw = db = None
    if output_mask[0] and e.used(0):
        gain = None if weight is None else g.of_channels(*_terms(e, weight))
        weighted = lambda v: v if gain is None else v * gain
        of_product, of_grad = (g.over_groups(weighted(g.over_pixels("mean", v))) for v in (product, grad))
        slope = (of_grad * mean - of_product) * rstd * rstd * rstd
        dx = e.reshape((grad * weighted(rstd) + x * slope - (slope * mean + of_grad * rstd)).value, shape)
    if output_mask[1] and e.used(1):
        part = (g.over_pixels("sum", product) - g.over_pixels("sum", grad) * mean) * rstd
        dw = e.reshape(part.reduce("sum", [0], False).value, (channels,))
    if output_mask[2] and e.used(2):
        db = e.reshape(g.over_pixels("sum", grad).reduce("sum", [0], False).value, (channels,))
    return dx, dw, db


@row("native_group_norm_backward")
def _(e, grad, x, mean, rstd, weight, n, c, hxw, group, output_mask):
    return _group_norm_gradient(e, grad, x, mean, rstd, weight, output_mask, False)


@row("_weight_norm_interface_backward")
def _(e, grad, v, g, norms, dim):
    """Computes the gradients of v * g / norms for v and g, where norms = |v|."""
    axes = [i for i in range(v.rank) if i != dim % v.rank]
    grad, v, g, norms = _terms(e, grad, v, g, norms)
    dg = (grad * v).reduce("sum", axes) / norms
    return (g / norms * (grad - v * (dg / norms))).value, dg.value

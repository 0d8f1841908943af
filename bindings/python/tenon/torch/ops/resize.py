"""Rows of antialiased resizing. It resizes axis by axis; each element of the result is a weighted sum of a window of the operand.
How rows are written: row.py.

Tested by tests/torch/test_resize.py.
"""

import math

import torch

from ...graph_text import Unsupported
from ..lowering import sizes
from .copy import not_channels_last
from .row import row

_MOST_TAPS = 64  # elements of a window; each costs an op


def _triangle(e, x):
    return e.map("maximum", e.map("sub", e.scalar_like(x, 1.0), e.map("abs", x)), e.scalar_like(x, 0.0))


def _cubic(e, x):
    """The filter of Keys' cubic convolution with a = -0.5."""
    x, number = e.map("abs", x), lambda n: e.scalar_like(x, n)
    horner = lambda first, *others: [first := e.map("add", e.map("mul", first, x), number(n)) for n in others][-1]
    near = horner(number(1.5), -2.5, 0.0, 1.0)
    far = horner(number(-0.5), 2.5, -4.0, 2.0)
    far = e.op("where", [e.map("lt", x, number(2.0)), far, number(0.0)], x.dtype, x.shape)
    return e.op("where", [e.map("lt", x, number(1.0)), near, far], x.dtype, x.shape)


def _lanczos(e, x):
    """sinc(x) sinc(x/3) for |x| < 3."""
    number = lambda n: e.scalar_like(x, n)
    far, near = e.map("ge", e.map("abs", x), number(3.0)), e.map("eq", x, number(0.0))
    y = e.map("mul", e.op("where", [near, number(1.0), x], x.dtype, x.shape), number(math.pi))
    third = e.map("div", y, number(3.0))
    y = e.map("mul", e.map("div", e.map("sin", y), y), e.map("div", e.map("sin", third), third))
    y = e.op("where", [near, number(1.0), y], x.dtype, x.shape)
    return e.op("where", [far, number(0.0), y], x.dtype, x.shape)


# Name -> (filter, half of its width). The unit of the width is an element of the result or of the operand, whichever is larger.
_FILTERS = {"bilinear": (_triangle, 1), "bicubic": (_cubic, 2), "lanczos": (_lanczos, 3)}


def _resized(e, x, axis, length, step, name):
    """Resizes one axis to a new length. step: elements of the operand per element of the result."""
    extent, (weight, reach) = x.shape[axis], _FILTERS[name]
    rounded = lambda n: torch.tensor(n, dtype=torch.float64 if x.dtype == "f64" else torch.float32).item()
    number = lambda n: e.full(n, x.dtype)
    step = rounded(step)
    support = rounded(reach * step) if step >= 1 else float(reach)
    taps = 2 * math.ceil(support) + 1
    if taps > _MOST_TAPS:
        raise Unsupported(f"windows of {taps} elements")
    center = e.map("mul", e.iota([length, 1], x.dtype, start=0.5), number(step))
    bound = lambda head: e.map("add", e.map(head, center, number(support)), number(0.5))
    first = e.cast(e.map("maximum", bound("sub"), number(0.0)), "i64")
    end = e.map("minimum", e.cast(bound("add"), "i64"), e.full(extent, "i64"))
    place = e.map("add", first, e.iota([length, taps], axis=1))
    far = e.map("add", e.map("sub", e.cast(place, x.dtype), center), number(0.5))
    weights = weight(e, e.map("mul", far, number(rounded(1 / step))) if step >= 1 else far)
    weights = e.op("where", [e.map("lt", place, end), weights, number(0.0)], x.dtype, weights.shape)
    weights = e.map("div", weights, e.reduce("sum", weights, [1], True))
    first, last = e.reshape(first, [length]), e.full(sizes.size(extent - 1), "i64")
    result = None
    for tap in range(taps):
        factor = e.reshape(e.slice(weights, 1, tap, tap + 1), (length,) + (1,) * (x.rank - axis - 1))
        part = e.gather(x, e.map("minimum", e.map("add", first, e.full(tap, "i64")), last), axis, wrap=False)
        result = e.map("mul", part, factor) if result is None else e.map("fma", part, factor, result)
    return result


@row("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa")
def _(e, x, output_size, align_corners, *scales):
    name = e.node.target._opname.split("_")[2].removesuffix("2d")
    if x.dtype == "u8":
        raise Unsupported("resizing of u8, for which PyTorch uses fixed-point arithmetic")
    not_channels_last(e, x)
    steps = []
    for axis, scale in zip((2, 3), (*scales, None, None)):
        n, m = x.shape[axis], e.shape[axis]
        if not align_corners and isinstance(scale, float) and scale > 0:
            steps.append(1 / scale)
        elif isinstance(n, int) and isinstance(m, int):
            steps.append(n / m if not align_corners else (n - 1) / (m - 1) if m > 1 else 0.0)
        else:
            raise Unsupported("windows whose length depends on sizes")
    if x.dtype == "f64" and name != "bilinear" and min(steps) < 1:
        raise Unsupported("an f64 image enlarged by a wide filter, which PyTorch computes faster")
    # The last axis is gathered element by element, so the other axis is resized first if this leaves fewer rows.
    y = e.wide(x)
    for axis in (2, 3) if steps[0] > 1 else (3, 2):
        y = _resized(e, y, axis, e.shape[axis], steps[axis - 2], name)
    return e.cast(y, x.dtype)

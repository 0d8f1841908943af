"""Rows of antialiased resizing, and of the backward pass of all resizing. It resizes axis by axis; each element of the result is a
weighted sum of a window of the operand. How rows are written: row.py.

Tested by tests/torch/test_resize.py.
"""

import functools
import math

import torch

from ...graph_text import Unsupported
from ..lowering import sizes
from ..lowering.differentiate import gradients
from ..lowering.operand import Operand
from ..lowering.term import Term
from .copy import not_channels_last
from .row import TABLE, row

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
    name = e.target._opname.split("_")[2].removesuffix("2d")
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


# --- backward ---------------------------------------------------------------------------------------------------------
@row("_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa_backward", "_upsample_lanczos2d_aa_backward")
def _(e, grad, output_size, input_size, align_corners, *scales):
    """Resizing is linear, so the gradient does not read the operand."""
    op = getattr(torch.ops.aten, e.target._opname.removesuffix("_backward")).default
    x = Operand(e.name + ".operand", grad.dtype, e.shape, e.fake.new_empty(e.fake.shape))
    return gradients(e, op, TABLE[str(op)], [x], (output_size, align_corners, *scales), grad, [0])[0]


def _step(e, dtype, length, extent, scale, align_corners=False):
    """Elements of the operand per element of the result along an axis, rounded as in PyTorch's kernels."""
    number = lambda n: e.cast(e.full(n, "i64"), dtype)
    if align_corners:
        last = e.map("maximum", number(sizes.size(length - 1)), number(1))
        return e.map("where", e.map("gt", number(length), number(1)), e.map("div", number(sizes.size(extent - 1)), last), e.full(0.0, dtype))
    if isinstance(scale, float) and scale > 0:
        return e.full(1 / scale, dtype)
    return e.map("div", number(extent), number(length))


def _nearest_taps(e, dtype, length, extent, scale, align_corners, exact):
    """The element of the operand that each element of the result copies."""
    place = e.map("mul", e.iota([length], "f32", start=0.5 if exact else 0.0), _step(e, "f32", length, extent, scale))
    return [(e.map("minimum", e.cast(e.map("floor", place), "i64"), e.full(sizes.size(extent - 1), "i64")), None)]


def _linear_taps(e, dtype, length, extent, scale, align_corners):
    number, last = lambda n: e.full(n, dtype), e.full(sizes.size(extent - 1), "i64")
    place = _place(e, dtype, length, extent, scale, align_corners)
    place = e.map("maximum", place, number(0.0))
    low = e.map("minimum", e.cast(place, "i64"), last)
    share = e.map("minimum", e.map("maximum", e.map("sub", place, e.cast(low, dtype)), number(0.0)), number(1.0))
    return [(low, e.map("sub", number(1.0), share)), (e.map("minimum", e.map("add", low, e.full(1, "i64")), last), share)]


def _place(e, dtype, length, extent, scale, align_corners):
    """Where the elements of the result lie between the elements of the operand."""
    step, number = _step(e, dtype, length, extent, scale, align_corners), lambda n: e.full(n, dtype)
    if align_corners:
        return e.map("mul", e.iota([length], dtype), step)
    return e.map("sub", e.map("mul", e.iota([length], dtype, start=0.5), step), number(0.5))


def _cubic_taps(e, dtype, length, extent, scale, align_corners):
    """The weights of Keys' cubic convolution with a = -0.75."""
    place = Term(e, _place(e, dtype, length, extent, scale, align_corners))
    floor, last = place.map("floor"), e.full(sizes.size(extent - 1), "i64")
    t, taps = place - floor, []
    near = lambda t: t.polynomial((1.25, -2.25, 0.0, 1.0))
    far = lambda t: t.polynomial((-0.75, 3.75, -6.0, 3.0))
    for k, weight in enumerate((far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t))):
        index = e.map("add", e.cast(floor.value, "i64"), e.full(k - 1, "i64"))
        taps.append((e.map("maximum", e.map("minimum", index, last), e.full(0, "i64")), weight.value))
    return taps


_TAPS = {"nearest": functools.partial(_nearest_taps, exact=False), "nearest_exact": functools.partial(_nearest_taps, exact=True),
         "linear": _linear_taps, "bilinear": _linear_taps, "trilinear": _linear_taps, "bicubic": _cubic_taps}


def _copies(length, extent, scale):
    """How many elements of the result copy each element of the operand of nearest, if these are as many for all, in PyTorch's rounding
    too; else None."""
    times = length // extent if all(isinstance(n, int) and n for n in (length, extent)) and length % extent == 0 else 0
    return times if times and times & (times - 1) == 0 and (not isinstance(scale, float) or scale == times) else None


@row(*(f"upsample_{name}_backward" for name in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")),
     *(f"{name}{n}d_backward" for n in (1, 2, 3) for name in ("upsample_nearest", "_upsample_nearest_exact")))
def _(e, grad, output_size, input_size, *others):
    """Each element of the operand gets the elements of the gradient that it was a part of, weighted, axis by axis."""
    name = e.target._opname.removeprefix("_").removeprefix("upsample_").removesuffix("_backward")[:-2]
    align_corners, *scales = others if "nearest" not in name else (False, *others)
    v, nearest = e.wide(grad), name == "nearest"
    for axis in _cheapest_first(grad.shape, e.shape):
        length, extent = v.shape[axis], e.shape[axis]
        scale = scales[axis - 2] if scales else None
        if sizes.same(length, extent) and not (isinstance(scale, float) and not align_corners and (
                name == "nearest_exact" or name == "bicubic" and not sizes.same_shape(grad.shape, e.shape))):
            continue
        if nearest and (times := _copies(length, extent, scale)):
            v = _sum_of_neighbours(e, v, axis, extent, times)
            continue
        taps = _TAPS[name](e, v.dtype, length, extent, scale, align_corners)
        readers = _most_readers(name, length, extent, scale, align_corners)
        v = _gathered(e, v, axis, extent, taps, readers) if readers else _scattered(e, v, axis, extent, taps)
    return e.cast(v, grad.dtype)


def _sum_of_neighbours(e, v, axis, extent, times):
    """The sums of each `times` neighbours along an axis: sums of slices if these are few. Loops over slices follow the order of axes in memory."""
    if times > 4:
        return e.reduce("sum", e.reshape(v, (*v.shape[:axis], extent, times, *v.shape[axis + 1:])), [axis + 1])
    slices = [e.slice(v, axis, i, extent * times, times) for i in range(times)]
    return functools.reduce(lambda a, b: e.map("add", a, b), slices)


def _cheapest_first(grad, shape):
    """The spatial axes in the order in which they are resized: first those that become shorter, whole rows before elements of a row; then
    those that become longer, elements before whole rows."""
    spatial = range(2, len(shape))
    longer = [axis for axis in spatial if all(isinstance(s[axis], int) for s in (grad, shape)) and shape[axis] > grad[axis]]
    return [axis for axis in spatial if axis not in longer] + longer[::-1]


def _most_readers(name, length, extent, scale, align_corners):
    """At least as many as the elements of the result that read one element of the operand; None if that is not known, or too many."""
    if not (isinstance(length, int) and isinstance(extent, int)) or not length or not extent:
        return None
    given = isinstance(scale, float) and scale > 0 and not align_corners
    step = (extent - 1) / max(length - 1, 1) if align_corners else 1 / scale if given else extent / length
    offset = 0.0 if name == "nearest" or align_corners else 0.5
    places = [(i + offset) * step - (0.0 if "nearest" in name else offset) for i in range(length)]
    before, behind = {"nearest": (0, 0), "nearest_exact": (0, 0), "bicubic": (1, 2)}.get(name, (0, 1))
    lows = [math.floor(place if name == "bicubic" else max(place, 0.0)) for place in places]
    inside = lambda i: min(max(i, 0), extent - 1)
    counts = [0] * extent
    for low in lows:
        for i in range(inside(low - before), inside(low + behind) + 1):
            counts[i] += 1
    # Arithmetic in f32 may put a place on the other side of an element.
    near = 1e-6 * (1 + abs(places[-1]))
    readers = max(counts) + any(abs(place - round(place)) <= near for place in places)
    return readers if readers <= _MOST_TAPS else None


def _scattered(e, v, axis, extent, taps):
    """Resizes an axis of the gradient v to the extent of the operand. taps: (index, weight) of each element that an element of v was made of."""
    total = e.full(0.0, v.dtype, (*v.shape[:axis], extent, *v.shape[axis + 1:]))
    for index, weight in taps:
        part = v if weight is None else e.map("mul", v, e.reshape(weight, (v.shape[axis],) + (1,) * (v.rank - axis - 1)))
        total = e.op("index_put", [total, index, part], v.dtype, total.shape, axis=axis, mode="add", wrap=False)
    return total


def _gathered(e, v, axis, extent, taps, readers):
    """Computes the same as _scattered(). Each element of the operand gathers from the elements of v that it is a part of, which are neighbours.
    readers: the most of them."""
    length, behind, elements = v.shape[axis], (1,) * (v.rank - axis - 1), e.iota([extent])
    search = lambda index, right: e.op("search", [index, elements], "i64", [extent], right=right)
    first, end = search(taps[-1][0], False), search(taps[0][0], True)
    total = None
    for k in range(readers):
        reader = e.map("add", first, e.full(k, "i64"))
        reads, reader = e.map("lt", reader, end), e.map("minimum", reader, e.full(length - 1, "i64"))
        weight = e.full(0.0, v.dtype, [extent])
        for index, share in taps:
            here = e.map("eq", e.gather(index, reader, 0, wrap=False), elements)
            share = e.full(1.0, v.dtype) if share is None else e.gather(share, reader, 0, wrap=False)
            weight = e.map("add", weight, e.op("where", [here, share, e.full(0.0, v.dtype)], v.dtype, [extent]))
        part = e.map("mul", e.gather(v, reader, axis, wrap=False), e.reshape(weight, (extent, *behind)))
        part = e.op("where", [e.reshape(reads, (extent, *behind)), part, e.full(0.0, v.dtype)], v.dtype, part.shape)
        total = part if total is None else e.map("add", total, part)
    return total

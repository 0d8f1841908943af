"""Rows of max pooling with indices, adaptive max pooling, and their inverses. How rows are written: row.py.

The elements of the windows and their places (indices into the flattened plane) are two tensors; reductions fold the trailing axes.
Tested by tests/torch/test_lower.py.
"""

from ...graph_text import FLOATS, Unsupported
from ..lowering import sizes
from ..lowering.sizes import floor_div, size
from ..lowering.tensors import dtype_of
from .copy import not_channels_last
from .index import neutral
from .row import row
from .special import bits_of, from_bits

_WIDEST = 40      # elements of a window; in a larger one PyTorch is faster


def _winner(e, windows, places, inside, count, extents):
    """(largest element, its place) of windows, over their last `count` axes. Like PyTorch, takes the last NaN, else the first of the
    largest. places: of the elements; inside: which elements are not padding, None for all. Both broadcast. extents: of the plane."""
    axes = list(range(windows.rank - count, windows.rank))
    bits = 32 if sizes.at_least(sizes.product(extents), 2**31) is False else 64
    places, number = e.cast(places, f"i{bits}"), lambda n: e.full(n, f"i{bits}")
    nowhere = number(2 ** (bits - 1) - 1)  # at least every place
    most = e.reduce("max", windows, axes, True)
    taken = e.map("eq", windows, most)
    if inside is not None:
        taken = e.map("logical_and", taken, inside)
    place = e.reduce("min", e.map("where", taken, places, nowhere), axes)
    if windows.dtype in FLOATS:
        nan = e.map("isnan", windows)
        last = e.reduce("max", e.map("where", nan, places, number(-1)), axes)
        place = e.map("where", e.map("ge", last, number(0)), last, place)
    return e.reshape(most, place.shape), e.cast(place, "i64")


def _along(e, v, axis, rank):
    """A matrix [window, position in the window] of one axis, reshaped to [windows..., positions...] of rank 2 * rank."""
    shape = [1] * (2 * rank)
    shape[axis], shape[rank + axis] = v.shape
    return e.reshape(v, shape)


def _places(e, rows, extents):
    """The place in the plane, from the positions along each axis. rows: a matrix [window, position in the window] per axis."""
    place = None
    for axis, (positions, extent) in enumerate(zip(rows, extents)):
        here = _along(e, positions, axis, len(rows))
        place = here if place is None else e.map("add", e.map("mul", place, e.full(extent, "i64")), here)
    return place


def _inside(e, conditions):
    inside = None
    for axis, condition in enumerate(conditions):
        here = _along(e, condition, axis, len(conditions))
        inside = here if inside is None else e.map("logical_and", inside, here)
    return inside


def max_pool_with_indices(e, x, kernel, stride, padding, high, dilation):
    """(values, places) of max pooling. x: two axes, then the plane; high: how much to pad at the end of each axis."""
    rank = len(kernel)
    extents, number = x.shape[2:], lambda n: e.full(n, "i64")
    y, padded = x, not all(map(sizes.is_zero, (*padding, *high)))
    if padded:
        y = e.pad(x, [0, 0, *padding], [0, 0, *high], neutral("max", x.dtype))
    output = [size(floor_div(size(n - d * (k - 1) - 1), s) + 1) for n, k, s, d in zip(y.shape[2:], kernel, stride, dilation)]
    y = e.op("windows", [y], x.dtype, (*x.shape[:2], *output, *kernel), axes=list(range(2, 2 + rank)), sizes=kernel,
             strides=stride, dilations=dilation)
    rows, inside = [], []
    for n, k, s, d, low, extent in zip(output, kernel, stride, dilation, padding, extents):
        first = e.map("mul", e.iota((n, k), axis=0), number(s))
        position = e.map("add", first, e.map("mul", e.iota((n, k), axis=1), number(d)))
        position = e.map("sub", position, number(low))
        rows.append(position)
        if padded:
            inside.append(e.map("logical_and", e.map("ge", position, number(0)), e.map("lt", position, number(extent))))
    return _winner(e, y, _places(e, rows, extents), _inside(e, inside), rank, extents)


def longest_window(extent, n):
    """The most elements that one of n windows along an axis may have."""
    return size(floor_div(size(extent + n - 1), n) + 1)


def uneven_windows(e, extent, n, longest):
    """(position along the axis, whether it is inside the window), as matrices [window, element] of n windows. Window i is from
    i * extent // n to ceil((i + 1) * extent / n). Positions outside of a window are still within the axis."""
    number = lambda m: e.full(m, "i64")
    window, element = e.iota((n, longest), axis=0), e.iota((n, longest), axis=1)
    first = e.map("floor_div", e.map("mul", window, number(extent)), number(n))
    end = e.map("add", e.map("mul", e.map("add", window, number(1)), number(extent)), number(size(n - 1)))
    position = e.map("add", first, element)
    inside = e.map("lt", position, e.map("floor_div", end, number(n)))
    return e.map("minimum", position, number(size(extent - 1))), inside


def _windows_along(e, extent, n):
    """(position, inside, even): the first two of uneven_windows(); even: whether the windows cut the axis into equal parts."""
    even = sizes.same(sizes.remainder(extent, n), 0)
    return *uneven_windows(e, extent, n, floor_div(extent, n) if even else longest_window(extent, n)), even


def _adaptive_maximum(e, x, output):
    """(elements, their places), axis by axis, so that most of the work is done for whole rows."""
    rank = len(output)
    extents, first = x.shape[-rank:], x.rank - rank
    y, place = x, None
    for axis, n in enumerate(output):
        at, behind = first + axis, rank - axis - 1
        position, inside, even = _windows_along(e, extents[axis], n)
        longest = position.shape[1]
        cut = ((lambda v: e.reshape(v, v.shape[:at] + (n, longest) + v.shape[at + 1:])) if even
               else (lambda v: e.gather(v, position, at)))
        last = lambda v: e.transpose(v, [i for i in range(v.rank) if i != at + 1] + [at + 1])
        here = e.map("mul", position, e.full(sizes.product(extents[axis + 1:]), "i64"))
        here, inside = (e.reshape(v, (n,) + (1,) * behind + (longest,)) for v in (here, inside))
        y = last(cut(y))
        place = here if place is None else e.map("add", last(cut(place)), here)
        y = e.map("where", inside, y, e.scalar_like(y, neutral("max", y.dtype)))
        y, place = _winner(e, y, place, inside, 1, extents)
    return y, place


# A key is an i64 whose order is the order in which max pooling prefers elements. Its upper half is the element as an integer in the order
# of f32, with NaN above all; its lower half makes the first of equal elements win, and the last NaN.
_NAN, _LOWER = 2**31 - 1, 2**32 - 1


def _ordered(e, bits):
    """The bits of an f32 as an integer in the order of f32, and back."""
    return e.map("bit_xor", bits, e.map("bit_and", e.map("shift_right", bits, e.full(31, "i32")), e.full(2**31 - 1, "i32")))


def _keys(e, x, extents):
    """The keys of the elements of x, whose last axes are the plane."""
    place = e.reshape(_places(e, [e.iota((n, 1), axis=0) for n in extents], extents), extents)
    x = e.cast(x, "f32")
    nan = e.map("isnan", x)
    x = e.map("where", e.map("eq", x, e.scalar_like(x, 0)), e.scalar_like(x, 0), x)  # -0 and 0 are equal
    upper = e.map("where", nan, e.full(_NAN, "i32"), _ordered(e, bits_of(e, x)))
    lower = e.map("where", nan, place, e.map("sub", e.full(_LOWER, "i64"), place))
    return e.map("bit_or", e.map("shift_left", e.cast(upper, "i64"), e.full(32, "i64")), lower)


def _from_keys(e, keys, dtype):
    """(elements, their places)."""
    upper = e.cast(e.map("shift_right", keys, e.full(32, "i64")), "i32")
    lower = e.map("bit_and", keys, e.full(_LOWER, "i64"))
    nan = e.map("eq", upper, e.full(_NAN, "i32"))
    place = e.map("where", nan, lower, e.map("sub", e.full(_LOWER, "i64"), lower))
    return e.cast(from_bits(e, _ordered(e, upper)), dtype), place


@row("adaptive_max_pool2d", "adaptive_max_pool3d")
def _(e, x, output_size):
    rank = int(e.target._opname[-2])
    extents = x.shape[-rank:]
    output = sizes.sizes(e.fake[0].shape)[-rank:]
    if sizes.is_empty(output):
        return tuple(e.full(0, dtype_of(f.dtype), f.shape) for f in e.fake)
    if all(isinstance(n, int) for n in (*output, *extents)) and all(m % n == 0 for m, n in zip(extents, output)):
        kernel, none = [m // n for m, n in zip(extents, output)], [0] * rank
        batched = e.reshape(x, (1,) * (rank + 2 - x.rank) + x.shape)
        if e.used(1):
            y, place = max_pool_with_indices(e, batched, kernel, kernel, none, none, [1] * rank)
            return e.reshape(y, x.shape[:-rank] + output), e.reshape(place, x.shape[:-rank] + output)
        y = e.op("max_pool", [batched], x.dtype, batched.shape[:2] + output, kernel=kernel, strides=kernel, padding=none,
                 padding_high=none, dilations=[1] * rank)
        return e.reshape(y, x.shape[:-rank] + output), None
    widest = sizes.product([longest_window(m, n) for m, n in zip(extents, output)])
    if isinstance(widest, int) and widest > _WIDEST:
        raise Unsupported("adaptive pooling with large windows of different lengths")
    if x.dtype == "f64" or not e.used(1) or sizes.at_least(sizes.product(extents), 2**32) is True:
        return _adaptive_maximum(e, x, output)
    y = _keys(e, x, extents)
    for at, n in enumerate(output, x.rank - rank):
        position, inside, even = _windows_along(e, x.shape[at], n)
        if even:
            y = e.reduce("max", e.reshape(y, y.shape[:at] + position.shape + y.shape[at + 1:]), [at + 1])
            continue
        position, inside = e.swap(position, 0, 1), e.swap(inside, 0, 1)  # neighbouring windows are lanes of a loop over their elements
        inside = e.reshape(inside, inside.shape + (1,) * (x.rank - at - 1))
        y = e.reduce("max", e.map("where", inside, e.gather(y, position, at), e.full(-(2**63), "i64")), [at])
    return _from_keys(e, y, x.dtype)


@row("fractional_max_pool2d", "fractional_max_pool3d")
def _(e, x, kernel, output, samples):
    if x.dtype not in ("f32", "f64"):
        raise Unsupported("pooling windows whose starts PyTorch rounds to 16 bits at every step")
    rank, number = len(kernel), lambda n: e.full(n, "i64")
    output, extents = sizes.sizes(output), x.shape[-rank:]
    planes = sizes.product(x.shape[:-rank])
    samples = e.reshape(samples, [planes, rank])
    place = None
    for axis, (extent, k, n) in enumerate(zip(extents, kernel, output)):
        column = axis if rank == 3 else 1 - axis  # the first random sample for an image is for its width
        sample, window, last = e.slice(samples, 1, column, column + 1), e.iota((1, n), axis=1), number(size(extent - k))
        step = e.map("div", e.cast(last, x.dtype), e.cast(number(size(n - 1)), x.dtype))
        begin = lambda v: e.cast(e.map("mul", v, step), "i64")
        first = e.map("sub", begin(e.map("add", e.cast(window, x.dtype), sample)), begin(sample))
        first = e.map("where", e.map("eq", window, number(size(n - 1))), last, first)
        first = e.reshape(first, [planes, *(n if a == axis else 1 for a in range(2 * rank))])
        inner = e.reshape(e.iota((k,), axis=0), [k if a == rank + axis else 1 for a in range(2 * rank)])
        here = e.map("add", first, inner)
        place = here if place is None else e.map("add", e.map("mul", place, number(extent)), here)
    flat = [planes, sizes.product(place.shape[1:])]
    windows = e.op("take_along", [e.reshape(x, [planes, sizes.product(extents)]), e.reshape(place, flat)], x.dtype, flat, axis=1, wrap=False)
    y, place = _winner(e, e.reshape(windows, place.shape), place, None, rank, extents)
    return tuple(e.reshape(v, x.shape[:-rank] + output) for v in (y, place))


# --- unpooling --------------------------------------------------------------------------------------------------------
def _put_back(e, v, places, plane, mode):
    """Planes of zeros into which the elements of v are written or added at their places."""
    rank = len(plane)
    if sizes.is_empty((*v.shape, *plane)):
        return e.full(0, v.dtype, e.shape)
    planes, count, area = (sizes.product(s) for s in (v.shape[:-rank], v.shape[-rank:], plane))
    flat = [e.reshape(t, [planes, count]) for t in (v, places)]
    y = e.op("scatter", [e.full(0, v.dtype, (planes, area)), flat[1], flat[0]], v.dtype, (planes, area), axis=1, mode=mode,
             wrap=False)
    return e.reshape(y, e.shape)


@row("max_unpool2d", "max_unpool3d")
def _(e, x, places, output_size, stride=None, padding=None):
    if e.target._opname == "max_unpool2d":
        not_channels_last(e, x)
    return _put_back(e, x, places, sizes.sizes(output_size), "set")


@row(*(f"{name}_pool{rank}d{how}_backward" for rank in (2, 3)
       for name, how in (("max", "_with_indices"), ("adaptive_max", ""), ("fractional_max", ""))))
def _(e, grad, x, *window_and_places):
    rank = 2 if "2d" in e.target._opname else 3
    return _put_back(e, e.wide(grad), window_and_places[-1], x.shape[-rank:], "add")

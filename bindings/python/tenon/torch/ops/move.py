"""Rows that rearrange or create elements. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import torch

from ...graph_text import FLOATS, HALVES, Unsupported
from ..lowering import sizes
from ..lowering.operand import Operand
from ..lowering.sizes import same_shape, size
from .row import row


# --- views ------------------------------------------------------------------------------------------------------------
@row("view", "_unsafe_view", view=True)
def _(e, x, shape):
    return e.reshape(x, e.shape)


@row("unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", view=True)
def _(e, x, dim=None):
    return e.reshape(x, e.shape)


@row("t", view=True)
def _(e, x):
    return e.transpose(x, range(x.rank)[::-1])


@row("transpose.int", view=True)
def _(e, x, a, b):
    return e.swap(x, a, b) if x.rank else x


@row("permute", view=True)
def _(e, x, dims):
    return e.transpose(x, dims)


@row("expand", view=True)
def _(e, x, shape, implicit=False):
    return e.expand(x, e.shape)


@row("select.int", view=True)
def _(e, x, dim, index):
    return _select(e, x, dim, index)


def _select(e, x, dim, index):
    axis = dim % x.rank
    start = position(index, x.shape[axis])
    y = e.slice(x, axis, start, size(start + 1))
    return e.reshape(y, x.shape[:axis] + x.shape[axis + 1:])


def position(index, extent):
    """The index, counted from the start of the axis even if it was negative."""
    if isinstance(index, int):
        return index if index >= 0 else size(index + extent)
    if (from_start := sizes.at_least(index, 0)) is None:
        return sizes.remainder(index, extent)
    return index if from_start else size(index + extent)


def bound(bound, extent, default):
    """A bound of a slice, clamped as in PyTorch."""
    if bound is None or (isinstance(bound, int) and bound >= 2**62):
        return default
    from_start = sizes.at_least(bound, 0)
    if from_start is None:  # of either sign
        is_negative = sizes.smaller(sizes.larger(size(-bound), 0), 1)
        return sizes.smaller(sizes.larger(size(bound + extent * is_negative), 0), extent)
    if from_start:
        return bound if sizes.is_zero(bound) else sizes.smaller(bound, extent)
    return sizes.larger(size(bound + extent), 0)


def _range(x, axis, start, length, step):
    """(start, end) of x[start::step], of which PyTorch takes `length` elements. The end is right behind the last of these."""
    start = bound(start, x.shape[axis], 0)
    if step == 1 or sizes.is_zero(length):
        return start, size(start + length)
    end = size(start + (length - 1) * step + 1)
    return start, end if sizes.at_least(length, 1) else sizes.larger(start, end)


def every_nth(e, x, axis, start, length, step):
    """The first `length` elements of x[start::step] along an axis. The step may be a symbol."""
    return e.gather(x, _stepped(e, start, length, step), axis)


def _stepped(e, start, length, step):
    """The vector start, start + step, ... with `length` elements."""
    indices = e.iota([length])
    for head, n in (("mul", step), ("add", start)):
        indices = e.map(head, indices, e.full(n, "i64"))
    return indices


@row("slice.Tensor", view=True)
def _(e, x, dim=0, start=None, end=None, step=1):
    axis = dim % x.rank
    length = e.shape[axis]
    if not isinstance(step, int):
        return every_nth(e, x, axis, bound(start, x.shape[axis], 0), length, step)
    return e.slice(x, axis, *_range(x, axis, start, length, step), step)


@row("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unsafe_split_with_sizes", view=True)
def _(e, x, split_sizes, dim=0):
    axis, start, parts = dim % x.rank, 0, []
    for i, fake in enumerate(e.fake):
        length = size(fake.shape[axis])
        parts.append(e.slice(x, axis, start, size(start + length)) if e.used(i) else None)
        start = size(start + length)
    return tuple(parts)


@row("unbind.int", view=True)
def _(e, x, dim=0):
    return tuple(_select(e, x, dim, i) if e.used(i) else None for i in range(len(e.fake)))


@row("diagonal", view=True)
def _(e, x, offset=0, dim1=0, dim2=1):
    a, b = dim1 % x.rank, dim2 % x.rank
    length = e.shape[-1]
    x = e.transpose(x, [i for i in range(x.rank) if i not in (a, b)] + [a, b])
    rows, columns = x.shape[-2:]
    flat = e.reshape(x, x.shape[:-2] + (rows * columns,))
    if not all(isinstance(n, int) for n in (rows, columns, length, offset)):
        start = size(sizes.larger(offset, 0) + sizes.larger(size(-offset), 0) * columns)
        return every_nth(e, flat, flat.rank - 1, start, length, size(columns + 1))
    start = offset if offset >= 0 else -offset * columns
    if length == 0:
        return e.slice(flat, -1, 0, 0)
    return e.slice(flat, -1, start, start + (length - 1) * (columns + 1) + 1, columns + 1)


@row("unfold", view=True)
def _(e, x, dimension, size, step):
    if x.rank == 0:
        x, step = e.slice(e.reshape(x, [1]), 0, 0, 1 if same_shape(e.shape, (1,)) else 0), 1
        return e.reshape(x, e.shape)
    return e.op("windows", [x], x.dtype, e.shape, axes=[dimension % x.rank], sizes=[size], strides=[step], dilations=[1])


@row("flip")
def _(e, x, dims):
    axes = sorted(d % x.rank for d in dims) if x.rank else []
    return e.op("flip", [x], x.dtype, x.shape, axes=axes) if axes else x


@row("roll")
def _(e, x, shifts, dims=()):
    shape = x.shape
    if not dims:
        x, dims = e.reshape(x, [sizes.product(shape)]), [0]
    for shift, dim in zip(shifts, dims):
        extent = x.shape[dim]
        if sizes.is_zero(extent):
            continue
        if (cut := sizes.remainder(size(-shift), extent)) != 0:
            x = e.concat([e.slice(x, dim, cut, extent), e.slice(x, dim, 0, cut)], dim)
    return e.reshape(x, shape)


@row("repeat")
def _(e, x, repeats):
    x = e.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
    apart = [n for extent in x.shape for n in (1, extent)]
    wide = [n for times, extent in zip(repeats, x.shape) for n in (times, extent)]
    return e.reshape(e.expand(e.reshape(x, apart), wide), e.shape)


@row("cat")
def _(e, tensors, dim=0):
    tensors = [t for t in tensors if not (t.rank == 1 and sizes.is_empty(t.shape))] or tensors[:1]
    return e.concat([e.cast(t, e.dtype) for t in tensors], dim)


@row("stack")
def _(e, tensors, dim=0):
    axis = dim % (tensors[0].rank + 1)
    return e.concat([e.reshape(e.cast(t, e.dtype), t.shape[:axis] + (1,) + t.shape[axis:]) for t in tensors], axis)


@row("constant_pad_nd")
def _(e, x, pad, value=0):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if e.dtype not in FLOATS:
        value = int(value)
    return e.pad(x, low, high, value)


@row(*(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def _(e, x, padding):
    """Gathers the outer axes by index. A gather would read the last axis element by element, so this axis is concatenated from three
    parts."""
    return padded_by_edges(e, x, padding, e.target._opname.startswith("reflection"), 1)


def padded_by_edges(e, x, padding, reflects, in_parts):
    """x padded by its own elements. in_parts: how many of the last axes are concatenated from parts if they are padded by constants."""
    for i in reversed(range(len(padding) // 2)):
        low, high = padding[2 * i:2 * i + 2]
        join = _padded_in_parts if i < in_parts and all(isinstance(n, int) for n in (low, high)) else _padded_by_place
        x = join(e, x, x.rank - 1 - i, low, high, reflects)
    return x


def _padded_by_place(e, x, axis, low, high, reflects):
    place = e.iota([size(x.shape[axis] + low + high)])
    number = lambda n: e.full(n, "i64")
    place, last = e.map("sub", place, number(low)), number(size(x.shape[axis] - 1))
    if reflects:
        for _ in range(2):  # at both ends
            place = e.map("sub", last, e.map("abs", place))
    else:
        place = e.map("minimum", e.map("maximum", place, number(0)), last)
    return e.gather(x, place, axis, wrap=False)


def _padded_in_parts(e, x, axis, low, high, reflects):
    """Pads one axis of x by concatenation. A negative low or high crops x."""
    n = x.shape[axis]

    def edge(count, start):
        if reflects:
            part = e.slice(x, axis, start, size(start + count))
            return e.op("flip", [part], part.dtype, part.shape, axes=[axis])
        part = e.slice(x, axis, start, size(start + 1))
        return e.expand(part, [*x.shape[:axis], count, *x.shape[axis + 1:]])

    parts = [e.slice(x, axis, max(-low, 0), size(n - max(-high, 0)))]
    if low > 0:
        parts.insert(0, edge(low, 1 if reflects else 0))
    if high > 0:
        parts.append(edge(high, size(n - 1 - high) if reflects else size(n - 1)))
    return e.concat(parts, axis)


@row("slice_scatter")
def _(e, x, source, dim=0, start=None, end=None, step=1):
    axis = dim % x.rank
    source = e.cast(source, x.dtype)
    length = source.shape[axis]
    if step != 1:
        indices = _stepped(e, bound(start, x.shape[axis], 0), length, step)
        return e.op("index_put", [x, indices, source], x.dtype, x.shape, axis=axis)
    start, end = _range(x, axis, start, length, step)
    return _overwrite(e, x, source, axis, start, end)


@row("select_scatter")
def _(e, x, source, dim, index):
    axis = dim % x.rank
    start = position(index, x.shape[axis])
    source = e.reshape(e.cast(source, x.dtype), x.shape[:axis] + (1,) + x.shape[axis + 1:])
    return _overwrite(e, x, source, axis, start, size(start + 1))


def _overwrite(e, x, source, axis, start, end):
    extent = x.shape[axis]
    parts = [] if sizes.same(start, 0) else [e.slice(x, axis, 0, start)]
    parts.append(source)
    if not sizes.same(end, extent):
        parts.append(e.slice(x, axis, end, extent))
    return e.concat(parts, axis)


# --- created tensors --------------------------------------------------------------------------------------------------
@row("full", "full_like", "new_full", "scalar_tensor", "fill.Scalar")
def _(e, *args, fill_value=None, **_):
    value = args[-1] if fill_value is None else fill_value
    return e.full(value, e.dtype, e.shape)


@row("fill.Tensor")
def _(e, x, value):
    return e.expand(e.cast(value, e.dtype), e.shape)


@row("zeros", "zeros_like", "new_zeros", "zero")
def _(e, *_, **__):
    return e.full(0, e.dtype, e.shape)


@row("empty.memory_format", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
def _(e, *_, **__):
    """Elements may have any value. With deterministic algorithms they have the value that eager mode gives them."""
    dtype = e.fake.dtype
    if not (torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory):
        value = 0
    elif dtype.is_floating_point:
        value = float("nan")
    else:
        value = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    return e.full(value, e.dtype, e.shape)


@row("ones", "ones_like", "new_ones")
def _(e, *_, **__):
    return e.full(1, e.dtype, e.shape)


@row("arange", "arange.start", "arange.start_step")
def _(e, *args, **_):
    start = args[0] if len(args) > 1 else 0
    step = args[2] if len(args) > 2 else 1
    if not all(isinstance(n, (int, float)) for n in (start, step)):
        if any(isinstance(n, float) and not n.is_integer() for n in (start, step)):
            raise Unsupported("arange of a fraction and a symbolic number")
        integer = lambda n: e.full(int(n) if isinstance(n, float) else n, "i64")
        steps = e.map("mul", e.iota(e.shape), integer(step))
        return e.cast(e.map("add", steps, integer(start)), e.dtype)
    if e.dtype in HALVES:
        return e.iota(e.shape, "f32", start=start, step=step)
    return e.iota(e.shape, e.dtype, start=start, step=step)


def evenly_spaced(e, low, high, count):
    """Numbers from low to high: multiples of the step, each added to the nearer end with one rounding, as PyTorch's kernel does."""
    number = lambda n: e.cast(e.full(n, "i64"), low.dtype)
    least_one = lambda n: e.cast(e.map("maximum", e.full(n, "i64"), e.full(1, "i64")), low.dtype)
    step = e.map("div", e.map("sub", high, low), least_one(count - 1))
    at = e.iota([count], low.dtype)
    up = e.map("fma", step, at, low)
    down = e.map("fma", step, e.map("sub", at, number(count - 1)), high)
    return e.map("where", e.map("lt", at, least_one(sizes.floor_div(count, 2))), up, down)


@row("linspace", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def _(e, start, end, steps, **_):
    is_float = lambda v: isinstance(v, (float, sizes.Real))
    end_of = lambda v: e.cast(v if isinstance(v, Operand) else e.full(v, e.dtype if is_float(v) else "i64"), e.dtype)
    return evenly_spaced(e, end_of(start), end_of(end), steps)


@row("eye", "eye.m")
def _(e, *_, **__):
    return e.cast(e.map("eq", e.iota(e.shape, axis=0), e.iota(e.shape, axis=1)), e.dtype)


@row("tril", "triu")
def _(e, x, diagonal=0):
    shape = x.shape[-2:]
    rows, columns = e.iota(shape, axis=0), e.iota(shape, axis=1)
    if not sizes.is_zero(diagonal):
        rows = e.map("add", rows, e.full(diagonal, "i64"))
    kept = e.map("le" if e.target._opname == "tril" else "ge", columns, rows)
    return e.map("where", kept, x, e.scalar_like(x, 0))

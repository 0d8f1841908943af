"""Rows that rearrange, create, gather or scatter elements. How rows are written: rows.py.

Tested by tests/torch/test_lower.py.
"""

from . import symexpr
from .lower import FLOATS, HALVES, Raw, Value, broadcast, same_shape
from .rows import row
from .symexpr import Unsupported, size


# --- views ------------------------------------------------------------------------------------------------------------
@row("view", view=True)
def _(e, x, shape):
    return e.reshape(x, e.shape)


@row("_unsafe_view")
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
    start = index if not isinstance(index, int) or index >= 0 else index + x.shape[axis]
    y = e.slice(x, axis, start, size(start + 1))
    return e.reshape(y, x.shape[:axis] + x.shape[axis + 1:])


def _bound(bound, extent, default):
    """A slice bound as PyTorch clamps it."""
    if bound is None:
        return default
    if isinstance(bound, int):
        if bound < 0:
            bound = size(bound + extent)
        if isinstance(bound, int) and isinstance(extent, int):
            return min(max(bound, 0), extent)
        if isinstance(bound, int) and bound >= 2**62:
            return extent
        if isinstance(bound, int) and bound == 0:
            return 0
    return bound


def _range(e, x, dim, start, end, step, length=None):
    """Normalised bounds of x[start:end:step], trusting the length PyTorch found where sizes are symbolic."""
    extent = x.shape[dim]
    start, end = _bound(start, extent, 0), _bound(end, extent, extent)
    if isinstance(start, int) and isinstance(end, int):
        end = max(end, start)
    elif length is not None:
        if not isinstance(start, int):
            raise Unsupported("a slice that starts at a symbolic position")
        end = size(start + length) if step == 1 else end
    return start, end


@row("slice.Tensor", view=True)
def _(e, x, dim=0, start=None, end=None, step=1):
    axis = dim % x.rank
    start, end = _range(e, x, axis, start, end, step, e.shape[axis])
    y = e.slice(x, axis, start, end, step)
    if not isinstance(end, int) and step != 1 and not same_shape(y.shape, e.shape):
        raise Unsupported("a slice with a step over a symbolic size")
    return y


@row("as_strided", view=True)
def _(e, x, shape, stride, storage_offset=None):
    """Only what changes nothing but the strides of axes of size 1, as average pooling does for channels-last."""
    strides = symexpr.sizes(x.fake.stride())
    if not same_shape(x.shape, e.shape) or not symexpr.same(storage_offset or 0, size(x.fake.storage_offset())) or not same_shape(
            symexpr.normal_strides(e.shape, strides), symexpr.normal_strides(e.shape, symexpr.sizes(stride))):
        raise Unsupported("as_strided that rearranges elements")
    return x


@row("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unsafe_split_with_sizes", view=True)
def _(e, x, sizes, dim=0):
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
    if not all(isinstance(n, int) for n in (x.shape[a], x.shape[b], length)):
        raise Unsupported("the diagonal of a symbolic size")
    x = e.transpose(x, [i for i in range(x.rank) if i not in (a, b)] + [a, b])
    rows, columns = x.shape[-2:]
    flat = e.reshape(x, x.shape[:-2] + (rows * columns,))
    start = offset if offset >= 0 else -offset * columns
    if length == 0:
        return e.slice(flat, -1, 0, 0)
    return e.slice(flat, -1, start, start + (length - 1) * (columns + 1) + 1, columns + 1)


@row("unfold", view=True)
def _(e, x, dimension, size, step):
    if x.rank == 0:
        raise Unsupported("unfold of a scalar")
    return e.op("windows", [x], x.dtype, e.shape, axes=[dimension % x.rank], sizes=[size], strides=[step], dilations=[1])


@row("flip")
def _(e, x, dims):
    axes = sorted(d % x.rank for d in dims) if x.rank else []
    return e.op("flip", [x], x.dtype, x.shape, axes=axes) if axes else x


@row("roll")
def _(e, x, shifts, dims=()):
    shape = x.shape
    if not dims:
        x, dims = e.reshape(x, [symexpr.product(shape)]), [0]
    for shift, dim in zip(shifts, dims):
        extent = x.shape[dim]
        if not isinstance(extent, int) or not isinstance(shift, int):
            raise Unsupported("roll over a symbolic size")
        if extent and shift % extent:
            cut = extent - shift % extent
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
    tensors = [t for t in tensors if not (t.rank == 1 and isinstance(t.shape[0], int) and t.shape[0] == 0)] or tensors[:1]
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
    return e.op("pad", [x], x.dtype, e.shape, low=low, high=high, value=Raw(repr(value)))


@row("slice_scatter")
def _(e, x, source, dim=0, start=None, end=None, step=1):
    axis = dim % x.rank
    start, end = _range(e, x, axis, start, end, step, source.shape[axis])
    source = e.cast(source, x.dtype)
    if step != 1:
        if not isinstance(start, int):
            raise Unsupported("slice_scatter with a step from a symbolic position")
        indices = e.iota([source.shape[axis]], start=start, step=step)
        return e.op("index_put", [x, indices, source], x.dtype, x.shape, axis=axis)
    return _overwrite(e, x, source, axis, start, end)


@row("select_scatter")
def _(e, x, source, dim, index):
    axis = dim % x.rank
    start = index if not isinstance(index, int) or index >= 0 else size(index + x.shape[axis])
    source = e.reshape(e.cast(source, x.dtype), x.shape[:axis] + (1,) + x.shape[axis + 1:])
    return _overwrite(e, x, source, axis, start, size(start + 1))


def _overwrite(e, x, source, axis, start, end):
    extent = x.shape[axis]
    parts = [] if symexpr.same(start, 0) else [e.slice(x, axis, 0, start)]
    parts.append(source)
    if not symexpr.same(end, extent):
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


@row("zeros", "zeros_like", "new_zeros", "zero", "empty.memory_format", "empty_like", "new_empty", "new_empty_strided",
     "empty_strided", "empty_permuted")
def _(e, *_, **__):
    return e.full(0, e.dtype, e.shape)  # any value is right for the empty ones


@row("ones", "ones_like", "new_ones")
def _(e, *_, **__):
    return e.full(1, e.dtype, e.shape)


@row("arange", "arange.start", "arange.start_step")
def _(e, *args, **_):
    start = args[0] if len(args) > 1 else 0
    step = args[2] if len(args) > 2 else 1
    if not all(isinstance(n, (int, float)) for n in (start, step)):
        if not isinstance(step, int):
            raise Unsupported("arange with a symbolic step")
        return e.map("add", e.iota(e.shape, e.dtype, step=step), e.full(start, e.dtype))
    if e.dtype in HALVES:
        return e.iota(e.shape, "f32", start=start, step=step)
    return e.iota(e.shape, e.dtype, start=start, step=step)


@row("eye", "eye.m")
def _(e, *_, **__):
    return e.cast(e.map("eq", e.iota(e.shape, axis=0), e.iota(e.shape, axis=1)), e.dtype)


@row("tril", "triu")
def _(e, x, diagonal=0):
    shape = x.shape[-2:]
    rows, columns = e.iota(shape, axis=0), e.iota(shape, axis=1)
    if not (isinstance(diagonal, int) and diagonal == 0):
        rows = e.map("add", rows, e.full(diagonal, "i64"))
    kept = e.map("le" if e.node.target._opname == "tril" else "ge", columns, rows)
    return e.map("where", kept, x, e.scalar_like(x, 0))


# --- gather and scatter -----------------------------------------------------------------------------------------------
def _index(e, indices):
    if indices.dtype not in ("i64", "i32"):
        indices = e.cast(indices, "i64")
    return indices


@row("embedding")
def _(e, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return e.gather(weight, _index(e, indices))


@row("index_select")
def _(e, x, dim, indices):
    if x.rank == 0:
        return x
    if indices.rank == 0:
        indices = e.reshape(indices, [1])
    return e.gather(x, _index(e, indices), dim)


@row("gather")
def _(e, x, dim, indices, sparse_grad=False):
    return e.op("take_along", [_fit(e, x, indices, dim), indices], x.dtype, indices.shape, axis=dim % x.rank)


def _fit(e, x, indices, dim):
    """x cut to the extents of the indices on the other axes, where PyTorch allows fewer."""
    if x.rank == 0 or indices.rank != x.rank:
        raise Unsupported("gather or scatter of a scalar")
    for axis in range(x.rank):
        if axis != dim % x.rank:
            x = e.slice(x, axis, 0, indices.shape[axis])
    return x


@row("scatter.src", "scatter.value", "scatter_add")
def _(e, x, dim, indices, source):
    if isinstance(source, Value):
        source = e.cast(source, x.dtype)
        for axis in range(x.rank):
            source = e.slice(source, axis, 0, indices.shape[axis])
    else:
        source = e.full(source, x.dtype, indices.shape)
    if x.rank == 0 or indices.rank != x.rank:
        raise Unsupported("scatter into a scalar")
    if any(not symexpr.same(x.shape[i], indices.shape[i]) for i in range(x.rank) if i != dim % x.rank):
        raise Unsupported("scatter with fewer indices than positions on another axis")
    mode = "add" if e.node.target._opname == "scatter_add" else "set"
    return e.op("scatter", [x, indices, source], x.dtype, x.shape, axis=dim % x.rank, mode=mode)


def _positions(e, x, indices):
    """x[..., i, j, ...] with adjacent integer indices as (x with those axes merged, one index tensor, axis)."""
    axes = [i for i, index in enumerate(indices) if index is not None]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise Unsupported("index tensors on axes that are not adjacent")
    given = [_index(e, e.cast(indices[i], "i64")) if len(axes) > 1 else _index(e, indices[i]) for i in axes]
    extents = [x.shape[i] for i in axes]
    flat = given[0]
    if len(axes) > 1:
        given = [_wrap(e, g, n) for g, n in zip(given, extents)]
        flat = given[0]
        for g, n in zip(given[1:], extents[1:]):
            flat = e.map("add", e.map("mul", flat, e.full(n, "i64")), g)
        x = e.reshape(x, x.shape[:axes[0]] + (symexpr.product(extents),) + x.shape[axes[-1] + 1:])
    return x, flat, axes[0]


def _wrap(e, index, extent):
    return e.map("where", e.map("lt", index, e.full(0, "i64")), e.map("add", index, e.full(extent, "i64")), index)


@row("index.Tensor", "_unsafe_index.Tensor")
def _(e, x, indices):
    if any(index is not None and index.dtype in ("bool", "u8") for index in indices):
        raise Unsupported("indexing by a mask: the size of the result depends on values")
    axes = [i for i, index in enumerate(indices) if index is not None]
    outer = _outer(indices, axes)
    if len(axes) > 1 and outer:  # each index varies along its own axis of the result: one gather each
        for i in axes:
            x = e.gather(x, e.reshape(_index(e, indices[i]), [symexpr.product(indices[i].shape)]), i)
        return e.reshape(x, e.shape)
    return e.gather(*_positions(e, x, indices))


def _outer(indices, axes):
    if axes != list(range(axes[0], axes[0] + len(axes))) or broadcast(*(indices[i].shape for i in axes)) == ():
        return False
    rank = max(indices[i].rank for i in axes)
    last = -1
    for i in axes:
        shape = (1,) * (rank - indices[i].rank) + indices[i].shape
        own = [a for a, n in enumerate(shape) if not (isinstance(n, int) and n == 1)]
        if len(own) > 1 or own and own[0] <= last:
            return False
        last = own[0] if own else last
    return True


@row("index_put", "_unsafe_index_put")
def _(e, x, indices, values, accumulate=False):
    values = e.cast(values, x.dtype)
    if len(indices) >= 1 and any(index is not None and index.dtype in ("bool", "u8") for index in indices):
        mask = indices[0]
        if len(indices) != 1 or accumulate or symexpr.product(values.shape) != 1:
            raise Unsupported("writing more than one value through a mask")
        mask = e.reshape(e.cast(mask, "bool"), mask.shape + (1,) * (x.rank - mask.rank))
        return e.map("where", mask, e.reshape(values, []), x)
    shape = x.shape
    x, flat, axis = _positions(e, x, indices)
    values = e.expand(values, x.shape[:axis] + flat.shape + x.shape[axis + 1:])
    y = e.op("index_put", [x, flat, values], x.dtype, x.shape, axis=axis, mode="add" if accumulate else "set")
    return e.reshape(y, shape)

"""Rows that index and scatter: gather, index_put, the index_* family, scatter_reduce, take, masked writes. How rows are
written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ...graph_text import FLOATS, Unsupported, Value
from ..lowering import sizes
from ..lowering.emitter import CPU
from ..lowering.sizes import broadcast
from .map import number_is, scaled
from .row import row

_INTS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8}
_MODES = {"sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def neutral(mode, dtype):
    """The neutral element of a fold."""
    if mode in ("add", "mul"):
        return 0 if mode == "add" else 1
    low = mode == "max"
    if dtype in FLOATS:
        return -math.inf if low else math.inf
    if dtype in _INTS:
        return -2**(_INTS[dtype] - 1) if low else 2**(_INTS[dtype] - 1) - 1
    return 0 if low else 1 if dtype == "bool" else 255


def _vector(e, v):
    return e.reshape(v, [1]) if isinstance(v, Value) and v.rank == 0 else v


def _long(index):
    """The index, if it is of i64. PyTorch refuses other dtypes when it runs, but not when it traces."""
    if index.dtype != "i64":
        raise Unsupported(f"an index of {index.dtype}, which PyTorch refuses")
    return index


def _put(e, x, axis, index, updates, mode="set", wrap=False):
    return e.op("index_put", [x, index, updates], x.dtype, x.shape, axis=axis, mode=mode, wrap=None if wrap else False)


# --- gather -----------------------------------------------------------------------------------------------------------
def _index(e, indices):
    if indices.dtype not in ("i64", "i32"):
        indices = e.cast(indices, "i64")
    return indices


@row("embedding")
def _(e, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return e.gather(weight, _index(e, indices), wrap=False)


@row("index_select")
def _(e, x, dim, indices):
    if x.rank == 0:
        return x
    if indices.rank == 0:
        indices = e.reshape(indices, [1])
    return e.gather(x, _index(e, indices), dim, wrap=False)


def _index_of_rows(e, index, axis, x):
    """The index of each row of x as a vector, if `index` repeats it along the other axes, as index[:, None].expand(-1, n) does; else
    None."""
    others = [i for i in range(index.rank) if i != axis]
    if not others or any(index.fake.stride(i) != 0 for i in others):
        return None
    if not all(sizes.same(index.shape[i], x.shape[i]) and sizes.at_least(index.shape[i], 1) for i in others):
        return None
    for i in others:
        index = e.slice(index, i, 0, 1)
    return e.reshape(index, [index.shape[axis]])


@row("gather")
def _(e, x, dim, indices, sparse_grad=False):
    if x.rank and indices.rank and (rows := _index_of_rows(e, indices, dim % x.rank, x)) is not None:
        return e.gather(x, _index(e, rows), dim, wrap=False)
    x, index = _vector(e, x), _vector(e, _index(e, indices))
    for axis in range(x.rank):  # on the other axes PyTorch allows fewer indices than positions
        if axis != dim % x.rank:
            x = e.slice(x, axis, 0, index.shape[axis])
    y = e.op("take_along", [x, index], x.dtype, index.shape, axis=dim % x.rank, wrap=False)
    return e.reshape(y, indices.shape)


# --- index_* ----------------------------------------------------------------------------------------------------------
def _rows_of(e, x, dim, index, source):
    """(x with at least one axis, axis, index as a vector, source in the shape of the rows that the index names)."""
    x, index = _vector(e, x), _vector(e, index)
    axis = dim % x.rank
    wanted = x.shape[:axis] + index.shape + x.shape[axis + 1:]
    if isinstance(source, Value):
        source = e.cast(source, x.dtype)
        source = e.reshape(source, wanted) if source.rank < x.rank else source
    elif source is not None:
        source = e.full(source, x.dtype, wanted)
    return x, axis, index, source


@row("index_add")
def _(e, x, dim, index, source, alpha=1):
    """PyTorch adds slices of 16-bit floats in f32 and single elements in 16 bits."""
    shape = x.shape
    x, axis, index, source = _rows_of(e, x, dim, index, source)
    if not number_is(alpha, 1) or x.rank > 1 and e.device == CPU:
        x, source = e.wide(x), e.wide(source)
    return e.reshape(e.cast(_put(e, x, axis, index, scaled(e, source, alpha), "add"), e.dtype), shape)


@row("index_copy")
def _(e, x, dim, index, source):
    shape = x.shape
    x, axis, index, source = _rows_of(e, x, dim, _long(index), source)
    return e.reshape(_put(e, x, axis, index, source), shape)


@row("index_fill.int_Scalar")
def _(e, x, dim, index, value):
    shape = x.shape
    x, axis, index, source = _rows_of(e, x, dim, _long(index), value)
    return e.reshape(_put(e, x, axis, index, source, wrap=True), shape)


@row("index_fill.int_Tensor")
def _(e, x, dim, index, value):
    shape = x.shape
    value = e.cast(value, x.dtype)
    x, axis, index, _ = _rows_of(e, x, dim, _long(index), None)
    source = e.expand(value, x.shape[:axis] + index.shape + x.shape[axis + 1:])
    return e.reshape(_put(e, x, axis, index, source, wrap=True), shape)


def _mean(e, total, count):
    if total.dtype == "bool":
        raise Unsupported("the mean of bools")
    count = e.map("maximum", count, e.scalar_like(count, 1))
    return e.map("div" if total.dtype in FLOATS else "floor_div", total, count)


@row("index_reduce")
def _(e, x, dim, index, source, reduce, include_self=True):
    shape = x.shape
    x, axis, index, source = _rows_of(e, x, dim, index, source)
    return e.reshape(_fold_rows(e, x, axis, index, source, _MODES[reduce], include_self, reduce == "mean"), shape)


def _fold_rows(e, x, axis, index, source, mode, include_self, mean):
    """Folds the slices of source along an axis into the slices of x that the vector `index` names."""
    def of_rows(start, update, how):
        """A number for each slice of x: start, and `update` for each time that the index names the slice."""
        number = _put(e, e.expand(start, [x.shape[axis]]), 0, index, e.expand(update, index.shape), how)
        return e.reshape(number, number.shape + (1,) * (x.rank - axis - 1))

    into = x
    if not include_self:
        named = of_rows(e.full(False, "bool"), e.full(True, "bool"), "set")
        into = e.map("where", named, e.full(neutral(mode, x.dtype), x.dtype), x)
    y = _put(e, into, axis, index, source, mode)
    if mean:
        y = _mean(e, y, of_rows(e.full(int(bool(include_self)), x.dtype), e.full(1, x.dtype), "add"))
    return y


# --- scatter ----------------------------------------------------------------------------------------------------------
def _scatter(e, x, axis, index, source, mode):
    """source has the shape of index. On the other axes there may be fewer indices than elements; the rest of x does not change."""
    for other in range(x.rank):
        have, want = x.shape[other], index.shape[other]
        if other != axis and not sizes.same(have, want):
            part = _scatter(e, e.slice(x, other, 0, want), axis, index, source, mode)
            return e.concat([part, e.slice(x, other, want, have)], other)
    return e.op("scatter", [x, index, source], x.dtype, x.shape, axis=axis, mode=mode, wrap=False)


def _folded(e, x, dim, index, source, mode, include_self=True, mean=False):
    """Folds source into x. 16-bit floats are folded in f32 and rounded once, as in PyTorch."""
    dtype, shape = x.dtype, x.shape
    if isinstance(source, Value):
        source = _vector(e, e.cast(source, dtype))
    x, index = _vector(e, x), _vector(e, index)
    axis = dim % x.rank
    if sizes.is_empty(index.shape):
        return e.reshape(x, shape)
    rows = _index_of_rows(e, index, axis, x) if shape else None
    if isinstance(source, Value):
        for i, n in enumerate(index.shape):
            source = e.slice(source, i, 0, n)
    else:
        source = e.full(source, dtype, index.shape)
    if mode != "set":
        x, source = e.wide(x), e.wide(source)

    if rows is not None:
        y = _fold_rows(e, x, axis, rows, source, mode, include_self, mean)
    else:
        if not include_self:
            x = _scatter(e, x, axis, index, e.full(neutral(mode, dtype), x.dtype, index.shape), "set")
        y = _scatter(e, x, axis, index, source, mode)
        if mean:
            count = _scatter(e, e.full(int(bool(include_self)), x.dtype, x.shape), axis, index, e.full(1, x.dtype, index.shape), "add")
            y = _mean(e, y, count)
    return e.reshape(e.cast(y, dtype), shape)


@row("scatter.src", "scatter.value")
def _(e, x, dim, index, source):
    return _folded(e, x, dim, index, source, "set")


@row("scatter_add")
def _(e, x, dim, index, source):
    return _folded(e, x, dim, index, source, "add")


@row("scatter.reduce", "scatter.value_reduce")
def _(e, x, dim, index, source, reduce):
    return _folded(e, x, dim, index, source, _MODES[reduce])


@row("scatter_reduce.two")
def _(e, x, dim, index, source, reduce, include_self=True):
    return _folded(e, x, dim, index, source, _MODES[reduce], include_self, reduce == "mean")


# --- flat places and masks --------------------------------------------------------------------------------------------
@row("take")
def _(e, x, index):
    return e.gather(e.reshape(x, [sizes.product(x.shape)]), index, 0)


@row("put")
def _(e, x, index, source, accumulate=False):
    count = sizes.product(index.shape)
    flat = e.reshape(x, [sizes.product(x.shape)])
    y = _put(e, flat, 0, e.reshape(_long(index), [count]), e.reshape(source, [count]), "add" if accumulate else "set", True)
    return e.reshape(y, x.shape)


def _ranks(e, mask):
    """(for each element of the flattened mask, how many earlier elements are true; how many are true in all)."""
    count = sizes.product(mask.shape)
    flat = e.cast(e.reshape(mask, [count]), "i64")
    ends = e.op("cumsum", [flat], "i64", flat.shape, axis=0)
    return e.map("sub", ends, flat), e.reduce("sum", flat, [0])


@row("masked_scatter")
def _(e, x, mask, source):
    if sizes.is_empty(e.shape) or sizes.is_empty(source.shape):
        return e.expand(x, e.shape)
    x, mask = e.expand(x, e.shape), e.expand(e.cast(mask, "bool"), e.shape)
    flat = e.reshape(mask, [sizes.product(e.shape)])
    # Behind the last true element the rank may be out of range, so elements that are not true read element 0.
    place = e.map("where", flat, _ranks(e, mask)[0], e.full(0, "i64"))
    values = e.gather(e.reshape(source, [sizes.product(source.shape)]), place, 0, wrap=False)
    return e.map("where", mask, e.reshape(values, e.shape), x)


@row("masked_scatter_backward")
def _(e, grad, mask, source_sizes):
    """Each element of grad where the mask is true moves to the place of its rank; the others go behind the end."""
    shape = sizes.sizes(source_sizes)
    count = sizes.product(shape)
    if sizes.is_empty(grad.shape):
        return e.full(0, grad.dtype, shape)
    mask = e.reshape(e.expand(e.cast(mask, "bool"), grad.shape), [sizes.product(grad.shape)])
    place = e.map("where", mask, _ranks(e, mask)[0], e.full(count, "i64"))
    y = _put(e, e.full(0, grad.dtype, [sizes.size(count + 1)]), 0, place, e.reshape(grad, mask.shape))
    return e.reshape(e.slice(y, 0, 0, count), shape)


def put_through_mask(e, x, mask, values, accumulate):
    """index_put with one mask for the first axes of x. The values broadcast to the rows where the mask is true."""
    mask = e.cast(mask, "bool")
    behind = x.shape[mask.rank:]
    wide = e.reshape(mask, mask.shape + (1,) * len(behind))
    if values.rank == len(behind) + 1 and not sizes.is_one(values.shape[0]):
        number = values.shape[0]
        if sizes.is_empty(values.shape) or sizes.is_empty(x.shape):
            return x
        place, total = _ranks(e, mask)
        # Unless there are as many rows as true elements, an index is out of range, which is a fault: PyTorch then raises its error.
        wrong = e.map("index_in", e.map("sub", total, e.full(number, "i64")), e.full(1, "i64"))
        place = e.map("where", e.reshape(mask, place.shape), place, e.full(0, "i64"))
        values = e.gather(values, e.map("add", place, wrong), 0, wrap=False)
        values = e.reshape(values, mask.shape + values.shape[1:])
    elif values.rank == len(behind) + 1:
        values = e.reshape(values, values.shape[1:])
    if accumulate:
        values = e.map("logical_or" if x.dtype == "bool" else "add", x, values)
    return e.map("where", wide, e.expand(values, x.shape), x)


def _given(indices):
    """The axes that have an index tensor."""
    return [i for i, index in enumerate(indices) if index is not None]


def apart(indices):
    """Whether the axes with index tensors are not adjacent. If so, the axes of the indices come first in the result."""
    axes = _given(indices)
    return axes != list(range(axes[0], axes[0] + len(axes)))


def _one_by_one(e, x, indices, values):
    """For index tensors on axes that are not adjacent: (x as a vector, the position in it of each element of x[indices], the values
    for these positions). They are in the order of x[indices]: the axes of the indices, then the others."""
    axes = _given(indices)
    others = [i for i in range(x.rank) if i not in axes]
    lead = broadcast(*(indices[i].shape for i in axes))
    shape = lead + tuple(x.shape[i] for i in others)
    place = None
    for i in range(x.rank):
        if i in axes:
            here = _wrap(e, e.cast(indices[i], "i64"), x.shape[i])
            here = e.reshape(here, here.shape + (1,) * len(others))
        else:
            behind = len(others) - others.index(i) - 1
            here = e.reshape(e.iota([x.shape[i]]), (x.shape[i],) + (1,) * behind)
        place = here if place is None else e.map("add", e.map("mul", place, e.full(x.shape[i], "i64")), here)
    count = [sizes.product(shape)]
    values = e.reshape(e.expand(values, shape), count)
    return e.reshape(x, [sizes.product(x.shape)]), [e.reshape(e.expand(place, shape), count)], values


# --- index tensors ----------------------------------------------------------------------------------------------------
def _positions(e, x, indices):
    """x[..., i, j, ...] with integer indices on adjacent axes, as (x with these axes merged, one index tensor, axis, wrap)."""
    axes = _given(indices)
    given = [_index(e, e.cast(indices[i], "i64")) if len(axes) > 1 else _index(e, indices[i]) for i in axes]
    extents = [x.shape[i] for i in axes]
    flat = given[0]
    if len(axes) > 1:
        given = [_wrap(e, g, n) for g, n in zip(given, extents)]
        flat = given[0]
        for g, n in zip(given[1:], extents[1:]):
            flat = e.map("add", e.map("mul", flat, e.full(n, "i64")), g)
        x = e.reshape(x, x.shape[:axes[0]] + (sizes.product(extents),) + x.shape[axes[-1] + 1:])
    return x, flat, axes[0], len(axes) == 1


def _wrap(e, index, extent):
    extent = e.full(extent, "i64")
    return e.map("index_in", e.map("where", e.map("lt", index, e.full(0, "i64")), e.map("add", index, extent), index), extent)


@row("_unsafe_index.Tensor")
def _(e, x, indices):
    return _take(e, x, indices, False)


@row("index.Tensor")
def _(e, x, indices):
    return _take(e, x, indices, True)


def _take(e, x, indices, wrap):
    """x[indices]. indices: None for an axis without an index; wrap: whether negative indices count from the end."""
    if any(index is not None and index.dtype in ("bool", "u8") for index in indices):
        raise Unsupported("indexing by a mask: the size of the result depends on values")
    if apart(indices):
        axes = _given(indices)
        x = e.transpose(x, axes + [i for i in range(x.rank) if i not in axes])
        indices = [indices[i] for i in axes]
    axes = _given(indices)
    outer = _outer(indices, axes)
    if len(axes) > 1 and outer:  # each index varies along its own axis of the result, so one gather per index does it
        for i in axes:
            x = e.gather(x, e.reshape(_index(e, indices[i]), [sizes.product(indices[i].shape)]), i, wrap)
        return e.reshape(x, e.shape)
    *taken, one_axis = _positions(e, x, indices)
    return e.gather(*taken, wrap and one_axis)


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
        if len(indices) != 1:
            raise Unsupported("writing through a mask beside other indices")
        return put_through_mask(e, x, mask, values, accumulate)
    shape = x.shape
    if apart(indices):
        x, indices, values = _one_by_one(e, x, indices, values)
    x, flat, axis, wrap = _positions(e, x, indices)
    values = e.expand(values, x.shape[:axis] + flat.shape + x.shape[axis + 1:])
    return e.reshape(_put(e, x, axis, flat, values, "add" if accumulate else "set", wrap), shape)


# --- segments ---------------------------------------------------------------------------------------------------------
_FEW = 2048  # up to so many single elements, Tenon is done before a call of PyTorch has begun
_FOLDS = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


@row("segment_reduce")
def _(e, x, reduce, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Folds each element into its segment. An element's segment number is how many segments end at or before the element."""
    bounds = lengths if lengths is not None else offsets
    if indices is not None or bounds is None:
        raise Unsupported("segment_reduce with indices instead of lengths or offsets")
    axis, number, mode = axis % x.rank, (lambda n: e.full(n, "i64")), _FOLDS[reduce]
    lead, count, behind = sizes.product(x.shape[:axis]), x.shape[axis], x.shape[axis + 1:]
    segments = e.shape[axis]
    if sizes.is_empty(x.shape) or sizes.is_empty(e.shape):
        raise Unsupported("segment_reduce of no elements")
    if not behind and sizes.at_least(sizes.product(x.shape), _FEW + 1) is not False:
        raise Unsupported("segment_reduce of many single elements, which PyTorch computes faster")
    bounds = e.reshape(e.cast(bounds, "i64"), (lead, bounds.shape[-1]))
    if lengths is None:
        ends = e.slice(bounds, 1, 1, bounds.shape[1])
        starts = e.slice(bounds, 1, 0, segments)
        lengths, first = e.map("sub", ends, starts), e.slice(bounds, 1, 0, 1)
    else:
        ends = e.op("cumsum", [bounds], "i64", bounds.shape, axis=1)
        lengths, first = bounds, None
    # An index is out of range if a length is negative, the first start is not 0 or the last end is not the size of the axis.
    lengths = e.map("index_in", lengths, number(sizes.size(count + 1)))
    last = e.slice(ends, 1, sizes.size(segments - 1), segments)
    wrong = e.map("index_in", e.map("sub", last, number(count)), number(1))
    if first is not None:
        wrong = e.map("add", wrong, e.map("index_in", first, number(1)))
    marks = e.op("scatter", [e.full(0, "i64", (lead, sizes.size(count + 1))), ends, e.full(1, "i64", ends.shape)], "i64",
                 (lead, sizes.size(count + 1)), axis=1, mode="add", wrap=False)
    marks = e.slice(marks, 1, 0, count)
    place = e.map("add", e.op("cumsum", [marks], "i64", marks.shape, axis=1), wrong)
    if not (isinstance(lead, int) and lead == 1):
        place = e.map("add", place, e.map("mul", e.iota(place.shape, axis=0), number(segments)))
    rows = sizes.product([lead, segments])
    start = neutral(mode, x.dtype) if initial is None else initial
    data = e.reshape(x, (sizes.product([lead, count]), *behind))
    y = _put(e, e.full(start, x.dtype, (rows, *behind)), 0, e.reshape(place, data.shape[:1]), data, mode)
    lengths = e.reshape(lengths, (rows,) + (1,) * len(behind))
    if reduce == "mean":
        some = e.map("gt", lengths, number(0))
        none = e.scalar_like(y, math.nan) if initial is None else y
        y = e.map("where", some, e.map("div", y, e.cast(lengths, y.dtype)), none)
    else:  # reads the lengths, so that their check is computed
        y = e.map("where", e.map("ge", lengths, number(0)), y, e.scalar_like(y, 0))
    return e.reshape(y, e.shape)


@row("nonzero_static")
def _(e, x, size, fill_value=-1):
    """Numbers the elements that are not zero. Each of the first `size` writes its position at its number; all others write behind the
    end."""
    if x.rank == 0:
        return e.full(0, "i64", e.shape)  # a place has no coordinates
    if not isinstance(size, int):
        raise Unsupported("nonzero_static of a symbolic size")
    number = lambda n: e.full(n, "i64")
    positive = lambda n: e.map("maximum", number(n), number(1))
    count = sizes.product(x.shape)
    found = e.reshape(e.map("ne", x, e.scalar_like(x, 0)), [count])
    numbers = e.op("cumsum", [e.cast(found, "i64")], "i64", [count], axis=0)
    at = e.map("minimum", e.map("where", found, e.map("sub", numbers, number(1)), number(size)), number(size))
    places = e.slice(_put(e, e.full(-1, "i64", [size + 1]), 0, at, e.iota([count])), 0, 0, size)
    missing = e.map("lt", places, number(0))
    columns = []
    for axis in range(x.rank):
        behind = sizes.product(x.shape[axis + 1:])
        column = e.map("remainder", e.map("floor_div", places, positive(behind)), positive(x.shape[axis]))
        columns.append(e.reshape(e.map("where", missing, number(fill_value), column), [size, 1]))
    return e.concat(columns, 1)

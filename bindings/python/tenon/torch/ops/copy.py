"""Rows of ops that copy a view, and of moves that consist of several views: as_strided, diagonal_scatter, rot90, block_diag.

How rows are written: row.py. Tested by tests/torch/test_lower.py.
"""

import operator

from ...graph_text import Unsupported
from ..lowering import layouts, sizes
from ..lowering.sizes import floor_div, same_shape, size
from ..lowering.views import is_view
from . import map as _map  # noqa: F401  (its rows are copied below)
from .move import every_nth, position
from .row import TABLE, Row, row

# The row of a view also computes the op that copies the view. The copy shares no memory with the operand.
for _name in ("alias.default", "detach.default", "diagonal.default", "expand.default", "permute.default", "select.int",
              "slice.Tensor", "split.Tensor", "split_with_sizes.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
              "t.default", "transpose.int", "unbind.int", "unfold.default", "unsqueeze.default", "view.default"):
    _op, _overload = _name.split(".")
    TABLE[f"aten.{_op}_copy.{_overload}"] = Row(TABLE["aten." + _name].emit, view=False)


@row("narrow_copy")
def _(e, x, dim, start, length):
    axis = dim % x.rank
    start = position(start, x.shape[axis])
    return e.slice(x, axis, start, size(start + length))


# --- as_strided -------------------------------------------------------------------------------------------------------
def _memory(e, x, strides):
    """(the elements of x as a vector in the order of memory, a function that turns such a vector back into x's shape). Raises
    Unsupported if elements overlap or leave gaps."""
    shape, strides = x.shape, layouts.normal_strides(x.shape, strides)
    if not all(isinstance(n, int) for n in (*shape, *strides)) and not layouts.is_dense(shape, strides):
        raise Unsupported("as_strided of symbolic sizes that are not contiguous")
    if layouts.is_dense(shape, strides):
        perm = list(range(x.rank))
    else:
        perm = sorted(range(x.rank), key=lambda i: (-strides[i], -shape[i]))
        expected = 1
        for i in reversed(perm):
            if shape[i] != 1 and strides[i] != expected:
                raise Unsupported("as_strided of a tensor whose elements overlap or leave gaps")
            expected *= shape[i]
    inverse = sorted(range(x.rank), key=perm.__getitem__)
    inner = [shape[i] for i in perm]
    flat = e.reshape(e.transpose(x, perm), [sizes.product(shape)])
    return flat, lambda v: e.transpose(e.reshape(v, inner), inverse)


def _start(e, x, offset):
    """The distance from x's first element to the element at a storage offset. If x is an input of the graph, each call checks that
    its own storage offset is that of the trace. Raises Unsupported if the offset is a symbol."""
    if offset is None:
        return 0
    node = e.node.args[0]
    while node.target is operator.getitem or is_view(node, TABLE):
        node = node.args[0]
    if node.op == "placeholder" and isinstance(node.meta["val"].storage_offset(), int):
        e.placed.append(node)
    elif node.op != "call_function" or str(node.target) not in TABLE:
        raise Unsupported("as_strided with a storage offset, of a tensor whose own storage offset may change between calls")
    return size(size(offset) - size(x.fake.storage_offset()))


def _as_strided(e, x, shape, stride, offset):
    """A view of x's memory. One `windows` per axis of the result, as wide as the memory that the later axes span."""
    shape, strides = sizes.sizes(shape), sizes.sizes(stride)
    start = _start(e, x, offset)
    if sizes.is_empty(shape):
        return e.full(0, x.dtype, shape)
    if sizes.is_empty(x.shape):
        raise Unsupported("as_strided of a tensor without elements")
    x_strides = sizes.sizes(x.fake.stride())
    for axis, n in enumerate(x_strides):
        if sizes.is_zero(n):
            x = e.slice(x, axis, 0, 1)  # an expanded axis has one element in memory
    flat, _ = _memory(e, x, x_strides)
    if not all(isinstance(n, int) for n in (*shape, *strides, start)):
        return e.gather(flat, _places(e, shape, strides, start), 0, wrap=False)
    steps = [s if n > 1 else 0 for n, s in zip(shape, strides)]
    span = lambda i: 1 + sum((n - 1) * s for n, s in zip(shape[i:], steps[i:]))
    if start < 0 or not isinstance(flat.shape[0], int) or start + span(0) > flat.shape[0]:
        raise Unsupported("as_strided that reads memory outside of its operand")
    y = e.slice(flat, 0, start, start + span(0))
    for i, (n, step) in enumerate(zip(shape, steps)):
        wide = span(i + 1)
        if step == 0:
            y = e.expand(e.reshape(y, (*shape[:i], 1, wide)), (*shape[:i], n, wide))
        else:
            y = e.op("windows", [y], y.dtype, (*shape[:i], n, wide), axes=[i], sizes=[wide], strides=[step], dilations=[1])
    return e.reshape(y, shape)


def _places(e, shape, strides, start):
    """A tensor of this shape whose elements are start + the sum of index * stride over the axes."""
    places = e.full(start, "i64", shape)
    for axis, stride in enumerate(strides):
        if not sizes.is_zero(stride):
            places = e.map("add", places, e.map("mul", e.iota(shape, axis=axis), e.full(stride, "i64")))
    return places


@row("as_strided_copy")
def _(e, x, shape, stride, storage_offset=None):
    return _as_strided(e, x, shape, stride, storage_offset)


@row("as_strided", view=True)
def _(e, x, shape, stride, storage_offset=None):
    strides = sizes.sizes(x.fake.stride())
    if same_shape(x.shape, e.shape) and sizes.same(storage_offset or 0, size(x.fake.storage_offset())) and same_shape(
            layouts.normal_strides(e.shape, strides), layouts.normal_strides(e.shape, sizes.sizes(stride))):
        return x  # only the strides of axes of size 1 differ; average pooling of a channels-last tensor does this
    return _as_strided(e, x, shape, stride, storage_offset)


@row("as_strided_scatter")
def _(e, x, source, shape, stride, storage_offset=None):
    start = _start(e, x, storage_offset)
    shape, strides = sizes.sizes(shape), sizes.sizes(stride)
    if layouts.overlaps(shape, strides):
        raise Unsupported("as_strided_scatter into elements that overlap")
    flat, back = _memory(e, x, sizes.sizes(x.fake.stride()))
    if all(isinstance(n, int) for n in (*shape, *strides, start, *flat.shape)):
        return back(_overwritten(e, flat, e.cast(source, x.dtype), shape, strides, start))
    places = e.reshape(_places(e, shape, strides, start), [sizes.product(shape)])
    source = e.reshape(e.cast(source, x.dtype), [sizes.product(shape)])
    return back(e.op("scatter", [flat, places, source], x.dtype, flat.shape, axis=0, mode="set", wrap=False))


def _overwritten(e, memory, source, shape, strides, start):
    """The vector `memory`, overwritten with the elements of source at the positions that these strides give. From the longest stride
    to the shortest, it cuts the vector into rows and writes the front of each row."""
    order = sorted((i for i in range(len(shape)) if shape[i] != 1), key=lambda i: -strides[i])
    if 0 in shape:
        return memory
    source = e.reshape(e.transpose(source, [i for i in range(len(shape)) if shape[i] == 1] + order), [shape[i] for i in order])
    if start < 0 or start + sum((shape[i] - 1) * strides[i] for i in order) >= memory.shape[0]:
        raise Unsupported("as_strided_scatter outside of its operand")

    def write(v, start, rest):
        """v, overwritten with source from `start` on along v's last axis. v's other axes are the axes of source before `rest`."""
        axis, length = v.rank - 1, v.shape[-1]
        if not rest:
            there = e.reshape(source, v.shape[:-1] + (1,))
            after = start + 1
        else:
            count, step = shape[rest[0]], strides[rest[0]]
            after = min(start + count * step, length)
            rows = e.slice(v, axis, start, after)
            if missing := count * step - rows.shape[-1]:
                none = [0] * v.rank
                rows = e.pad(rows, none, none[:-1] + [missing])
            rows = write(e.reshape(rows, v.shape[:-1] + (count, step)), 0, rest[1:])
            there = e.slice(e.reshape(rows, v.shape[:-1] + (count * step,)), axis, 0, after - start)
        parts = [e.slice(v, axis, 0, start)] * (start > 0) + [there] + [e.slice(v, axis, after, length)] * (after < length)
        return e.concat(parts, axis)

    return write(memory, start, order)


# --- several views ----------------------------------------------------------------------------------------------------
@row("diagonal_scatter")
def _(e, x, source, offset=0, dim1=0, dim2=1):
    a, b = dim1 % x.rank, dim2 % x.rank
    source = e.cast(source, x.dtype)
    length = source.shape[-1]
    if sizes.is_zero(length):
        return x
    perm = [i for i in range(x.rank) if i not in (a, b)] + [a, b]
    y = e.transpose(x, perm)
    rows, columns = e.iota(y.shape[-2:], axis=0), e.iota(y.shape[-2:], axis=1)
    number = lambda n: e.full(n, "i64")
    on = e.map("eq", columns, e.map("add", rows, number(offset)))
    place = e.iota(y.shape[-2:-1])  # for each row, the position of its element in the source
    if not (isinstance(offset, int) and offset >= 0):
        place = e.map("add", place, number(sizes.smaller(offset, 0)))
    place = e.map("maximum", number(0), e.map("minimum", place, number(size(length - 1))))
    source = e.gather(source, place, source.rank - 1)
    y = e.map("where", on, e.reshape(source, source.shape + (1,)), y)
    return e.transpose(y, sorted(range(x.rank), key=perm.__getitem__))


@row("trace")
def _(e, x):
    length = min(x.shape) if all(isinstance(n, int) for n in x.shape) else sizes.smaller(*x.shape)
    rows, columns = x.shape
    flat = e.reshape(e.wide(e.cast(x, e.dtype)), [size(rows * columns)])
    return e.reduce("sum", every_nth(e, flat, 0, 0, length, size(columns + 1)), [0])


@row("rot90")
def _(e, x, k=1, dims=(0, 1)):
    a, b = (d % x.rank for d in dims)
    flip = lambda v, *axes: e.op("flip", [v], v.dtype, v.shape, axes=sorted(axes))
    k %= 4
    if k == 0:
        return x
    return flip(x, a, b) if k == 2 else e.swap(flip(x, b if k == 1 else a), a, b)


def not_channels_last(e, x):
    """Raises Unsupported for a tensor that may be channels-last, for operators whose result is then channels-last too, if the graph
    returns the result or a view of it: PyTorch's tracer gets the strides of this result wrong."""
    shape, strides = x.shape, sizes.sizes(x.fake.stride())
    returned = any(u.op == "output" or is_view(u, TABLE) for u in e.node.users)
    if returned and x.rank in (4, 5) and not layouts.is_dense(shape, strides) and _may_be_channels_last(shape, strides):
        raise Unsupported(f"{e.target} of a channels-last tensor: the tracer does not know the strides of its result")


def _may_be_channels_last(shape, strides):
    """Whether strides rise from the channels to the last axis, and from there to the first one, as far as they are known."""
    if not all(isinstance(n, int) for n in (*shape, *strides)):
        return True
    reach = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[axis] < reach or strides[axis] == 0:
            return False
        reach = strides[axis] * max(shape[axis], 1)
    return True


@row("channel_shuffle", "native_channel_shuffle")
def _(e, x, groups):
    not_channels_last(e, x)
    n, c, *rest = x.shape
    return e.reshape(e.swap(e.reshape(x, (n, groups, c // groups, *rest)), 1, 2), x.shape)


@row("block_diag")
def _(e, tensors):
    blocks = [e.reshape(e.cast(t, e.dtype), (1,) * (2 - t.rank) + t.shape) for t in tensors]
    total, start, rows = e.shape[1], 0, []
    for block in blocks:
        end = size(start + block.shape[1])
        rows.append(e.pad(block, [0, start], [0, size(total - end)]))
        start = end
    return e.concat(rows, 0)


@row("_chunk_cat")
def _(e, tensors, dim, num_chunks):
    axis, parts = dim % tensors[0].rank, []
    for t in tensors:
        extent = t.shape[axis]
        missing = sizes.remainder(size(-extent), num_chunks)
        none = [0] * t.rank
        t = e.pad(e.cast(t, e.dtype), none, none[:axis] + [missing] + none[axis + 1:])
        each = sizes.product([floor_div(t.shape[axis], num_chunks), *t.shape[axis + 1:]])
        parts.append(e.reshape(t, t.shape[:axis] + (num_chunks, each)))
    return e.concat(parts, axis + 1)

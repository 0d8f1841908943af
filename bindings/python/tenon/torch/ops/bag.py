"""The rows of embedding_bag, which folds bags of embeddings, and of its backward pass. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import torch

from ...graph_text import Unsupported
from ..lowering import sizes
from ..lowering.sizes import floor_div
from .index import _index
from .row import row

_SUM, _MEAN, _MAX = range(3)
_FEW = 16384  # up to so many elements, Tenon is done before a call of PyTorch has begun
_NEAR = 1 << 20  # a table with up to so many elements fits into caches; PyTorch prefetches from larger ones


def _length(e, count):
    """How many indices each bag has, if the offsets are an arange and so all bags have the same length; else None."""
    offsets = e.node.args[2]
    if offsets.op != "call_function" or offsets.target is not torch.ops.aten.arange.start_step:
        return None
    start, end, step = (sizes.size(getattr(a, "meta", {}).get("val", a)) for a in (*offsets.args, 1)[:3])
    whole = sizes.is_zero(start) and sizes.same(end, count) and sizes.at_least(step, 1)
    return step if whole and sizes.is_zero(sizes.remainder(count, step)) else None


def _bags(e, offsets, count):
    """For each index, the number of its bag. If PyTorch refuses the offsets, an index is out of range, which is a fault."""
    one = lambda n: e.full(n, "i64")
    last = sizes.size(count + 1)
    first = e.map("index_in", e.slice(offsets, 0, 0, 1), one(1))
    marks = e.op("scatter", [e.full(0, "i64", [last]), offsets, e.full(1, "i64", offsets.shape)], "i64", [last], axis=0, mode="add", wrap=False)
    marks = e.slice(marks, 0, 0, count)
    return e.map("add", e.map("sub", e.op("cumsum", [marks], "i64", marks.shape, axis=0), one(1)), first)


@row("_embedding_bag", "_embedding_bag_forward_only")
def _(e, weight, indices, offsets, scale_grad_by_freq=False, mode=_SUM, sparse=False, per_sample_weights=None, include_last_offset=False,
      padding_idx=-1):
    if mode == _MAX:
        raise Unsupported("embedding_bag with mode 'max', which ignores NaN in PyTorch")
    if include_last_offset:
        raise Unsupported("embedding_bag with include_last_offset")
    if sizes.is_empty(indices.shape) or sizes.is_empty(offsets.shape) or sizes.is_empty(weight.shape):
        raise Unsupported("embedding_bag of no elements")
    count, width, number = indices.shape[0], weight.shape[1], offsets.shape[0]
    length = _length(e, count)
    many = sizes.at_least(sizes.product([count, width]), _FEW + 1) is not False
    if many and (length is None or sizes.at_least(sizes.product(weight.shape), _NEAR + 1) is not False):
        raise Unsupported("embedding_bag of many rows, which PyTorch prefetches")
    places = _index(e, indices)
    rows = e.wide(e.gather(weight, places, 0, wrap=False))
    if per_sample_weights is not None:
        rows = e.map("mul", rows, e.reshape(e.cast(per_sample_weights, rows.dtype), (count, 1)))
    held = None
    if not (isinstance(padding_idx, int) and padding_idx < 0):
        held = e.map("ne", places, e.cast(e.full(padding_idx, "i64"), places.dtype))
        rows = e.map("where", e.reshape(held, (count, 1)), rows, e.scalar_like(rows, 0.0))
    if length is not None:
        fold = lambda v: e.reduce("sum", e.reshape(v, (floor_div(count, length), length) + v.shape[1:]), [1])
    else:
        bags = _bags(e, e.cast(offsets, "i64"), count)
        fold = lambda v: e.op("index_put", [e.full(0, v.dtype, (number,) + v.shape[1:]), bags, v], v.dtype, (number,) + v.shape[1:],
                              axis=0, mode="add", wrap=False)
    total, bag_size = fold(rows), None
    if mode == _MEAN:
        bag_size = fold(e.full(1.0, rows.dtype, (count,)) if held is None else e.cast(held, rows.dtype))
        each = e.map("maximum", bag_size, e.full(1.0, rows.dtype))
        total = e.map("div", total, e.reshape(each, (number, 1)))
    return e.cast(total, weight.dtype), *_for_backward(e, offsets, count, bag_size)


def _for_backward(e, offsets, count, bag_size):
    """(the bag of each index, or nothing where PyTorch computes it again; the indices in each bag, 0 for sums; the same again), each
    None if nobody reads it."""
    bags = None
    if e.used(1):
        bags = e.full(0, "i64", (0,)) if sizes.is_empty(e.fake[1].shape) else _bags(e, e.cast(offsets, "i64"), count)
    each = e.full(0, "i64", offsets.shape) if bag_size is None else e.cast(bag_size, "i64")
    return bags, *(each if e.used(i) else None for i in (2, 3))


# --- backward ---------------------------------------------------------------------------------------------------------
def sum_by_index(e, rows, indices, count, padding_idx, by_frequency):
    """A matrix of `count` rows, each the sum of the rows whose index it is. by_frequency: the mean instead."""
    number = rows.shape[0]
    if by_frequency:
        ones = e.full(1.0, rows.dtype, (number,))
        often = e.op("index_put", [e.full(0.0, rows.dtype, (count,)), indices, ones], rows.dtype, (count,), axis=0, mode="add", wrap=False)
        rows = e.map("div", rows, e.reshape(e.gather(often, indices, 0, wrap=False), (number, 1)))
    rows = _without(e, rows, indices, padding_idx)
    shape = (count, rows.shape[1])
    return e.op("index_put", [e.full(0.0, rows.dtype, shape), indices, rows], rows.dtype, shape, axis=0, mode="add", wrap=False)


def _without(e, rows, indices, padding_idx):
    """The rows, with 0 where the index is padding_idx."""
    if isinstance(padding_idx, int) and padding_idx < 0:
        return rows
    kept = e.reshape(e.map("ne", indices, e.full(padding_idx, "i64")), indices.shape + (1,) * (rows.rank - 1))
    return e.map("where", kept, rows, e.scalar_like(rows, 0.0))


def _bag_of_each(e, offsets, bags, count, mode):
    """The bag of each index. For sums PyTorch's kernel may leave `bags` empty, even where its meta function says otherwise."""
    return _bags(e, e.cast(offsets, "i64"), count) if mode == _SUM else e.cast(bags, "i64")


@row("_embedding_bag_backward")
def _(e, grad, indices, offsets, bags, bag_size, places, num_weights, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx=-1):
    grad, count = e.wide(grad), indices.shape[0]
    if sparse or sizes.is_empty((*indices.shape, *grad.shape)):
        raise Unsupported("the gradient of embedding_bag as a sparse tensor, or of no elements")
    column = lambda v: e.reshape(v, v.shape + (1,))
    if scale_grad_by_freq and mode != _MAX:
        raise Unsupported("scale_grad_by_freq, for which PyTorch counts other indices than those of the rows")
    if mode == _MAX:
        some = column(e.map("gt", e.cast(bag_size, "i64"), e.full(0, "i64")))
        grad, shape = e.map("where", some, grad, e.scalar_like(grad, 0.0)), (num_weights, grad.shape[1])
        return e.op("scatter", [e.full(0.0, grad.dtype, shape), e.cast(places, "i64"), grad], grad.dtype, shape, axis=0, mode="add", wrap=False)
    if mode == _MEAN:
        grad = e.map("div", grad, column(e.cast(bag_size, grad.dtype)))
    rows = e.gather(grad, _bag_of_each(e, offsets, bags, count, mode), 0, wrap=False)
    if per_sample_weights is not None:
        rows = e.map("mul", rows, column(e.wide(per_sample_weights)))
    return sum_by_index(e, rows, e.cast(indices, "i64"), num_weights, padding_idx, False)


@row("_embedding_bag_per_sample_weights_backward")
def _(e, grad, weight, indices, offsets, bags, mode, padding_idx=-1):
    if sizes.is_empty((*indices.shape, *grad.shape)):
        raise Unsupported("the gradient of embedding_bag of no elements")
    of_bags = e.gather(e.wide(grad), _bag_of_each(e, offsets, bags, indices.shape[0], mode), 0, wrap=False)
    rows = e.wide(e.gather(weight, _index(e, indices), 0, wrap=False))
    return _without(e, e.reduce("sum", e.map("mul", of_bags, rows), [1]), e.cast(indices, "i64"), padding_idx)

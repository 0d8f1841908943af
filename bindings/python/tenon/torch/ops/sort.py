"""Rows that compare elements: sorts and ops that use an order, searches, running extremes. How rows are written: row.py.

The op `sort_order` gives the order of elements; it is stable, and NaN is the largest. Values are gathered by this order, so every
element keeps its bits. If several elements are equal, only sort has to return the same index as PyTorch: for kthvalue, median,
mode and topk, PyTorch's documentation leaves the index open. Tested by tests/torch/test_lower.py.
"""

import math

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ...graph_text import FLOATS, Unsupported, Value
from ..lowering import sizes
from ..lowering.sizes import floor_div, size
from ..lowering.tensors import dtype_of
from .row import row


# --- sorts ------------------------------------------------------------------------------------------------------------
def _order(e, x, axis, start, end, descending=False, select=None):
    shape = list(x.shape)
    shape[axis] = size(end - start)
    return e.op("sort_order", [x], "i64", shape, axis=axis, start=start, end=end, descending=descending,
                select=select)


def _take(e, x, indices, axis):
    return e.op("take_along", [x, indices], x.dtype, indices.shape, axis=axis, wrap=False)


def _pick(e, x, position, axis, keepdim):
    """(value, index) of the element at this position of the order along axis."""
    index = _order(e, x, axis, position, size(position + 1))
    return _without(e, _take(e, x, index, axis), axis, keepdim), _without(e, index, axis, keepdim)


def _without(e, x, axis, keepdim):
    return x if keepdim else e.reshape(x, x.shape[:axis] + x.shape[axis + 1:])


def _no_bools(x):
    if x.dtype == "bool":
        raise Unsupported("bools, which PyTorch refuses here")


def _vector(f):
    """Makes a row for tensors with axes take scalars too: a scalar becomes a vector of one element, and the results become scalars."""
    def row_of(e, x, *args, **kwargs):
        if x.rank:
            return f(e, x, *args, **kwargs)
        results = f(e, e.reshape(x, [1]), *args, **kwargs)
        return tuple(r and e.reshape(r, []) for r in results)

    return row_of


@row("sort", "sort.stable")
@_vector
def _(e, x, dim=-1, descending=False, stable=None):
    axis = dim % x.rank
    indices = _order(e, x, axis, 0, x.shape[axis], bool(descending))
    return _take(e, x, indices, axis) if e.used(0) else None, indices


@row("topk")
@_vector
def _(e, x, k, dim=-1, largest=True, sorted=True):
    _no_bools(x)
    axis = dim % x.rank
    indices = _order(e, x, axis, 0, k, bool(largest), None if sorted else True)
    return _take(e, x, indices, axis) if e.used(0) else None, indices


@row("kthvalue")
@_vector
def _(e, x, k, dim=-1, keepdim=False):
    _no_bools(x)
    return _pick(e, x, size(k - 1), dim % x.rank, keepdim)


# --- medians and modes ------------------------------------------------------------------------------------------------
def _middle(x, axis):
    _no_bools(x)
    n = x.shape[axis]
    if sizes.is_zero(n):
        raise Unsupported("the median of no elements")
    return floor_div(size(n - 1), 2)


@row("median.dim")
@_vector
def _(e, x, dim, keepdim=False):
    axis = dim % x.rank
    middle = _middle(x, axis)
    index = _order(e, x, axis, middle, size(middle + 1))
    if x.dtype in FLOATS:
        nan = e.map("isnan", x)
        first = e.op("argmax", [e.cast(nan, "u8")], "i64", index.shape, axis=axis, keepdims=True)
        index = e.map("where", e.reduce("any", nan, [axis], True), first, index)
    return _without(e, _take(e, x, index, axis), axis, keepdim), _without(e, index, axis, keepdim)


@row("nanmedian.dim")
@_vector
def _(e, x, dim, keepdim=False):
    axis = dim % x.rank
    middle = _middle(x, axis)
    if x.dtype not in FLOATS:
        return _pick(e, x, middle, axis, keepdim)
    index = _take(e, _order(e, x, axis, 0, x.shape[axis]), _middle_number(e, x, axis), axis)
    return _without(e, _take(e, x, index, axis), axis, keepdim), _without(e, index, axis, keepdim)


def _middle_number(e, x, axis):
    """The position in the order of the median of the elements that are not NaN; 0 if all are NaN."""
    n = e.reduce("sum", e.cast(e.map("logical_not", e.map("isnan", x)), "i64"), [axis], True)
    last = e.map("maximum", e.map("sub", n, e.scalar_like(n, 1)), e.scalar_like(n, 0))
    return e.map("floor_div", last, e.scalar_like(n, 2))


@row("median", "nanmedian")
def _(e, x):
    x = e.reshape(x, [sizes.product(x.shape)])
    n = x.shape[0]
    if sizes.is_zero(n) and x.dtype != "bool":
        with unset_fake_temporarily():
            return e.full(torch.full((), math.nan).to(e.fake.dtype).item(), x.dtype)
    middle = _middle(x, 0)
    if x.dtype in FLOATS and e.target._opname == "nanmedian":
        index = _take(e, _order(e, x, 0, 0, n), _middle_number(e, x, 0), 0)
        return e.reshape(_take(e, x, index, 0), [])
    y, _ = _pick(e, x, middle, 0, False)
    if x.dtype in FLOATS:
        y = e.map("where", e.reduce("any", e.map("isnan", x), [0]), e.scalar_like(y, math.nan), y)
    return y


@row("mode")
@_vector
def _(e, x, dim=-1, keepdim=False):
    """The mode: the last element of the longest run of equal elements in the sorted row, and of the first such run if several are
    equally long."""
    axis = dim % x.rank
    n = x.shape[axis]
    if sizes.is_zero(n):
        raise Unsupported("the mode of no elements")
    order = _order(e, x, axis, 0, n)
    y = _take(e, x, order, axis)
    place = e.iota(x.shape, axis=axis)
    differs = e.map("ne", e.slice(y, axis, 1, n), e.slice(y, axis, 0, size(n - 1)))
    shape = list(x.shape)
    shape[axis] = 1
    begins = e.concat([e.full(True, "bool", shape), differs], axis)
    begin = e.op("cummax", [e.map("where", begins, place, e.scalar_like(place, 0))], "i64", x.shape, axis=axis)
    best = e.op("argmax", [e.map("sub", place, begin)], "i64", shape, axis=axis, keepdims=True)
    return (_without(e, _take(e, y, best, axis), axis, keepdim) if e.used(0) else None,
            _without(e, _take(e, order, best, axis), axis, keepdim) if e.used(1) else None)


# --- searches ---------------------------------------------------------------------------------------------------------
def _search(e, sorted, values, right):
    return e.op("search", [sorted, values], "i64", values.shape, right=bool(right))


@row("searchsorted.Tensor", "searchsorted.Scalar")
def _(e, sorted, values, out_int32=False, right=False, side=None, sorter=None):
    sorted, values = _of_one_dtype(e, sorted, values)
    if sorter is not None:
        sorted = _take(e, sorted, e.cast(sorter, "i64"), sorted.rank - 1)
    return _search(e, sorted, values, right or side == "right")


@row("bucketize.Tensor", "bucketize.Scalar")
def _(e, values, boundaries, out_int32=False, right=False):
    boundaries, values = _of_one_dtype(e, boundaries, values)
    return _search(e, boundaries, values, right)


def _of_one_dtype(e, sorted, values):
    _no_bools(sorted)
    dtype = dtype_of(torch.result_type(sorted.fake, values.fake if isinstance(values, Value) else values))
    return e.cast(sorted, dtype), e.cast(values, dtype) if isinstance(values, Value) else e.full(values, dtype)


# --- running folds ----------------------------------------------------------------------------------------------------
@row("cumprod")
def _(e, x, dim, dtype=None):
    x = e.cast(x, e.dtype)
    return x if x.rank == 0 else e.scan("cumprod", x, dim % x.rank)


_LONG = 4096  # elements of a single row, which cannot use vectors across rows; from here PyTorch's loop is faster than two scans


@row("cummax", "cummin")
@_vector
def _(e, x, dim):
    """Running extremes. The index is that of the last element that equals the extreme."""
    axis = dim % x.rank
    values = e.scan(e.target._opname, x, axis)
    if not e.used(1):
        return values, None
    if all(n == 1 for i, n in enumerate(x.shape) if i != axis) and isinstance(x.shape[axis], int) and x.shape[axis] > _LONG:
        raise Unsupported("the indices of running extremes in a long row, which PyTorch computes faster")
    here = e.map("eq", x, values)
    if x.dtype in FLOATS:
        here = e.map("logical_or", here, e.map("isnan", x))
    n = x.shape[axis]
    place = e.iota(x.shape, "i32" if isinstance(n, int) and n < 2**31 else "i64", axis=axis)
    return values, e.cast(e.scan("cummax", e.map("where", here, place, e.scalar_like(place, 0)), axis), "i64")


@row("logcumsumexp")
def _(e, x, dim):
    """Running sums in f64 of exp(x - the largest finite element). They are accurate unless the sum behind a finite element is less than
    e^-600. Then the result is the largest element so far if that is so low that adding the logarithm of a count changes nothing, such as
    the lowest finite number, which PyTorch's gradient takes for the logarithm of 0. Otherwise an index is out of range, which is a fault,
    and PyTorch computes the whole."""
    if x.dtype not in FLOATS or sizes.is_empty(x.shape):
        raise Unsupported(f"logcumsumexp of {x.dtype}, or of no elements")
    if e.device.type != "cpu":
        raise Unsupported("logcumsumexp on a GPU, where nothing checks its range")
    if x.rank == 0:
        return x
    axis, v = dim % x.rank, e.cast(x, "f64")
    number = lambda n: e.full(float(n), "f64")
    finite = e.map("isfinite", v)
    largest = e.reduce("max", e.map("where", finite, v, number(-math.inf)), [axis], True)
    largest = e.map("where", e.map("isfinite", largest), largest, number(0))
    sums = e.scan("cumsum", e.map("exp", e.map("sub", v, largest)), axis)
    so_far = e.scan("cummax", e.map("where", finite, v, number(-math.inf)), axis)
    lost = e.map("logical_and", e.map("lt", sums, number(math.exp(-600))), e.map("gt", so_far, number(-math.inf)))
    low = e.map("le", so_far, number(-6e4 if x.dtype == "f16" else -1e18))
    faulty = e.reduce("any", e.map("logical_and", lost, e.map("logical_not", low)), list(range(x.rank)))
    fault = e.map("index_in", e.cast(faulty, "i64"), e.full(1, "i64"))
    y = e.map("where", e.map("logical_and", lost, low), so_far, e.map("add", e.map("log", sums), largest))
    return e.cast(e.map("where", e.map("eq", fault, e.full(0, "i64")), y, number(0)), x.dtype)


# --- counts -----------------------------------------------------------------------------------------------------------
@row("histc")
def _(e, x, bins=100, min=0, max=0):
    """Each element adds 1 to its bin. NaN and elements outside of all bins add 0 to the first bin."""
    if x.dtype not in ("f32", "f64") or not all(isinstance(n, (int, float)) for n in (bins, min, max)):
        raise Unsupported(f"histc of {x.dtype}, or with symbolic bounds")
    x = e.reshape(x, [sizes.product(x.shape)])
    low, high, faults = e.full(float(min), x.dtype), e.full(float(max), x.dtype), None
    if min > max or not math.isfinite(min) or not math.isfinite(max):
        raise Unsupported("histc with bounds that PyTorch refuses")
    if min == max:
        if sizes.is_empty(x.shape):
            return e.full(0, x.dtype, e.shape)
        low, high = e.reduce("min", x, [0]), e.reduce("max", x, [0])
        # If the bounds are not finite, an index is out of range, which is a fault: PyTorch then raises its error.
        finite = e.map("logical_and", e.map("isfinite", low), e.map("isfinite", high))
        faults = e.map("index_in", e.cast(e.map("logical_not", finite), "i64"), e.full(1, "i64"))
        same, one = e.map("eq", low, high), e.full(1.0, x.dtype)
        low, high = (e.map("where", same, e.map(head, v, one), v) for head, v in (("sub", low), ("add", high)))
    inside = e.map("logical_and", e.map("ge", x, low), e.map("le", x, high))
    place = e.map("div", e.map("mul", e.map("sub", x, low), e.full(float(bins), x.dtype)), e.map("sub", high, low))
    place = e.cast(e.map("where", inside, place, e.scalar_like(place, 0.0)), "i64")
    place = e.map("minimum", place, e.full(bins - 1, "i64"))
    if faults is not None:
        place = e.map("add", place, faults)
    counts = e.full(0, x.dtype, [bins])
    return e.op("index_put", [counts, place, e.cast(inside, x.dtype)], x.dtype, [bins], axis=0, mode="add", wrap=False)

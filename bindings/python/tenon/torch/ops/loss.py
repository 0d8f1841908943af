"""Rows of losses that are whole operators in PyTorch. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ...graph_text import HALVES, Unsupported
from ..lowering import sizes
from .row import row

_MOST_CHUNKS = 64


def _loss_of_rows(e, x, weight, bias, target):
    """-log softmax(x weight^T + bias) at each row's target, in f32 or f64."""
    logits = e.matmul(x, e.swap(weight, 0, 1))
    if bias is not None:
        logits = e.map("add", logits, bias)
    logits = e.map("sub", logits, e.reduce("max", logits, [1], True))
    there = e.op("take_along", [logits, e.reshape(target, target.shape + (1,))], logits.dtype, target.shape + (1,), axis=1, wrap=False)
    return e.map("sub", e.map("log", e.reduce("sum", e.map("exp", logits), [1])), e.reshape(there, target.shape))


def _linear_cross_entropy(e, x, weight, target, bias, class_weights, ignored, chunk):
    """(the loss of each row, times its weight; the weights of the rows). Computes `chunk` rows at a time, so that no more logits are
    in memory at once than in PyTorch."""
    if x.dtype in HALVES or any(v is not None and v.dtype != x.dtype for v in (weight, bias, class_weights)):
        raise Unsupported("linear_cross_entropy of 16-bit floats or of several dtypes")
    rows, classes = x.shape[0], weight.shape[0]
    if sizes.is_empty(x.shape) or sizes.is_empty(weight.shape):
        raise Unsupported("linear_cross_entropy of no elements")
    if not isinstance(rows, int) or not isinstance(chunk, int) or rows > chunk * _MOST_CHUNKS:
        raise Unsupported("linear_cross_entropy in chunks whose number is symbolic or large")
    mask = e.map("eq", target, e.full(ignored, "i64"))
    if not isinstance(classes, int) or not 0 <= ignored < classes:
        target = e.map("where", mask, e.full(0, "i64"), target)
    each = e.full(1.0, x.dtype, target.shape) if class_weights is None else e.gather(class_weights, target, 0, wrap=False)
    each = e.map("where", mask, e.scalar_like(x, 0.0), each)
    parts = []
    for start in range(0, rows, chunk):
        part = lambda v: e.slice(v, 0, start, min(start + chunk, rows))
        parts.append(_loss_of_rows(e, part(x), weight, bias, part(target)))
    return e.map("mul", e.concat(parts, 0), each), each


@row("torch_nn._linear_cross_entropy_batch_chunked_no_reduction")
def _(e, x, weight, target, bias, class_weights, ignore_index, batch_chunk_size, acc_policy, acc_dtype):
    return _linear_cross_entropy(e, x, weight, target, bias, class_weights, ignore_index, batch_chunk_size)[0]


@row("torch_nn._linear_cross_entropy_batch_chunked")
def _(e, x, weight, target, bias, class_weights, reduction, ignore_index, label_smoothing, batch_chunk_size, acc_policy, acc_dtype,
      allow_retain_graph, *gradients):
    if any(gradients) or any(e.used(i) for i in (1, 2, 3)) or label_smoothing or reduction not in ("mean", "sum"):
        raise Unsupported("linear_cross_entropy with its gradients")
    losses, each = _linear_cross_entropy(e, x, weight, target, bias, class_weights, ignore_index, batch_chunk_size)
    total = e.reduce("sum", losses, [0])
    if reduction == "mean":
        count = e.reduce("sum", each, [0])
        none = e.map("eq", count, e.scalar_like(count, 0.0))
        total = e.map("div", total, e.map("where", none, e.scalar_like(count, math.nan), count))
    return total, None, None, None


# --- binary cross-entropy -----------------------------------------------------------------------------------------------
def _is_probability(e, v):
    return e.map("logical_and", e.map("ge", v, e.scalar_like(v, 0.0)), e.map("le", v, e.scalar_like(v, 1.0)))


@row("binary_cross_entropy")
def _(e, x, target, weight=None, reduction=1):
    """A number outside [0, 1] is an index out of range, hence a fault, and PyTorch raises its error."""
    x, target = e.wide(x), e.wide(target)
    fine = e.map("logical_and", _is_probability(e, x), _is_probability(e, target))
    checked = e.map("index_in", e.cast(e.map("logical_not", fine), "i64"), e.full(1, "i64"))
    least = e.scalar_like(x, -100.0)
    positive = e.map("mul", target, e.map("maximum", e.map("log", x), least))
    negative = e.map("mul", e.map("sub", target, e.scalar_like(x, 1.0)), e.map("maximum", e.map("log1p", e.map("neg", x)), least))
    loss = e.map("sub", negative, e.map("add", positive, e.cast(checked, x.dtype)))
    if weight is not None:
        loss = e.map("mul", loss, e.wide(weight))
    if reduction:
        loss = e.reduce("mean" if reduction == 1 else "sum", loss, list(range(loss.rank)))
    return e.cast(loss, e.dtype)


# --- negative log-likelihood ------------------------------------------------------------------------------------------
def _classes(e, x, target, ignored):
    """(the axis of the classes in x; the shape of target with that axis; the numbers of the classes in that shape; where they are not
    `ignored`)."""
    if target.dtype != "i64":
        raise Unsupported("class numbers that are not i64")  # PyTorch raises its error
    axis = min(x.rank - 1, 1)
    across = (*target.shape[:axis], 1, *target.shape[axis:]) if x.rank > 1 else (1,)
    classes = e.reshape(target, across)
    return axis, across, classes, e.map("ne", classes, e.full(ignored, "i64"))


@row("nll_loss_forward", "nll_loss2d_forward")
def _(e, x, target, weight, reduction, ignore_index):
    """(-x * weight of the class, reduced; the sum of these weights)."""
    axis, across, classes, counts = _classes(e, x, target, ignore_index)
    classes = e.map("where", counts, classes, e.full(0, "i64"))
    loss = e.map("neg", e.wide(e.op("take_along", [x, classes], x.dtype, across, axis=axis, wrap=False)))
    zero = e.scalar_like(loss, 0.0)
    weights = e.cast(counts, loss.dtype)
    if weight is not None:
        weights = e.map("where", counts, e.wide(e.gather(weight, classes, 0, wrap=False)), zero)
        loss = e.map("mul", loss, weights)
    loss = e.map("where", counts, loss, zero)
    if reduction == 0 and x.rank > 1:
        return e.reshape(loss, target.shape), e.full(0.0, x.dtype)
    every = list(range(loss.rank))
    loss, weights = e.reduce("sum", loss, every), e.reduce("sum", weights, every)
    return e.map("div", loss, weights) if reduction == 1 else loss, weights


@row("nll_loss_backward", "nll_loss2d_backward")
def _(e, grad, x, target, weight, reduction, ignore_index, total_weight):
    """-grad * weight of the class where the class is the target. One pass over the result, without a scatter."""
    axis, across, target, counts = _classes(e, x, target, ignore_index)
    classes = e.iota([n if i == axis else 1 for i, n in enumerate(x.shape)], axis=axis)
    scale = e.map("neg", e.wide(grad))
    if reduction == 1:
        scale = e.map("div", scale, e.wide(total_weight))
    elif scale.rank and reduction == 0:
        scale = e.reshape(scale, across)
    if weight is not None:
        scale = e.map("mul", scale, e.reshape(e.wide(weight), [x.shape[axis] if i == axis else 1 for i in range(x.rank)]))
    here = e.map("logical_and", e.map("eq", classes, target), counts)
    return e.expand(e.map("where", here, scale, e.scalar_like(scale, 0.0)), x.shape)

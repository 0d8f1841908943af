"""The scale of attention, and its scores for its log-sum-exp. Tested by tests/torch/test_lower.py and test_training.py.
"""

import math

from . import sizes


def depends_on_sizes(q, scale):
    """Whether the number that multiplies the scores does. scale: this number, or None for 1 / sqrt(the size of a head)."""
    return isinstance(scale, sizes.Real) or (scale is None and not isinstance(q.shape[-1], int))


def wide_if_scaled(e, operands, scale):
    """(q, k, v), the scale as a number and None; or, if the scale depends on sizes, wide operands with q times the scale, 1.0 and the
    scale as a value."""
    q = operands[0]
    if not depends_on_sizes(q, scale):
        return operands, float(1 / math.sqrt(q.shape[-1]) if scale is None else scale), None
    factor = e.real(scale.expr) if scale is not None else \
        e.map("reciprocal", e.op("sqrt", [e.cast(e.full(q.shape[-1], "i64"), "f64")], "f64", ()))
    q, k, v = map(e.wide, operands)
    factor = e.cast(factor, q.dtype)
    return (e.map("mul", q, factor), k, v), 1.0, factor


def for_attention(e, operands, scale):
    """(q, k, v), the attributes of the row attention for the scale, and None. If the host gives a scale that depends on sizes, returns wide
    operands with q times the scale, the attributes for a scale of 1, and the scale as a value."""
    if scale is None and depends_on_sizes(operands[0], None):
        return operands, {"scale": 1.0, "over_root": True}, None
    operands, number, factor = wide_if_scaled(e, operands, scale)
    return operands, {"scale": number}, factor


def for_heads(e, v, heads):
    """v [B, Hkv, S, D] with each head repeated for the heads of the queries that share it."""
    if sizes.same(v.shape[1], heads):
        return v
    b, few, s, d = v.shape
    v = e.expand(e.reshape(v, (b, few, 1, s, d)), (b, few, sizes.floor_div(heads, few), s, d))
    return e.reshape(v, (b, heads, s, d))


def scores(e, q, k, causal, mask, scale):
    """q k^T * scale + mask, [B, H, L, S], in f32 or f64. Positions that the mask hides are -inf."""
    product = e.wide(e.matmul(q, e.swap(for_heads(e, k, q.shape[1]), 2, 3)))
    product = e.map("mul", product, e.scalar_like(product, scale))
    if mask is not None:
        product = e.map("add", product, e.cast(mask, product.dtype))
    if causal:
        seen = e.map("le", e.iota(product.shape[-2:], axis=1), e.iota(product.shape[-2:], axis=0))
        product = e.map("where", seen, product, e.scalar_like(product, -math.inf))
    return product


def weights(e, scores):
    """(softmax of the scores, their log-sum-exp), [B, H, L, S] and [B, H, L, 1]. A query that sees nothing has the weights 0. The weights
    are not exp(scores - logsumexp), because a log-sum-exp of f32 is too coarse if all scores are large."""
    most = e.reduce("max", scores, [3], True)
    nothing = e.map("eq", most, e.scalar_like(most, -math.inf))
    most = e.map("where", nothing, e.scalar_like(most, 0.0), most)
    exponentials = e.map("exp", e.map("sub", scores, most))
    total = e.reduce("sum", exponentials, [3], True)
    quotient = e.map("div", exponentials, e.map("where", nothing, e.scalar_like(total, 1.0), total))
    return quotient, e.map("add", most, e.map("log", total))


def attention_and_logsumexp(e, q, k, v, causal, mask, scale):
    """The result of attention, which may be wider than v, and the log-sum-exp of the scores of each query, [B, H, L]."""
    (q, k, v), scale, _ = wide_if_scaled(e, (q, k, v), scale)
    p, logsumexp = weights(e, scores(e, q, k, causal, mask, scale))
    return e.matmul(e.cast(p, v.dtype), for_heads(e, v, q.shape[1])), e.reshape(logsumexp, logsumexp.shape[:3])

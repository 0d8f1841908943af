"""Rows of the backward pass of convolutions, pooling, attention, embeddings and views. How rows are written: row.py.

Where the forward operator has a row, the library differentiates what that row writes (lowering/differentiate.py).
Tested by tests/torch/test_lower.py and test_training.py.
"""

import torch

from ...graph_text import Unsupported
from ..lowering import sizes
from ..lowering.differentiate import gradients
from ..lowering.scores import for_attention
from .bag import sum_by_index
from .contract import not_long_sums_of_f64
from .move import bound, padded_by_edges, position
from .row import TABLE, Row, row


def _gradients(e, name, operands, others, gradient, wrt):
    """The gradients of the first result of the operator aten.name: those of its operands at the positions wrt."""
    op = getattr(torch.ops.aten, name).default
    return gradients(e, op, TABLE[str(op)], operands, others, gradient, wrt)


def _forward(e):
    """The name of the operator whose gradient this node computes."""
    return e.target._opname.removesuffix("_backward")


# --- by the gradient of the forward row -------------------------------------------------------------------------------
@row("convolution_backward")
def _(e, grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    not_long_sums_of_f64(e, x, w)
    wanted = [i for i in (0, 1) if output_mask[i] and e.used(i)]
    results = [None, None, None]
    if wanted:
        others = (None, stride, padding, dilation, transposed, output_padding, groups)
        made = _gradients(e, "convolution", [x, w], others, grad, wanted)
        for i, v in zip(wanted, made):
            results[i] = v
    if output_mask[2] and e.used(2):
        results[2] = e.reduce("sum", e.wide(grad), [i for i in range(grad.rank) if i != 1])
    return tuple(results)


@row("avg_pool2d_backward", "avg_pool3d_backward")
def _(e, grad, x, *window):
    return _gradients(e, _forward(e), [x], window, grad, [0])[0]


@row("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _(e, grad, x):
    spatial = 2 if "2d" in e.target._opname else 3
    return _gradients(e, _forward(e), [x], (grad.shape[-spatial:],), grad, [0])[0]


@row(*(f"{kind}_pad{n}d_backward" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def _(e, grad, x, padding):
    """Differentiates a padding that concatenates all axes from parts, whose gradient is pads and sums. The gradient of a gather adds row by row."""
    name = _forward(e)
    forward = lambda e, x: padded_by_edges(e, x, padding, name.startswith("reflection"), x.rank)
    return gradients(e, getattr(torch.ops.aten, name).default, Row(forward, False), [x], (), grad, [0])[0]


@row("_segment_reduce_backward")
def _(e, grad, y, x, reduce, lengths=None, offsets=None, axis=0, initial=None):
    name = "lengths" if lengths is not None else "offsets"
    op = torch.ops.aten.segment_reduce.default
    forward = lambda e, x, bounds: TABLE[str(op)].emit(e, x, reduce, axis=axis, initial=initial, **{name: bounds})
    return gradients(e, op, Row(forward, False), [x, lengths if lengths is not None else offsets], (), grad, [0])[0]


@row("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _(e, grad, x, grid, interpolation, padding, align_corners, output_mask):
    wanted = [i for i in (0, 1) if output_mask[i] and e.used(i)]
    made = _gradients(e, _forward(e), [x, grid], (interpolation, padding, align_corners), grad, wanted)
    results = dict(zip(wanted, made))
    return results.get(0), results.get(1)


# --- attention --------------------------------------------------------------------------------------------------------
@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def _(e, grad, q, k, v, out, logsumexp, dropout_p, is_causal, attn_mask=None, scale=None):
    if dropout_p:
        raise Unsupported("attention with dropout inside")
    return _attention_gradient(e, grad, q, k, v, attn_mask, is_causal, scale)


@row("tenon.attention_gradient")
def _attention_gradient(e, grad, q, k, v, mask, is_causal, scale, kept=None, dropout=0.0):
    dtype = q.dtype
    operands, scale, factor = for_attention(e, (q, k, v), scale)
    heads_last = [e.swap(t, 1, 2) for t in operands]
    wide = heads_last[0].dtype
    if mask is not None:
        mask = e.cast(mask, wide)
    counts = [sizes.product(t.shape) for t in heads_last]
    joined = e.op("attention_gradient", [*heads_last, e.cast(e.swap(grad, 1, 2), wide), mask, kept], wide, (sum(counts),),
                  causal=bool(is_causal), **scale, dropout=dropout or None)
    gradients, start = [], 0
    for t, count in zip(heads_last, counts):
        gradients.append(e.swap(e.reshape(e.slice(joined, 0, start, start + count), t.shape), 1, 2))
        start += count
    if factor is not None:
        gradients[0] = e.map("mul", gradients[0], factor)
    return tuple(e.cast(g, dtype) for g in gradients)


# --- embeddings -------------------------------------------------------------------------------------------------------
@row("embedding_dense_backward")
def _(e, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    rows = sizes.product(indices.shape)
    indices = e.reshape(e.cast(indices, "i64"), (rows,))
    return sum_by_index(e, e.wide(e.reshape(grad, (rows, grad.shape[-1]))), indices, num_weights, padding_idx, scale_grad_by_freq)


# --- views ------------------------------------------------------------------------------------------------------------
@row("select_backward")
def _(e, grad, input_sizes, dim, index):
    shape = sizes.sizes(input_sizes)
    axis = dim % len(shape)
    start = position(index, shape[axis])
    grad = e.reshape(grad, (*shape[:axis], 1, *shape[axis + 1:]))
    return _padded(e, grad, axis, start, sizes.size(shape[axis] - start - 1))


@row("slice_backward")
def _(e, grad, input_sizes, dim, start, end, step):
    shape = sizes.sizes(input_sizes)
    axis = dim % len(shape)
    start, length = bound(start, shape[axis], 0), grad.shape[axis]
    if step != 1:  # each element and step - 1 zeros
        spread = _padded(e, e.reshape(grad, (*shape[:axis], length, 1, *shape[axis + 1:])), axis + 1, 0, sizes.size(step - 1))
        length = sizes.size(length * step)
        grad = e.reshape(spread, (*shape[:axis], length, *shape[axis + 1:]))
    return _padded(e, grad, axis, start, sizes.size(shape[axis] - start - length))


def _padded(e, v, axis, low, high):
    return e.pad(v, [low if i == axis else 0 for i in range(v.rank)], [high if i == axis else 0 for i in range(v.rank)])

"""Attention on a CPU in graphs with gradients, which stores no scores.

PyTorch's gradient of attention reads the log-sum-exp that the forward pass has computed. Tenon computes the softmax again, with less
rounding, and then the forward pass needs no log-sum-exp: it is one step that stores no scores. PyTorch counts its operator among those that
draw random numbers, and wraps it in checkpointed regions; attention() draws none.

PyTorch computes attention with dropout as two products around a softmax, and keeps two matrices of weights. AOTAutograd traces attention()
instead, with a mask that aten.native_dropout draws in the same place. rng.py treats this mask as any other.
Tested by tests/torch/test_training_attention.py and test_attention_dropout.py.
"""

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.flop_counter import register_flop_formula, sdpa_backward_flop_count, sdpa_flop_count

from . import tracing

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
GRADIENT = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
WHOLE = aten.scaled_dot_product_attention.default
DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # those of the library's step
_library = torch.library.Library("tenon", "FRAGMENT")
_library.define("attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale, Tensor? kept=None, float dropout=0.0) -> "
                "Tensor")
_library.define("attention_gradient(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale, "
                "Tensor? kept=None, float dropout=0.0) -> (Tensor, Tensor, Tensor)")


def _weights(q, k, mask, is_causal, scale):
    """(q and k in f32, the scale, the softmax of the scores [B,H,L,S]). The heads of k are repeated for those of q."""
    q, k = q.float(), _repeated(k, q).float()
    scale = q.shape[3] ** -0.5 if scale is None else scale
    scores = q @ k.mT * scale
    if mask is not None:
        scores = scores + mask
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).tril().logical_not(), -torch.inf)
    return q, k, scale, aten._safe_softmax(scores, -1)


def _repeated(x, q):
    return x.repeat_interleave(q.shape[1] // x.shape[1], 1) if x.shape[1] != q.shape[1] else x


@torch.library.impl(_library, "attention", "CompositeExplicitAutograd")
def _(q, k, v, mask, is_causal, scale, kept=None, dropout=0.0):
    """[B,H,L,Dv] of q [B,H,L,D], k [B,Hkv,S,D] and v [B,Hkv,S,Dv]. kept: bool [B,H,L,S], the weights that dropout keeps. Without it, Hkv is H
    and Dv is D."""
    if kept is not None:
        weights = _weights(q, k, mask, is_causal, scale)[3]
        return (weights * kept / (1 - dropout) @ _repeated(v, q).float()).to(q.dtype)
    return FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)[0]


@torch.library.register_fake("tenon::attention", lib=_library)
def _(q, k, v, mask, is_causal, scale, kept=None, dropout=0.0):
    if kept is not None:
        return q.new_empty((*q.shape[:3], v.shape[3]))
    return FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)[0]


@torch.library.impl(_library, "attention_gradient", "CompositeExplicitAutograd")
def _(gradient, q, k, v, mask, is_causal, scale, kept=None, dropout=0.0):
    """The gradients of q, k and v, for the gradient of attention()."""
    if kept is not None:
        wide_q, wide_k, scale, weights = _weights(q, k, mask, is_causal, scale)
        gradient, factor = gradient.float(), kept / (1 - dropout)
        scores = aten._softmax_backward_data(gradient @ _repeated(v, q).float().mT * factor, weights, -1, torch.float32) * scale
        dq, dk, dv = scores @ wide_k, wide_q.mT @ scores, (weights * factor).mT @ gradient
        if k.shape[1] == q.shape[1]:
            return dq.to(q.dtype), dk.to(k.dtype).mT, dv.to(v.dtype)
        return dq.to(q.dtype), *(t.unflatten(1, (k.shape[1], -1)).sum(2).to(k.dtype) for t in (dk.mT.contiguous(), dv))
    y, logsumexp = FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)
    return GRADIENT(gradient, q, k, v, y, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)


@torch.library.register_fake("tenon::attention_gradient", lib=_library)
def _(gradient, q, k, v, mask, is_causal, scale, kept=None, dropout=0.0):
    if kept is not None:
        b, h, s, d = k.shape
        # PyTorch's gradient of k is a transposed product, and is added up in another order if heads share k.
        dk = k.new_empty((b, h, d, s)).mT if statically_known_true(h == q.shape[1]) else k.new_empty(k.shape)
        return q.new_empty(q.shape), dk, v.new_empty(v.shape)
    y, logsumexp = FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)
    return GRADIENT(gradient, q, k, v, y, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)


def _save(ctx, inputs, output):
    q, k, v, mask, ctx.is_causal, ctx.scale, kept, ctx.dropout = inputs
    ctx.save_for_backward(q, k, v, mask, kept)


def _backward(ctx, gradient):
    q, k, v, mask, kept = ctx.saved_tensors
    gradients = torch.ops.tenon.attention_gradient(gradient, q, k, v, mask, ctx.is_causal, ctx.scale, kept, ctx.dropout)
    return (*gradients, None, None, None, None, None)


torch.library.register_autograd("tenon::attention", _backward, setup_context=_save, lib=_library)


# PyTorch's min-cut with a budget asks how long an operator takes.
@register_flop_formula(torch.ops.tenon.attention)
def _(q, k, v, *others, **keywords):
    return sdpa_flop_count(q, k, v)


@register_flop_formula(torch.ops.tenon.attention_gradient)
def _(gradient, q, k, v, *others, **keywords):
    return sdpa_backward_flop_count(gradient, q, k, v)


# PyTorch's tracers call this instead of its kernel, which is a composition of other operators. Autocast has converted the operands.
@WHOLE.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)
def _(*args, **kwargs):
    y = _attention(*args, **kwargs) if tracing.is_active() else None
    return WHOLE._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs) if y is None else y


def _attention(q, k, v, mask=None, dropout=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Attention with dropout, or None if PyTorch has to compute it."""
    if not (isinstance(dropout, float) and 0 < dropout < 1) or (is_causal and mask is not None):
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:  # inside torch.func.grad, vmap, ..., which operators of torch.library lack
        return None
    if any(t.device.type != "cpu" or t.dim() != 4 or t.dtype not in DTYPES or t.dtype != q.dtype for t in (q, k, v)) or not _fit(q, k, v, enable_gqa):
        return None
    if mask is not None:
        if mask.requires_grad or mask.device.type != "cpu" or mask.dtype not in (torch.bool, q.dtype):
            return None
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask.logical_not(), -torch.inf)
    like = q.new_zeros((), dtype=torch.float32).expand(*q.shape[:3], k.shape[2])
    _, kept = torch.native_dropout(like, dropout, True)
    return torch.ops.tenon.attention(q, k, v, mask, bool(is_causal), scale, kept, dropout)


def _fit(q, k, v, grouped):
    """Whether the shapes are those of attention(). grouped: heads of q may share a head of k."""
    if any(is_traceable_wrapper_subclass(t) or any(statically_known_true(n == 0) for n in t.shape) for t in (q, k, v)):
        return False
    same = [(q.shape[0], k.shape[0]), (q.shape[0], v.shape[0]), (q.shape[3], k.shape[3]), (k.shape[1], v.shape[1]), (k.shape[2], v.shape[2])]
    heads = q.shape[1] % k.shape[1] == 0 if grouped else q.shape[1] == k.shape[1]
    return all(statically_known_true(a == b) for a, b in same) and statically_known_true(heads)


def drop_logsumexp(joint):
    """Replaces the attention of a joint graph, and its gradients, except where something else reads the log-sum-exp."""
    for n in joint.graph.find_nodes(op="call_function", target=GRADIENT):
        dropout, is_causal = n.args[6:]
        _replace(n, torch.ops.tenon.attention_gradient.default, n.args[:4], dropout, is_causal)
    for n in joint.graph.find_nodes(op="call_function", target=FORWARD):
        results = {user: user.args[1] for user in n.users}  # getitem node -> index
        if any(index == 1 and user.users for user, index in results.items()):
            continue
        given = dict(zip(("dropout_p", "is_causal"), n.args[3:]))
        if not _replace(n, torch.ops.tenon.attention.default, n.args[:3], given.get("dropout_p", 0.0), given.get("is_causal", False)):
            continue
        n.meta["val"] = n.meta["val"][0]
        for user, index in results.items():
            if index == 0:
                user.replace_all_uses_with(n)
            joint.graph.erase_node(user)


def _replace(n, target, operands, dropout, is_causal):
    mask, scale = n.kwargs.get("attn_mask"), n.kwargs.get("scale")
    if dropout or isinstance(scale, torch.fx.Node):
        return False
    n.target, n.args, n.kwargs = target, (*operands, mask, is_causal, scale), {}
    return True

"""Attention with gradients on a CPU, without the log-sum-exp of its scores.

PyTorch's gradient of attention reads the log-sum-exp that the forward pass has computed. Tenon computes the softmax again, with less
rounding, and then the forward pass needs no log-sum-exp: it is one step that stores no scores. PyTorch counts its operator among those that
draw random numbers, and wraps it in checkpointed regions; attention() draws none. Tested by tests/torch/test_training_attention.py.
"""

import torch
from torch.utils.flop_counter import register_flop_formula, sdpa_backward_flop_count, sdpa_flop_count

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
GRADIENT = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_library = torch.library.Library("tenon", "FRAGMENT")
_library.define("attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale) -> Tensor")
_library.define("attention_gradient(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale) -> "
                "(Tensor, Tensor, Tensor)")


@torch.library.impl(_library, "attention", "CompositeExplicitAutograd")
@torch.library.register_fake("tenon::attention", lib=_library)
def _(q, k, v, mask, is_causal, scale):
    """[B,H,L,D] of q [B,H,L,D], k and v [B,H,S,D]."""
    return FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)[0]


@torch.library.impl(_library, "attention_gradient", "CompositeExplicitAutograd")
@torch.library.register_fake("tenon::attention_gradient", lib=_library)
def _(gradient, q, k, v, mask, is_causal, scale):
    """The gradients of q, k and v, for the gradient of attention()."""
    y, logsumexp = FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)
    return GRADIENT(gradient, q, k, v, y, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)


# PyTorch's min-cut with a budget asks how long an operator takes.
@register_flop_formula(torch.ops.tenon.attention)
def _(q, k, v, *others, **keywords):
    return sdpa_flop_count(q, k, v)


@register_flop_formula(torch.ops.tenon.attention_gradient)
def _(gradient, q, k, v, *others, **keywords):
    return sdpa_backward_flop_count(gradient, q, k, v)


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

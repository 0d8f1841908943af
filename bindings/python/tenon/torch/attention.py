"""The gradient of attention on a CPU without the log-sum-exp of its scores.

PyTorch's operator reads the log-sum-exp that the forward pass has computed. Tenon computes the softmax again, with less rounding, and then
the forward pass needs no log-sum-exp: it is one step that stores no scores. Tested by tests/torch/test_training.py.
"""

import torch

aten = torch.ops.aten
_FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
_GRADIENT = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_library = torch.library.Library("tenon", "FRAGMENT")
_library.define("attention_gradient(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale) -> "
                "(Tensor, Tensor, Tensor)")


@torch.library.impl(_library, "attention_gradient", "CompositeExplicitAutograd")
@torch.library.register_fake("tenon::attention_gradient", lib=_library)
def _(gradient, q, k, v, mask, is_causal, scale):
    """The gradients of q [B,H,L,D], k and v [B,H,S,D], for the gradient of attention's result [B,H,L,D]."""
    y, logsumexp = _FORWARD(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)
    return _GRADIENT(gradient, q, k, v, y, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)


def drop_logsumexp(joint):
    """Replaces PyTorch's gradients of attention in a joint graph."""
    for n in joint.graph.nodes:
        if n.target is not _GRADIENT:
            continue
        gradient, q, k, v, _, _, dropout, is_causal = n.args
        mask, scale = n.kwargs.get("attn_mask"), n.kwargs.get("scale")
        if dropout or isinstance(scale, torch.fx.Node):
            continue
        n.target, n.args, n.kwargs = torch.ops.tenon.attention_gradient.default, (gradient, q, k, v, mask, is_causal, scale), {}

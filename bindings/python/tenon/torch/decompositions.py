"""The ATen ops that AOTAutograd decomposes before Tenon gets the graph.

No op in this list has a row in ops/, except two: native_dropout is decomposed only if its probability is 1, and linspace only if its result
is not f32 or f64. Attention, softmax, norms, convolutions, pooling, embedding and gelu have rows, because a whole op fuses better than its
parts. Tested by tests/torch/test_lower.py.
"""

import functools
import sys

NAMES = """
_batch_norm_no_update _batch_norm_with_update_functional _fused_rms_norm _native_batch_norm_legit
_native_batch_norm_legit_functional _unsafe_masked_index _unsafe_masked_index_put_accumulate _weight_norm_interface
addcdiv addcmul addr affine_grid_generator aminmax binary_cross_entropy_with_logits celu
col2im count_nonzero deg2rad diag_embed dist elu_backward frac glu hann_window heaviside huber_loss im2col isin
lerp linspace log_sigmoid_forward logit logspace margin_ranking_loss mse_loss mvlgamma nan_to_num
pixel_shuffle pixel_unshuffle rad2deg selu sinc smooth_l1_loss soft_margin_loss
softshrink special_entr special_erfcx special_log_ndtr special_xlog1py std_mean tril_indices triu_indices
upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_trilinear3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d xlogy
_fused_rms_norm_backward _prelu_kernel_backward batch_norm_backward binary_cross_entropy_backward diagonal_backward glu_backward
huber_loss_backward log_sigmoid_backward logit_backward mish_backward mse_loss_backward native_batch_norm_backward
rrelu_with_noise_backward softplus_backward unfold_backward
""".split()


BATCH_NORMS = "_batch_norm_no_update _batch_norm_with_update_functional _native_batch_norm_legit _native_batch_norm_legit_functional".split()
QUANTIZED = "quantize_per_tensor dequantize_per_tensor quantize_per_channel dequantize_per_channel".split()


def table():
    return _table(sys.modules.get("torch.ao.quantization.fx._decomposed"))


@functools.cache
def _table(quantized):
    """quantized: PyTorch's module that defines the operators of quantized_decomposed; None: not loaded, so no graph has them."""
    import torch
    from torch._decomp import get_decompositions

    found = get_decompositions([getattr(torch.ops.aten, name) for name in NAMES if hasattr(torch.ops.aten, name)])
    for op in (torch.ops.aten.linspace.default, torch.ops.aten.linspace.Tensor_Tensor, torch.ops.aten.linspace.Tensor_Scalar,
               torch.ops.aten.linspace.Scalar_Tensor):
        found[op] = _as_the_kernel(found[op])
    found |= {op: _with_wide_statistics(found[op]) for op in found if op._opname in BATCH_NORMS}
    found[torch.ops.aten._weight_norm_interface.default] = _weight_norm
    found[torch.ops.aten.native_dropout.default] = _dropout_of_all
    found[torch.ops.aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    found[torch.ops.aten._amp_foreach_non_finite_check_and_unscale.default] = _unscale
    found[torch.ops.aten._amp_update_scale.default] = _update_scale
    found |= {op: functools.partial(op._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd) for op in _of_lists(torch)}
    if quantized is not None:
        found |= {getattr(torch.ops.quantized_decomposed, name).default: getattr(quantized, name) for name in QUANTIZED}
    return found


def _as_the_kernel(linspace):
    """linspace as PyTorch's kernel computes it: to a dtype of integers it casts both ends first. f32 and f64 have a row."""
    import torch

    def cast(end):
        if isinstance(end, float):
            return int(end)
        return end.trunc() if isinstance(end, torch.Tensor) and end.is_floating_point() else end

    def run(start, end, steps, *, dtype=None, **more):
        result = dtype or torch.get_default_dtype()
        if result in (torch.float32, torch.float64):
            return NotImplemented
        if not result.is_floating_point and not result.is_complex:
            start, end = cast(start), cast(end)
        return linspace(start, end, steps, dtype=dtype, **more)

    return run


def _with_wide_statistics(batch_norm):
    """With an image of 16 bits and parameters of f32, as under autocast, PyTorch's kernel for the CPU saves the statistics in f32. The
    decomposition rounds them to the dtype of the image."""
    import torch

    def run(x, *others):
        wide = any(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in others)
        if not wide or x.device.type != "cpu" or x.dtype not in (torch.bfloat16, torch.float16):
            return batch_norm(x, *others)
        y, *statistics = batch_norm(x.float(), *others)
        return y.to(x.dtype), *statistics

    return run


def _weight_norm(v, g, dim=0):
    """As PyTorch's kernel for the CPU: 16-bit floats are computed in f32, which is the dtype of their norms."""
    import torch

    wide = v.float() if v.dtype in (torch.bfloat16, torch.float16) else v
    norms = wide.norm(2, [i for i in range(v.dim()) if i != dim % v.dim()], keepdim=True)
    return (wide * (g / norms)).to(v.dtype), norms


def _encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1,
                   norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):
    """nn.TransformerEncoderLayer in evaluation mode, which is one operator. mask: every element but 0 hides a key; of shape [queries, keys]
    with mask_type 0, [batch, keys] with 1, [batch, heads, queries, keys] with 2."""
    from torch.nn import functional as F

    if src.numel() == 0:
        return src.clone()
    visible = None
    if mask is not None:
        visible = (mask == 0)[:, None, None] if mask_type == 1 else mask == 0

    def attention(x):
        q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in F.linear(x, qkv_weight, qkv_bias).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, visible)
        if visible is not None:  # PyTorch's softmax of a row without keys is NaN here
            y = y.where(visible.any(-1, keepdim=True), float("nan"))
        return F.linear(y.transpose(1, 2).flatten(2), proj_weight, proj_bias)

    def feed_forward(x):
        return F.linear((F.gelu if use_gelu else F.relu)(F.linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    norm_1, norm_2 = (functools.partial(F.layer_norm, normalized_shape=(embed_dim,), weight=weight, bias=bias, eps=eps)
                      for weight, bias in ((norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)))
    if norm_first:
        x = src + attention(norm_1(src))
        return x + feed_forward(norm_2(x))
    x = norm_1(src + attention(src))
    return norm_2(x + feed_forward(x))


def _dropout_of_all(x, p, train):
    """Dropout with the probability 1 draws no numbers in eager mode, but aten.native_dropout draws them."""
    import torch

    return (x * 0, torch.zeros_like(x, dtype=torch.bool)) if p == 1 and train is not False else NotImplemented


def _unscale(gradients, found_inf, inv_scale):
    """As PyTorch's kernel: (gradients times inv_scale, 1 if an element of a gradient is no finite number, else found_inf). inv_scale: a scalar of f32."""
    import torch

    wrong = torch.stack([g.isfinite().logical_not().any() for g in gradients]).any() if gradients else found_inf != 0
    return [g * inv_scale for g in gradients], torch.where(wrong, torch.ones_like(found_inf), found_inf)


def _update_scale(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval):
    """As PyTorch's kernel: (scale, how many steps in a row had finite gradients). Both are scalars."""
    import torch

    steps = growth_tracker + 1
    grown = scale * growth_factor
    grows = (steps == growth_interval) & grown.isfinite()
    kept = torch.where(grows, grown, scale), torch.where(steps == growth_interval, torch.zeros_like(steps), steps)
    wrong = found_inf != 0
    return torch.where(wrong, scale * backoff_factor, kept[0]), torch.where(wrong, torch.zeros_like(steps), kept[1])


def _of_lists(torch):
    """The ops _foreach_X that write to no operand, if PyTorch has a kernel that runs X for each tensor of a list."""
    names = [n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::_foreach_")]
    for name, _, overload in (n.partition(".") for n in names):
        op = getattr(getattr(torch.ops.aten, name), overload or "default")
        if not op._schema.is_mutable and op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeExplicitAutograd):
            yield op

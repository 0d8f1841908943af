"""Group norms in graphs with gradients (training.py). A group is a part of an image, so it takes long to compute its mean again: a group norm
is group_norm_statistics(), whose results are saved, and the map group_norm(), which the backward graph computes again. by_channels: the
channels of x are innermost in memory, and groups have few of them. Tested by tests/torch/test_training_norms.py.
"""

import math

import torch
from torch._decomp.decompositions import native_group_norm_backward

_library = torch.library.Library("tenon", "FRAGMENT")
_library.define("group_norm_statistics(Tensor x, int groups, float eps, bool by_channels) -> (Tensor, Tensor)")
_library.define("group_norm(Tensor x, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool by_channels) -> Tensor")
_library.define("group_norm_gradient(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, bool[3] output_mask, bool by_channels)"
                " -> (Tensor?, Tensor?, Tensor?)")


@torch.library.impl(_library, "group_norm_statistics", "CompositeExplicitAutograd")
def _(x, groups, eps, by_channels):
    """The mean and 1 / sqrt(variance + eps) of each group of x [N,C,*], both [N,groups], in f32 if x has 16 bits."""
    grouped = x.to(_wide(x)).reshape(x.shape[0], groups, -1)
    variance, mean = torch.var_mean(grouped, 2, correction=0)
    return mean, torch.rsqrt(variance + eps)


@torch.library.register_fake("tenon::group_norm_statistics", lib=_library)
def _(x, groups, eps, by_channels):
    return tuple(x.new_empty((x.shape[0], groups), dtype=_wide(x)) for _ in range(2))


@torch.library.impl(_library, "group_norm", "CompositeExplicitAutograd")
def _(x, mean, rstd, weight, bias, by_channels):
    """The group norm of x [N,C,*] with these statistics of its groups, [N,groups]; weight and bias: [C]."""
    channels = (1, -1, *(1 for _ in x.shape[2:]))
    of_channels = lambda v: v.repeat_interleave(x.shape[1] // mean.shape[1], 1).reshape(x.shape[0], *channels[1:])
    y = (x - of_channels(mean)) * of_channels(rstd)
    y = y if weight is None else y * weight.reshape(channels)
    return (y if bias is None else y + bias.reshape(channels)).to(x.dtype)


@torch.library.register_fake("tenon::group_norm", lib=_library)
def _(x, mean, rstd, weight, bias, by_channels):
    return torch.empty_like(x)


@torch.library.impl(_library, "group_norm_gradient", "CompositeExplicitAutograd")
def _(grad, x, mean, rstd, weight, output_mask, by_channels):
    """The gradients of x, weight and bias, for the gradient of group_norm()."""
    n, c, *pixels = x.shape
    wide = native_group_norm_backward(grad, x, mean, rstd, weight, n, c, math.prod(pixels), mean.shape[1], output_mask)
    dtypes = x.dtype, *(x.dtype if weight is None else weight.dtype for _ in range(2))
    return tuple(None if t is None else t.to(dtype) for t, dtype in zip(wide, dtypes))


@torch.library.register_fake("tenon::group_norm_gradient", lib=_library)
def _(grad, x, mean, rstd, weight, output_mask, by_channels):
    of_channels = lambda: x.new_empty(x.shape[1], dtype=x.dtype if weight is None else weight.dtype)
    return torch.empty_like(x) if output_mask[0] else None, *(of_channels() if wanted else None for wanted in output_mask[1:])


def _wide(x):
    return torch.float64 if x.dtype == torch.float64 else torch.float32

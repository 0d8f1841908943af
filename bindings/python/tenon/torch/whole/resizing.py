"""Resizing in graphs with gradients. PyTorch decomposes it before it differentiates, so its gradient would be one scatter for each element
that an element of the result reads. While AOTAutograd traces, the operators stay whole, and the gradient is one operator with a row
(ops/resize.py). The operators themselves are decomposed afterwards (decompositions.py).

Tested by tests/torch/test_resize.py.
"""

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import tracing

_AUTOGRAD, _META = torch._C.DispatchKey.Autograd, torch._C.DispatchKey.Meta
_DECOMPOSED = (torch._C.DispatchKey.CompositeImplicitAutograd, _AUTOGRAD)  # keys of PyTorch's decompositions


def _keeps(x):
    """Whether the gradient of resizing x is to be one operator. Operators in a transform of torch.func may have no such gradient."""
    return (tracing.is_active() and x.device.type == "cpu" and x.is_floating_point() and not is_traceable_wrapper_subclass(x)
            and torch._C._functorch.peek_interpreter_stack() is None)


def _keep(name):
    """Keeps both forms of an operator whole: the one that takes sizes, and `vec`, which takes either sizes or scales."""
    packet = getattr(torch.ops.aten, name)
    op = packet.default

    def whole(x, *others, **keywords):
        return op._op_dk(_AUTOGRAD, x, *others, **keywords) if _keeps(x) else None

    def whole_vec(x, output_size, *others, **keywords):
        if keywords or not _keeps(x):
            return None
        *align_corners, scales = others
        size = upsample_compute_output_size(x.size(), output_size, scales)
        return op(x, size, *align_corners, *(scales or [None] * len(size)))

    for form, kernel in ((op, whole), (packet.vec, whole_vec)):
        for key in _DECOMPOSED:
            if key in form.py_kernels:
                tracing.replace_kernel(form, key, kernel)


def _give_meta_kernel(op, keeps_order):
    """Gives the gradient a meta kernel that takes symbolic sizes. PyTorch has one for nearest2d only. keeps_order: whether its result has
    the memory format of its operand."""

    def gradient(dy, output_size, input_size, *_, **__):
        order = suggest_memory_format(dy) if keeps_order else torch.contiguous_format
        return torch.empty(input_size, dtype=dy.dtype, device=dy.device, memory_format=order)

    if _META not in op.py_kernels:
        op.py_impl(_META)(gradient)


for _name in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d", "nearest1d", "nearest3d"):
    _give_meta_kernel(getattr(torch.ops.aten, f"upsample_{_name}_backward").default, _name not in ("bicubic2d", "nearest3d"))
for _axes in (1, 3):
    _give_meta_kernel(getattr(torch.ops.aten, f"_upsample_nearest_exact{_axes}d_backward").default, False)
for _name in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d", "nearest1d", "nearest2d", "nearest3d"):
    _keep("upsample_" + _name)
for _axes in (1, 2, 3):
    _keep(f"_upsample_nearest_exact{_axes}d")

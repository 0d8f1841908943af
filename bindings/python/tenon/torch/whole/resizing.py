"""Resizing in graphs with gradients. PyTorch decomposes it before it differentiates, so its gradient would be one scatter for each element
that an element of the result reads. While AOTAutograd traces, whole() keeps the operators, and the gradient is one operator with a row
(ops/resize.py). The operators themselves are decomposed afterwards (decompositions.py).

Tested by tests/torch/test_resize.py.
"""

import contextlib
import threading

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_DECOMPOSED = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)  # keys of PyTorch's decompositions
_AUTOGRAD = torch._C.DispatchKey.Autograd
_tracing = threading.local()


@contextlib.contextmanager
def whole():
    """A context in which this thread traces graphs."""
    _tracing.active = True
    try:
        yield
    finally:
        _tracing.active = False


def _keeps(x):
    """Whether the gradient of resizing x is to be one operator. Operators in a transform of torch.func may have no such gradient."""
    return (getattr(_tracing, "active", False) and x.device.type == "cpu" and x.is_floating_point() and not is_traceable_wrapper_subclass(x)
            and torch._C._functorch.peek_interpreter_stack() is None)


def _keep(name):
    packet = getattr(torch.ops.aten, name)
    op = packet.default

    def whole(x, *others, **keywords):
        return op._op_dk(_AUTOGRAD, x, *others, **keywords)

    def whole_vec(x, output_size, *others):
        *align_corners, scales = others
        size = upsample_compute_output_size(x.size(), output_size, scales)
        return op(x, size, *align_corners, *(scales or [None] * len(size)))

    _replace(op, lambda keywords: True, whole)
    _replace(packet.vec, lambda keywords: not keywords, whole_vec)


def _replace(op, takes, whole):
    """PyTorch's tracers call its decompositions of the operator where they do not call `whole`."""
    for key in _DECOMPOSED:
        before = op.py_kernels.get(key)
        if before is None:
            continue

        def run(x, *others, before=before, **keywords):
            if _keeps(x) and takes(keywords):
                return whole(x, *others, **keywords)
            return before(x, *others, **keywords)

        op.py_kernels[key] = run
    op._dispatch_cache.clear()


for _name in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d", "nearest1d", "nearest2d", "nearest3d"):
    _keep("upsample_" + _name)
for _axes in (1, 2, 3):
    _keep(f"_upsample_nearest_exact{_axes}d")

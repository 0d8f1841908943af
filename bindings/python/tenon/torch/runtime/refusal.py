"""Turns exceptions into reasons why PyTorch runs something instead of Tenon, and runs a segment whose program refuses a call.

During compilation, a node, a segment or a graph that raises an exception goes to PyTorch (partition.py, compile.py). During a
call, if a program refuses, PyTorch's own operators compute its segment from the inputs of the program (Rescue). In both cases
stats() counts the reason and explain() shows it. Exceptions that control PyTorch's compiler are passed on.
Tested by tests/torch/test_refusal.py.
"""

import logging
import math

import torch
import torch._dynamo.exc

from ... import _abi
from ...graph_text import Unsupported
from ..lowering import layouts

log = logging.getLogger("tenon")
STEERING = (torch._dynamo.exc.TorchDynamoException,)


class Refused(Exception):
    """The whole graph runs in PyTorch; the message says why."""


class InPyTorch(Exception):
    """PyTorch computes this call of a segment, as benchmark.py has decided. This is no refusal."""


def sentence(error):
    """The reason that an exception gives for running something in PyTorch."""
    if isinstance(error, STEERING):
        raise error
    if isinstance(error, (Refused, Unsupported)):
        return str(error)
    if isinstance(error, _abi.Error):
        return f"Tenon's library: {error}"
    log.debug("an error inside Tenon", exc_info=error)
    return f"an error inside Tenon: {type(error).__name__}: {error}"


def of_calls(record, fallback):
    """A function refused(error) that counts and logs a refused call, or raises the error if fallback is "error"."""
    def refused(error):
        if fallback == "error":
            raise error
        why = sentence(error)
        record.refused_call(why.split("\n")[0])
        wrong = isinstance(error, _abi.Error) and error.status == "internal"
        log.log(logging.ERROR if wrong else logging.INFO if fallback == "count" else logging.DEBUG,
                "%s: a call runs in PyTorch: %s", record.name, why)
    return refused


class Rescue:
    """Computes a segment in PyTorch, for a call that the segment's program refuses."""

    def __init__(self, text, constants, refused):
        """text: the source of a function pytorch(args, ...). codegen.Writer writes it; the first call that needs it compiles it."""
        self.text, self.constants, self.refused, self.function = text, constants, refused, None

    def __call__(self, error, args, *values):
        if any(a is ... for a in args):  # donated arguments that the program has overwritten or given back
            raise error
        # PyTorch raises its own error for an index out of range and for an integer divided by 0.
        fault = isinstance(error, _abi.Error) and error.status == "invalid"
        if not fault and not isinstance(error, InPyTorch):
            of_vmap = any(isinstance(a, torch.Tensor) and _memory(a) is None for a in args)
            self.refused(Refused("an argument is a tensor of vmap, which has no memory") if of_vmap else error)
        if self.function is None:
            scope = dict(self.constants, fixed=fixed, owned=owned, updated=updated)
            exec(compile(self.text, "<tenon: a segment in PyTorch>", "exec"), scope)
            self.function = scope["pytorch"]
        results = self.function(args, *values)
        if fault:
            self.refused(error)
        return results


def fixed(tensor, size, stride, dtype):
    """Gives a host result the strides and the dtype that the tracer found, because programs and views rely on them: PyTorch's meta functions are
    not always right. Raises RuntimeError if the size is not the one that the tracer found, unless that one is empty."""
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    if tuple(tensor.shape) != tuple(size) and math.prod(size):
        raise RuntimeError(f"tenon: a result of PyTorch has size {list(tensor.shape)}, where its meta function told {list(size)}")
    if tensor.stride() == stride or layouts.normal_strides(size, tensor.stride()) == layouts.normal_strides(size, stride):
        return tensor
    return torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _memory(tensor):
    """The address of a tensor's storage; None for a tensor of vmap, which has none."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        return None


def owned(results, args):
    """The tensors of (tensor, size, stride, dtype) rows, made as a program would return them: with these strides, and each in memory that
    it shares with no other result and no argument. Tensors of vmap are returned as they are, since no program reads them."""
    taken = {_memory(a) for a in args if isinstance(a, torch.Tensor)}
    tensors = []
    for tensor, size, stride, dtype in results:
        if _memory(tensor) is not None:
            tensor = fixed(tensor, size, stride, dtype)
            if _memory(tensor) in taken:
                tensor = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
            taken.add(_memory(tensor))
        tensors.append(tensor)
    return tensors


def updated(inputs, results):
    """Copies the last results to the inputs that the segment updates. Returns the other results, which are its outputs."""
    outputs = results[:len(results) - len(inputs)]
    for tensor, value in zip(inputs, results[len(outputs):]):
        tensor.copy_(value)
    return outputs

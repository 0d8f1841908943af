"""Refusals: what keeps Tenon from computing something, in a sentence, and what happens then.

There is one path. While a graph is compiled, the node, the segment or the graph that meets an exception goes to PyTorch
(partition.py, compile.py); in a call, PyTorch's own operators compute the segment whose program refuses, from the values
that the program would have read (Rescue). The reason counts in stats() and stands in explain() either way. Exceptions by
which PyTorch's compiler steers itself pass.
Tested by tests/torch/test_refusal.py.
"""

import logging

import torch
import torch._dynamo.exc

from ... import _abi
from ...graph_text import Unsupported
from ..lowering import sizes

log = logging.getLogger("tenon")
STEERING = (torch._dynamo.exc.TorchDynamoException,)


class Refused(Exception):
    """The whole graph runs in PyTorch; the message says why."""


def sentence(error):
    """Why something runs in PyTorch, from the exception that says so."""
    if isinstance(error, STEERING):
        raise error
    if isinstance(error, (Refused, Unsupported)):
        return str(error)
    if isinstance(error, _abi.Error):
        return f"Tenon's library: {error}"
    log.debug("an error inside Tenon", exc_info=error)
    return f"an error inside Tenon: {type(error).__name__}: {error}"


def of_calls(record, fallback):
    """A function that counts the refusal of a call, or raises it where that is asked for."""
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
    """Computes the outputs of a segment in PyTorch, for a call that its program refuses."""

    def __init__(self, text, constants, refused):
        """text: of a function pytorch(args, ...), made by codegen.Writer, which stays text until it is needed."""
        self.text, self.constants, self.refused, self.function = text, constants, refused, None

    def __call__(self, error, args, *values):
        # PyTorch raises its own error for an index out of range and for an integer divided by 0.
        fault = isinstance(error, _abi.Error) and error.status == "invalid"
        if not fault:
            self.refused(error)
        if self.function is None:
            scope = dict(self.constants, fixed=fixed, owned=owned)
            exec(compile(self.text, "<tenon: a segment in PyTorch>", "exec"), scope)
            self.function = scope["pytorch"]
        results = self.function(args, *values)
        if fault:
            self.refused(error)
        return results


def fixed(tensor, size, stride):
    """A host result with the strides the tracer promised, for Tenon or for a view."""
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if tensor.stride() == stride or sizes.normal_strides(size, tensor.stride()) == sizes.normal_strides(size, stride):
        return tensor
    return torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def owned(results, args):
    """(tensor, size, stride) of each result -> the tensors as a program gives them: with these strides, each in memory of its own."""
    taken = {a.untyped_storage()._cdata for a in args if isinstance(a, torch.Tensor)}
    tensors = []
    for tensor, size, stride in results:
        tensor = fixed(tensor, size, stride)
        if tensor.untyped_storage()._cdata in taken:
            tensor = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
        taken.add(tensor.untyped_storage()._cdata)
        tensors.append(tensor)
    return tensors

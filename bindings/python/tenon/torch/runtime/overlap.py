"""Detects calls in which an input that the graph writes to overlaps another input in memory.

AOTAutograd makes a graph of pure functions and copies the new values of inputs back at its end. This is wrong for an input
that shares memory with another one, and PyTorch does not guard against it (pytorch #139789). Such a call runs Dynamo's graph,
whose operators write in place like those of the model. Tested by tests/torch/test_overlap.py.
"""

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import marshal
from .refusal import Refused

WHY = "inputs that overlap in memory, one of which the graph writes to"


def guarded(compiled, gm, own, example_inputs, written, refused):
    """A function that runs `compiled`, which AOTAutograd made from Dynamo's graph gm. If one of the inputs `written` overlaps
    another input, the function calls refused(error) and runs gm instead. written: indices of inputs, after the tensors `own`
    of gm itself."""
    tensors = [i for i, t in enumerate((*own, *example_inputs)) if _is_plain(t)]
    first = [i for i in tensors if i in written]
    if not first or len(tensors) < 2:
        return compiled
    rest = [i for i in tensors if i not in written]
    apart, plan, eager, own = marshal.chosen.apart, marshal.chosen.plan([len(first), *first, *rest]), _without_metadata(gm), tuple(own)

    def call(*args):
        given = own + args if own else args
        if apart(given, plan) or not _overlap([given[i] for i in first], [given[i] for i in rest]):
            return compiled(*args)
        refused(Refused(WHY))
        return eager(*args)

    return call


def _is_plain(t):
    return isinstance(t, torch.Tensor) and t.layout == torch.strided and not is_traceable_wrapper_subclass(t)


def _overlap(written, others):
    """Whether one of `written` shares an element with another tensor. Their spans are known to overlap."""
    return any(_share(a, b) for i, a in enumerate(written) for b in (*written[:i], *others))


def _share(a, b):
    (begin, end), (from_, to) = marshal.span(a), marshal.span(b)
    if begin >= to or from_ >= end:
        return False
    if a.untyped_storage()._cdata != b.untyped_storage()._cdata:
        return True
    return bool(torch._C._dynamo.guards.compute_overlapping_tensors([a, b], symbolic=False))


def _without_metadata(gm):
    """Dynamo's graph without metadata, which would keep example tensors alive."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    for n in graph.nodes:
        n.meta = {}
    return torch.fx.GraphModule(gm, graph)

"""Indices that are integer tensors without axes, as x[t] in a step of a diffusion scheduler. Python's indexing reads the number and makes a
view, so no tracer of PyTorch can follow it. Tested by tests/torch/test_indices.py.
"""

import operator

import torch

_WRITING = {"setitem", "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift"}


def keep_whole(gm):
    """Replaces x[.., t, ..] in Dynamo's graph, and in the graphs inside it, by x.index(t)[.., 0, ..], if nobody can tell the copy from the view:
    nothing writes to the memory of x, and no result is a view of it."""
    for graph in (m.graph for m in gm.modules() if isinstance(m, torch.fx.GraphModule)):
        for n in _copied(graph):
            _index(graph, n)


def _copied(graph):
    """The nodes x[.., t, ..] that may be copies."""
    indexed = [n for n in graph.nodes if n.op == "call_function" and n.target is operator.getitem and _numbers(n)]
    if not indexed:
        return []
    used = [x for n in graph.nodes if n.op == "output" or _writes(n) for x in n.all_input_nodes]
    try:
        shared = set(map(_memory, used))
        return [n for n in indexed if _memory(n) not in shared]
    except (RuntimeError, NotImplementedError):  # a tensor of a subclass that has no memory
        return []


def _numbers(n):
    """{position in the index: axis} of the tensors without axes; empty if the index has other tensors, or an axis is not known."""
    found, axis, key = {}, 0, n.args[1] if isinstance(n.args[1], tuple) else (n.args[1],)
    value = n.args[0].meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return {}
    for position, item in enumerate(key):
        if item is Ellipsis:
            axis = value.dim() - sum(k is not None for k in key[position + 1:])
            continue
        index = item.meta.get("example_value") if isinstance(item, torch.fx.Node) else None
        if isinstance(index, torch.Tensor):
            if index.dim() or index.dtype is torch.bool or index.is_floating_point():
                return {}
            found[position] = axis
        elif isinstance(item, (bool, list)):
            return {}
        axis += item is not None
    return found


def _memory(n):
    value = n.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) and value.layout is torch.strided else None


def _writes(n):
    """Whether a node may write to one of its operands."""
    if n.op in ("placeholder", "output"):
        return False
    if n.op not in ("call_function", "call_method", "get_attr") or isinstance(n.target, torch._ops.HigherOrderOperator):
        return True
    if isinstance(n.target, torch._ops.OpOverload):
        return n.target._schema.is_mutable
    name = n.target if isinstance(n.target, str) else getattr(n.target, "__name__", "_")
    flags = (*n.args, n.kwargs.get("inplace"))  # F.relu(x, True)
    return name.endswith("_") or name in _WRITING or "out" in n.kwargs or any(flag is True for flag in flags)


def _index(graph, n):
    x, key = n.args
    key = list(key) if isinstance(key, tuple) else [key]
    with graph.inserting_before(n):
        for position, axis in _numbers(n).items():
            one = graph.call_method("reshape", (key[position], (1,)))
            x = graph.call_function(torch.ops.aten.index.Tensor, (x, [None] * axis + [one]))
            key[position] = 0
    n.args = x, tuple(key)

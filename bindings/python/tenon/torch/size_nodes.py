"""Nodes that compute sizes. Tested by tests/torch/test_attention_dropout.py and test_training.py."""

import torch


def size_nodes(graph, values):
    """The nodes of a graph that compute the SymInts among `values`; an int stays an int. New nodes stand at the insertion point of the graph.
    None if there are no such nodes for a size: Graph.materialize_symints fails at maxima of products and at products with a float.
    It leaves the partial products of three and more factors without the value that PyTorch's partitioners read."""
    before = set(graph.nodes)
    try:
        found = graph.materialize_symints(list(values))
    except Exception:  # it raises AssertionError, TraceError and others
        for n in reversed([n for n in graph.nodes if n not in before]):
            graph.erase_node(n)
        return None
    for n in found:
        if isinstance(n, torch.fx.Node):
            _value(n)
    return found


def _value(n):
    if n.op == "call_function" and not isinstance(n.meta.get("val"), torch.Tensor):
        values = [_value(a) if isinstance(a, torch.fx.Node) else a for a in n.args]
        if "val" not in n.meta:
            n.meta["val"] = n.target(*values)
    return n.meta["val"]

"""Converts the arguments of a node to the arguments of its row: a tensor becomes an Operand, a size an int or a sympy expression.

Tested by tests/torch/test_lower.py.
"""

import torch

from ...graph_text import Unsupported, Value
from . import sizes
from .tensors import CPU, DTYPES, is_moved, why_not


class Operand(Value):
    """The Value of a node of the graph. fake: the node's FakeTensor."""

    __slots__ = ("fake",)

    def __init__(self, name, dtype, shape, fake):
        super().__init__(name, dtype, shape)
        self.fake = fake


def read(x, values, device=CPU):
    """Converts an argument of a node. values: earlier node -> Value or tuple of Values, for the nodes that Tenon takes. Raises
    Unsupported."""
    if isinstance(x, torch.fx.Node):
        v = values.get(x) or of_host(x, device)
        return Operand(v.name, v.dtype, v.shape, x.meta["val"]) if isinstance(v, Value) else v
    if isinstance(x, (list, tuple)):
        return [read(y, values, device) for y in x]
    return x


def of_host(node, device=CPU):
    """Converts a node that the host computes. Raises Unsupported."""
    meta = node.meta.get("val")
    if isinstance(meta, torch.Tensor):
        if (why := why_not(meta, CPU if is_moved(meta, device) else device)) is not None:
            raise Unsupported(why)
        return Operand(node.name, DTYPES[meta.dtype], sizes.sizes(meta.shape), meta)
    if isinstance(meta, torch.SymInt):
        return sizes.size(meta)
    if isinstance(meta, torch.SymFloat):
        if (expr := meta.node.expr).free_symbols and all(s.is_integer for s in expr.free_symbols):
            return sizes.Real(expr)
    if isinstance(meta, (torch.SymFloat, torch.SymBool)):
        raise Unsupported(f"a {type(meta).__name__} operand")
    raise Unsupported(f"operand {node.name} is not a tensor")

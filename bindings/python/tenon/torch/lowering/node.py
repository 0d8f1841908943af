"""Lowers one node of an ATen graph. The node's row of the op table writes lines of graph text or raises Unsupported with a reason.

Lines of different nodes are independent; partition.py collects them into graphs. Tested by tests/torch/test_lower.py.
"""

import functools
import operator

import torch

from ...graph_text import Unsupported, Value
from . import sizes
from .emitter import Emitter, Operand
from .sizes import same_shape
from .tensors import CPU, DTYPES, is_moved, same_device, why_not


class Lowered:
    """A lowered node. result: a Value, or a tuple with None for results that no node reads; cheap: whether every segment that
    reads it may compute it again; placed: inputs of the graph whose storage offset in a call has to be that of the trace."""

    __slots__ = ("lines", "result", "cheap", "placed")

    def __init__(self, lines, result, cheap, placed=()):
        self.lines, self.result, self.cheap, self.placed = lines, result, cheap, placed


def value_of(node, device=CPU):
    """The Value of a node that the host computes."""
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor):
        raise Unsupported(f"operand {node.name} is not a tensor")
    if (why := why_not(fake, CPU if is_moved(fake, device) else device)) is not None:
        raise Unsupported(why)
    return Operand(node.name, DTYPES[fake.dtype], sizes.sizes(fake.shape), fake)


def lower_node(node, values, table, device=CPU, seed=None):
    """The Lowered of one call_function node. Raises Unsupported. values: earlier node -> Value or tuple of Values; device: of the
    graph; seed: as in Emitter."""
    if node.target is operator.getitem:
        result = values.get(node.args[0])
        if not isinstance(result, tuple):
            raise Unsupported(f"a result of {node.args[0].target}, which runs in PyTorch")
        if result[node.args[1]] is None:
            raise Unsupported(f"result {node.args[1]} of {node.args[0].target}")
        return Lowered([], result[node.args[1]], cheap=True)
    row = table.get(name_of(node.target))
    if row is None:
        raise Unsupported(f"{node.target} has no row in Tenon's op table")
    e = Emitter(node, seed, device)
    fakes = node.meta.get("val")
    for fake in [f for i, f in enumerate(fakes) if e.used(i)] if isinstance(fakes, (tuple, list)) else [fakes]:
        if isinstance(fake, torch.Tensor) and (why := why_not(fake, device)) is not None:
            raise Unsupported(why)

    def read(x):
        if isinstance(x, torch.fx.Node):
            if (v := values.get(x)) is None:
                meta = x.meta.get("val")
                v = size_argument(meta) if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)) else value_of(x, device)
            if isinstance(v, Value):
                v = Operand(v.name, v.dtype, v.shape, x.meta["val"])
            return v
        if isinstance(x, (list, tuple)):
            return [read(y) for y in x]
        return x

    if (on := node.kwargs.get("device")) is not None and not same_device(torch.device(on), device):
        raise Unsupported(f"a tensor on {on}")
    result = row.emit(e, *[read(a) for a in node.args], **{k: read(a) for k, a in node.kwargs.items()})
    if isinstance(result, Value):
        result = finish(e, result)
    return Lowered(e.lines, result, row.view or not any(line.operands for line in e.lines), e.placed)


@functools.lru_cache(1024)
def name_of(target):
    """The text of a node's target, which is the key of its row in the op table."""
    return str(target)


def size_argument(meta):
    if isinstance(meta, torch.SymInt):
        return sizes.size(meta)
    if isinstance(meta, torch.SymFloat):
        if (expr := meta.node.expr).free_symbols and all(s.is_integer for s in expr.free_symbols):
            return sizes.Real(expr)
    raise Unsupported(f"a {type(meta).__name__} operand")


def finish(e, result):
    """Gives the result the dtype and shape that PyTorch expects, and the node's own name."""
    if result.dtype != e.dtype:
        result = e.cast(result, e.dtype)
    if not same_shape(result.shape, e.shape):
        if len(result.shape) != len(e.shape):
            raise Unsupported(f"{e.node.target}: Tenon's result has shape {list(result.shape)}, PyTorch's {list(e.shape)}")
        if not any(result is line.result for line in e.lines):
            result = e.reshape(result, e.shape)
        result.shape = e.shape  # may be another expression of the same sizes; the library checks that it is
    if any(result is line.result for line in e.lines):
        result.name = e.node.name
    return result

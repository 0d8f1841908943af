"""Lowers one node of an ATen graph. The node's row of the op table writes lines of graph text or raises Unsupported with a reason.

Lines of different nodes are independent; partition.py collects them into graphs. Tested by tests/torch/test_lower.py.
"""

import functools
import itertools
import operator

import torch

from ...graph_text import Unsupported, Value
from .emitter import Emitter, is_used
from .operand import read
from .sizes import is_symbolic, same_shape
from .tensors import CPU, dtype_of, same_device, why_not


class Lowered:
    """A lowered node. result: a Value, or a tuple with None for results that no node reads; cheap: whether every segment that
    reads it may compute it again; faults: whether a line can fault; placed: inputs of the graph whose storage offset in a call has
    to be that of the trace."""

    __slots__ = ("lines", "result", "cheap", "faults", "placed")

    def __init__(self, lines, result, cheap, faults=False, placed=()):
        self.lines, self.result, self.cheap, self.faults, self.placed = lines, result, cheap, faults, placed


def lower_node(node, values, table, device=CPU, seed=None, repeats=None):
    """The Lowered of one call_function node. Raises Unsupported. values: earlier node -> Value or tuple of Values; device: of the
    graph; seed: as in Emitter; repeats: the Repeats of the graph."""
    if node.target is operator.getitem:
        result = values.get(node.args[0])
        if not isinstance(result, tuple):
            raise Unsupported(f"a result of {node.args[0].target}, which runs in PyTorch")
        if result[node.args[1]] is None:
            raise Unsupported(f"result {node.args[1]} of {node.args[0].target}")
        return Lowered([], result[node.args[1]], cheap=True)
    row = table.get(target := name_of(node.target))
    if row is None:
        raise Unsupported(f"{node.target} has no row in Tenon's op table")
    fakes = node.meta.get("val")
    used = tuple([is_used(node, i) for i in range(len(fakes))]) if isinstance(fakes, (tuple, list)) else None
    key, operands = repeats.key(node, target, used) if repeats and seed is None else (None, ())
    if key is not None and (found := repeats.find(key, node.name, operands)) is not None:
        return Lowered(*found)
    for fake in itertools.compress(fakes, used) if used else [fakes]:
        if isinstance(fake, torch.Tensor) and (why := why_not(fake, device)) is not None:
            raise Unsupported(why)
    if (on := node.kwargs.get("device")) is not None and not same_device(torch.device(on), device):
        raise Unsupported(f"a tensor on {on}")
    e = Emitter(node, seed, device)
    args, kwargs = [read(a, values, device) for a in node.args], {k: read(a, values, device) for k, a in node.kwargs.items()}
    try:
        result = row.emit(e, *args, **kwargs)
    except TypeError as error:  # such as float(s), for a symbol s
        if any(is_symbolic(a) for a in (*args, *kwargs.values())):
            raise Unsupported(f"{node.target}: a number that changes from call to call, where a constant is expected") from error
        raise
    if isinstance(result, Value):
        result = finish(e, result)
    else:
        result = tuple([r and e.cast(r, dtype_of(f.dtype)) for r, f in zip(result, fakes, strict=True)])
    found = e.lines, result, row.view or not any(line.operands for line in e.lines), any(line.can_fault() for line in e.lines)
    if key is not None and not e.read_node:
        repeats.add(key, node.name, operands, *found)
    return Lowered(*found, e.placed)


@functools.lru_cache(1024)
def name_of(target):
    """The text of a node's target, which is the key of its row in the op table."""
    return str(target)


def finish(e, result):
    """Gives the result the dtype and shape that PyTorch expects, and the node's own name."""
    if result.dtype != e.dtype:
        result = e.cast(result, e.dtype)
    if not same_shape(result.shape, e.shape):
        if len(result.shape) != len(e.shape):
            raise Unsupported(f"{e.target}: Tenon's result has shape {list(result.shape)}, PyTorch's {list(e.shape)}")
        if not any(result is line.result for line in e.lines):
            result = e.reshape(result, e.shape)
        result.shape = e.shape  # may be another expression of the same sizes; the library checks that it is
    if any(result is line.result for line in e.lines):
        result.name = e.name
    return result

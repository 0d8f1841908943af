"""Lowers equal nodes once. A model repeats its layers, so most nodes of a graph differ from an earlier node only in names.

Two nodes are equal if they have the same operator, the same arguments apart from the names of operands, and operands and results of the
same types and strides. The lines of the later node are those of the earlier one with other names. A row that reads Emitter.node depends on
more, so its lines are not used again.
Tested by tests/torch/test_repeats.py.
"""

import torch

from ...graph_text import Unsupported, Value
from . import sizes
from .operand import of_host


class _Unlike(Exception):
    """A node is not compared with others."""


class Repeats:
    """The nodes of one graph that have been lowered."""

    def __init__(self, values, device):
        """values: node -> Value or tuple of Values, for the nodes that have been lowered so far; device: of the graph."""
        self._values, self._device = values, device
        self._patterns = {}  # key -> _Pattern
        self._operands = {}  # node -> (Value or None, key of the argument)
        self._types = {}     # node -> number of the type of its result
        self._numbers = {}   # type -> its number, which keeps keys short

    def key(self, node, target, used):
        """(key, operands) of a node. Nodes with equal keys have equal lines. operands: the Values that the node reads, each once, in the
        order of the arguments. The key is None if the node is not compared with others. target: the text of the node's target; used: which of several results
        are read."""
        operands = {}  # name -> (number, Value)
        try:
            given = [self._argument(x, operands) for x in node.args]
            given += [(k, self._argument(x, operands)) for k, x in node.kwargs.items()]
            return (target, used, self._type(node), *given), [v for _, v in operands.values()]
        except (_Unlike, Unsupported):
            return None, ()

    def _argument(self, x, operands):
        """The key of an argument. Adds the Values that it has to the operands."""
        if isinstance(x, torch.fx.Node):
            value, kind = self._operands.get(x) or self._operand(x)
            return kind if value is None else (operands.setdefault(value.name, (len(operands), value))[0], kind)
        if x is None or type(x) in _PLAIN:
            return type(x), x  # tells 1 from True
        if type(x) is float:
            return repr(x)  # tells 0.0 from -0.0
        if isinstance(x, (list, tuple)):
            return tuple([self._argument(y, operands) for y in x])
        raise _Unlike

    def _operand(self, node):
        value = self._values.get(node) or of_host(node, self._device)
        if isinstance(value, Value):
            found = value, self._number((value.dtype, value.shape, self._type(node)))
        elif isinstance(value, (int, sizes.sympy.Expr)):
            found = None, ("size", value)
        else:
            raise _Unlike
        self._operands[node] = found
        return found

    def _type(self, node):
        if (number := self._types.get(node)) is None:
            number = self._types[node] = self._number(_type(node.meta.get("val")))
        return number

    def _number(self, kind):
        return self._numbers.setdefault(kind, len(self._numbers))

    def find(self, key, name, operands):
        """(lines, result, cheap, faults) of a node with this key; None if no such node has been lowered. name: of the node."""
        pattern = self._patterns.get(key)
        return pattern and pattern.fill(name, operands)

    def add(self, key, name, operands, lines, result, *facts):
        """Keeps what a node has been lowered to. lines, result, facts: the parts of a node.Lowered."""
        try:
            self._patterns[key] = _Pattern(name, operands, lines, result, facts)
        except _Unlike:
            pass


_PLAIN = {bool, int, str, torch.dtype, torch.device, torch.layout, torch.memory_format}


def _type(val):
    if isinstance(val, torch.Tensor) and val.layout == torch.strided:
        return val.dtype, val.device, sizes.size(val.storage_offset()), sizes.sizes(val.shape), sizes.sizes(val.stride())
    if isinstance(val, (tuple, list)):
        return tuple(map(_type, val))
    if val is None:
        return None
    raise _Unlike


class _Pattern:
    """The lines of a node without the names of the node and of its operands."""

    def __init__(self, name, operands, lines, result, facts):
        numbers = {v.name: number for number, v in enumerate(operands)}
        self.lines = []  # (line, end of its result's name behind the node's name, numbers of the values that it reads)
        for line in lines:
            own, _, rest = line.result.name.partition(".")
            if own != name:
                raise _Unlike
            self.lines.append((line, rest and "." + rest, [_number(numbers, v) for v in line.operands]))
            numbers[line.result.name] = len(numbers)
        self.several, self.facts = isinstance(result, tuple), facts
        self.results = [v and _number(numbers, v) for v in (result if self.several else (result,))]

    def fill(self, name, operands):
        values, lines = list(operands), []
        for line, rest, reads in self.lines:
            result = Value(name + rest, line.result.dtype, line.result.shape)
            lines.append(line.again(result, [values[i] for i in reads]))
            values.append(result)
        results = [None if i is None else values[i] for i in self.results]
        return lines, tuple(results) if self.several else results[0], *self.facts


def _number(numbers, value):
    if value.name not in numbers:
        raise _Unlike
    return numbers[value.name]

"""Writes a graph as a Python function of another library. The library is a table: op -> spelling.

A spelling is a template or a function of a node that returns text. A template has {0} {1} ... for the operands, {all} for all of them
(absent optional operands are None), a name in braces for an attribute, {shape} and {dtype} for the result's. A function gets the node as a
Spelled, and raises NoCounterpart where the library has no such operation. Tested by tests/torch/test_peers.py.
"""

import keyword
import math
import re

from ... import _abi

CONSTANT = "constant"
RESERVED = ("graph", "torch", "F", "jnp", "jax", "lax", "float")  # names that spellings use


class NoCounterpart(Exception):
    """The library has no such operation. The message names it."""


class Spelled:
    """A node with the names of its operands in the function. Attributes are attributes of this object: node.axis."""

    def __init__(self, value, names, dtypes):
        self.node, self.op, self.shape, self.rank = value, value.op, value.shape, len(value.shape)
        self.dtypes, self.dtype = dtypes, dtypes[value.dtype]
        self.inputs = value.operands
        arity = _abi.op(value.op).arity
        self.operands = [names[o.name] for o in value.operands]
        self.operands += ["None"] * (arity - len(self.operands))

    def __getattr__(self, name):
        if name in self.__dict__["node"].attrs:
            value = self.node.attrs[name]
            return self.dtypes[value] if name == "dtype" else value
        raise AttributeError(name)

    def axes_or_all(self):
        """The axes of a reduction, where an empty list means all."""
        rank = len(self.inputs[0].shape)
        return tuple(a % rank for a in self.axes) or tuple(range(rank))

    def refuse(self, why=""):
        raise NoCounterpart(self.op + (f" ({why})" if why else ""))


def literal(value):
    """The Python text of an attribute's value."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, list):
        return repr(tuple(value))
    return repr(value)


def spell(node, rows):
    row = rows.get(node.op)
    if row is None:
        node.refuse()
    if callable(row):
        return row(node)
    attrs = {name: getattr(node, name) if name == "dtype" else literal(value) for name, value in node.node.attrs.items()}
    attrs.update(shape=repr(node.shape), all=", ".join(node.operands))
    attrs.setdefault("dtype", node.dtype)
    return row.format(*node.operands, **attrs)


def source(graph, rows, dtypes):
    """(text, constants) of the function `graph`. It takes the inputs, then the constants, and returns a tuple. graph: from
    graph_read.Graph.at; rows: op -> spelling; dtypes: dtype -> text. Raises NoCounterpart for a node without a spelling."""
    names, used, lines, constants = {}, set(), [], []

    def name(value):
        plain = re.sub(r"\W", "_", value.name)
        if not plain.isidentifier() or keyword.iskeyword(plain) or plain in RESERVED:
            plain = "v" + plain
        while plain in used:
            plain += "_"
        names[value.name] = plain
        used.add(plain)
        return plain

    arguments = [name(v) for v in graph.inputs]
    for node in graph.nodes:
        if node.op == CONSTANT:
            constants.append(node)
            arguments.append(name(node))
            continue
        text = spell(Spelled(node, names, dtypes), rows)
        lines.append(f"    {name(node)} = {text}\n")
    results = "".join(names[v.name] + ", " for v in graph.outputs)
    return f"def graph({', '.join(arguments)}):\n{''.join(lines)}    return ({results})\n", constants

"""Reads graph text (docs/graph_text.md) as the library prints it: one node per line, each with its type.

    graph = read(text)
    graph.at({"N": 64}).nodes[0].shape      # (64, 128)

This module knows no framework. Tested by tests/torch/test_peers.py.
"""

import re
from dataclasses import dataclass, field, replace

from . import _abi
from .graph_text import graph_text

_HEAD = re.compile(r"graph @(\S+?)\((.*)\) \{")
_INPUT = re.compile(r"%([^\s:]+): (\w+)\[([^\]]*)\](?: strides=\[([^\]]*)\])?( param)?(?: = (\w+))?")
_NODE = re.compile(r"  %(\S+) = (\w+)(?:\(([^{]*)\))?(?:\{(.*)\})? : (\w+)\[([^\]]*)\](?: @(\d+))?")
_SIZE = re.compile(r"[\w+\-*/%(), ]+")


@dataclass
class Value:
    """An input or a node. Sizes, in shape, strides and attrs, are text; in a graph that at() returns they are integers."""

    name: str
    dtype: str
    shape: tuple
    op: str = "input"
    operands: list = field(default_factory=list)  # Values
    attrs: dict = field(default_factory=dict)  # also those with default values
    strides: tuple = None  # of an input that is not dense
    symbol: str = None  # whose value a scalar input holds
    group: int = None
    text: str = ""  # of a node's attributes


@dataclass
class Graph:
    name: str
    inputs: list
    nodes: list  # without the inputs
    outputs: list

    def at(self, sizes):
        """The graph with integers for all sizes. sizes: symbol -> integer. Raises ValueError for a symbol without a size."""
        known = {}
        for v in (*self.inputs, *self.nodes):
            known[v.name] = replace(v, shape=_all_at(v.shape, sizes), strides=v.strides and _all_at(v.strides, sizes),
                                    operands=[known[o.name] for o in v.operands],
                                    attrs={k: _attr_at(a, sizes) for k, a in v.attrs.items()})
        pick = lambda values: [known[v.name] for v in values]
        return Graph(self.name, pick(self.inputs), pick(self.nodes), pick(self.outputs))


class Size(str):
    """The text of a size."""


def size_at(text, sizes):
    if not _SIZE.fullmatch(text):
        raise ValueError(f"not a size: {text}")
    try:
        size = eval(text, {"__builtins__": {}, "max": max, "min": min}, dict(sizes))
    except NameError as e:
        raise ValueError(f"the size {e.name} is not known: give --dim {e.name}=4") from None
    except (SyntaxError, TypeError, ArithmeticError) as e:
        raise ValueError(f"not a size: {text} ({e})") from None
    if not isinstance(size, int):
        raise ValueError(f"not a size: {text}")
    return size


def _all_at(texts, sizes):
    return tuple(size_at(t, sizes) for t in texts)


def _attr_at(value, sizes):
    if isinstance(value, Size):
        return size_at(value, sizes)
    return [size_at(v, sizes) for v in value] if isinstance(value, list) else value


def split(text):
    """The parts between the commas that are outside of brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == '"'
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts] if text.strip() else []


def _attr(kind, text):
    match kind:
        case "int":
            return Size(text)
        case "ints":
            return [Size(t) for t in split(text[1:-1])]
        case "bool":
            return text == "true"
        case "float":
            return float(text)
        case "number":
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        case "text":
            return text.strip('"')
    return text  # dtype, data


def _attrs(op, text):
    parts = [part.partition("=") for part in split(text or "")]
    given, attrs = {name: value for name, _, value in parts}, {}
    try:
        specs = (_abi.op(op).attrs or b"").decode().split()
    except _abi.Error as e:
        raise ValueError(f"not an op: {op} ({e})") from None
    for spec in specs:
        name, kind = spec.split(":", 1)
        kind, _, fallback = kind.partition("=")
        if name in given or fallback:
            attrs[name] = _attr(kind, given.get(name, fallback))
    return attrs


def _match(pattern, text, what):
    if match := pattern.fullmatch(text):
        return match
    raise ValueError(f"not {what}: {text}")


class _Known(dict):
    """name -> Value"""

    def __missing__(self, name):
        raise ValueError(f"there is no value {name}")


def read(text):
    """The Graph of a text. Raises ValueError for a line that it cannot read."""
    text = text.replace(",\n    %", ", %")  # graph_text.py writes each input on a line of its own
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("group ")]
    head = _match(_HEAD, lines[0] if lines else "", "a graph")
    known, inputs, nodes, outputs = _Known(), [], [], []
    for part in split(head[2]):
        name, dtype, shape, strides, _, symbol = _match(_INPUT, part, "an input").groups()
        known[name] = Value(name, dtype, tuple(split(shape)), strides=None if strides is None else tuple(split(strides)), symbol=symbol)
        inputs.append(known[name])
    for line in lines[1:-1]:
        if line.startswith("  assume "):
            continue
        if line.startswith("  return"):
            outputs = [known[part[1:].partition(" ")[0]] for part in split(line[len("  return"):])]
        else:
            name, op, operands, attrs, dtype, shape, group = _match(_NODE, line, "a node").groups()
            known[name] = Value(name, dtype, tuple(split(shape)), op, [known[o[1:]] for o in split(operands or "")], _attrs(op, attrs),
                                group=group and int(group), text=f"{{{attrs}}}" if attrs else "")
            nodes.append(known[name])
    return Graph(head[1], inputs, nodes, outputs)


def steps(text):
    """(names of ops, text of a graph) of each group of a text whose nodes have groups, as Program.explain prints it. The inputs are the
    values that the group reads, dense. Equal steps have equal texts."""
    graph, groups = read(text), {}
    for v in graph.nodes:
        if v.group is not None:
            groups.setdefault(v.group, []).append(v)
    return [([m.op for m in groups[g]], _step(graph, groups[g])) for g in sorted(groups)]


def _step(graph, members):
    inside = {m.name for m in members}
    left = {v.name for v in graph.outputs}  # what is read outside of the group, directly or through values that no group stores
    for v in reversed(graph.nodes):
        if v.name not in inside and (v.group is not None or v.name in left):
            left.update(o.name for o in v.operands)
    needed, unseen = set(inside), list(members)  # members, and what is computed where they read it
    while unseen:
        for o in unseen.pop().operands:
            if o.name not in needed and o.group is None and o.op not in ("input", "constant"):
                needed.add(o.name)
                unseen.append(o)
    names, inputs, lines = {}, [], []
    type_of = lambda v: f"{v.dtype}[{','.join(v.shape)}]"
    for v in graph.nodes:
        if v.name not in needed:
            continue
        for o in v.operands:
            if o.name not in names:
                names[o.name] = f"%x{len(inputs)}"
                inputs.append(f"{names[o.name]}: {type_of(o)}")
        names[v.name] = f"%v{len(lines)}"
        operands = f"({', '.join(names[o.name] for o in v.operands)})" if v.operands else ""
        lines.append(f"{names[v.name]} = {v.op}{operands}{v.text} : {type_of(v)}")
    return graph_text("step", inputs, ["  " + line for line in lines], [names[m.name] for m in members if m.name in left])

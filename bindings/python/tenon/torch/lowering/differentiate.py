"""Gradients of a row: the library differentiates the lines that the row writes.

So an operator such as avg_pool2d_backward needs no formula here: its row in ops/gradient.py names the row of avg_pool2d.
Tested by tests/torch/test_lower.py.
"""

import re
from types import SimpleNamespace

from ... import _abi
from ...graph_text import Raw, Unsupported, graph_text, input_text, line_texts
from . import sizes
from .emitter import Emitter

_LINE = re.compile(r"  %(\S+) = (\w+)(?:\(([^)]*)\))?(?:\{(.*)\})? : (\w+)\[(.*)\]$")


def gradients(e, op, row, operands, others, gradient, wrt):
    """The gradients of the first result of an operator, as Values whose lines e gets. row: the operator's row; operands: its operands,
    Values or None; others: its further arguments; gradient: the gradient of the result, of the shape and dtype of the result;
    wrt: the operands to differentiate by, as positions."""
    node = SimpleNamespace(name=e.name + ".forward", target=op, meta={"val": gradient.fake}, users={})
    forward = Emitter(node, device=e.device)
    y = row.emit(forward, *operands, *others)
    e.read_node |= forward.read_node
    y = y[0] if isinstance(y, tuple) else y
    if not any(y is line.result for line in forward.lines):  # the row returns an operand
        if list(wrt) == [i for i, v in enumerate(operands) if v is y]:
            return [e.cast(gradient, y.dtype)]
        raise Unsupported(f"{e.target}: its forward operator has no effect")
    inputs = list({v.name: v for v in operands if v is not None}.values())
    symbols = _symbols(forward.lines, [*inputs, gradient])
    written = [f"%{s}: i64[] = {s}" for s in symbols] + [input_text(v, sizes.text) for v in inputs]
    text = graph_text("forward", written, line_texts(forward.lines, sizes.text), [f"%{y.name}"])
    names = [v.name for v in inputs]
    text = _abi.gradient(text, [len(symbols) + names.index(operands[i].name) for i in wrt])
    return _read(e, text, {v.name: v for v in inputs} | {f"d_{y.name}": e.cast(gradient, y.dtype)}, symbols)


def _symbols(lines, values):
    """Name -> symbol, for all sizes of the lines and values."""
    found = [n for line in lines for n in (*line.result.shape, *(m for a in line.attrs.values() for m in _flat(a)))]
    found += [n for v in values for n in v.shape]
    return {str(s): s for n in found if not isinstance(n, int) for s in sorted(n.free_symbols, key=str)}


def _flat(attr):
    return [n for a in attr for n in _flat(a)] if isinstance(attr, (list, tuple)) else [] if isinstance(attr, (str, float, bool)) else [attr]


def _read(e, text, values, symbols):
    """Gives e the lines of a graph that the library has printed. Returns the Values of its outputs. values: name -> Value of each
    input."""
    lines = text.splitlines()
    for line in lines[1:-2]:
        if line.lstrip().startswith("assume "):  # a fact that its operators need; the graph that gets the lines assumes it again
            continue
        if not (found := _LINE.match(line)):
            raise Unsupported(f"{e.target}: the gradient has the line {line.strip()!r}")
        name, head, read, attrs, dtype, shape = found.groups()
        reads = [values[v.strip()[1:]] for v in (read or "").split(",") if v.strip()]
        shape = [sizes.parse(n, symbols) for n in _split(shape)]
        values[name] = e.op(head, reads, dtype, shape, **{k: _attr(v, symbols) for k, _, v in (a.partition("=") for a in _split(attrs or ""))})
    return [values[v.strip()[1:]] for v in lines[-2].removeprefix("  return ").split(", ")]


def _split(text):
    """Splits at the commas outside brackets."""
    parts, depth = [], 0
    for word in re.split(r"([\[\](),])", text):
        depth += (word in ("[", "(")) - (word in ("]", ")"))
        if word == "," and depth == 0:
            parts.append("")
        else:
            parts[-1:] = [(parts[-1] if parts else "") + word]
    return [p.strip() for p in parts if p.strip()]


def _attr(text, symbols):
    if text.startswith("["):
        return [_attr(part, symbols) for part in _split(text[1:-1])]
    value = sizes.parse(text, symbols)
    return Raw(text) if value is None else value

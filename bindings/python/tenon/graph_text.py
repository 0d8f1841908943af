"""Writes graph text (docs/graph_text.md). This module knows no framework, so the binding of any host can use it.

A Value is a `%name` of the text with its dtype and shape. Each method of a Builder writes one line and returns the line's Value.
The Builder infers the type, so every line states the type that the host expects, and the library checks it. The Builder's
`sizes` computes sizes: integers here; a host may bring symbols (torch/lowering/sizes.py).

    b = Builder("scale")
    y = b.map("mul", b.input("x", "f32", (2, 3)), b.full(2.0, "f32"))
    program = _abi.Program(b.text([y]))

Tested by tests/graph_text_test.py, and through PyTorch by tests/torch/test_lower.py.
"""

import math
import numbers
import operator

from . import _abi
from ._abi import OpInfo

FLOATS = {"f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2"}
HALVES = {"f16", "bf16"}


class Unsupported(Exception):
    """Tenon cannot compute something. The message is the reason; the host shows it to the user."""


class Sizes:
    """Sizes that are integers. A host with symbols overrides the first five functions."""

    def size(self, n):
        """Converts a size of the host to one that this class computes with."""
        if isinstance(n, bool):
            raise Unsupported("a bool where a size is expected")
        try:
            return operator.index(n)
        except TypeError:
            raise Unsupported(f"{type(n).__name__} where a size is expected") from None

    def text(self, n):
        return str(n)

    def symbols(self, n):
        """The names of the symbols in a size."""
        return set()

    def same(self, a, b):
        """Whether two sizes are known to be equal."""
        return a == b

    def floor_div(self, a, b):
        return a // b

    def sizes(self, values):
        return tuple([v if type(v) is int else self.size(v) for v in values])

    def product(self, values):
        return self.size(math.prod(values))

    def is_one(self, n):
        return n == 1 if isinstance(n, int) else self.same(n, 1)

    def same_shape(self, a, b):
        return len(a) == len(b) and all(map(self.same, a, b))

    def broadcast(self, *shapes):
        """The shape that the shapes broadcast to. The host has run the graph, so two sizes that are not 1 are equal even if they
        are written differently. The result has a constant if there is one, else the first of them. The library checks at a call
        the equalities that it cannot prove."""
        rank = max(len(s) for s in shapes)
        result = []
        for axis in range(-rank, 0):
            extents = [s[axis] for s in shapes if len(s) >= -axis]
            wide = extents if len(set(extents)) == 1 else [n for n in extents if not self.is_one(n)]
            constant = [n for n in wide if isinstance(n, int)]
            result.append(constant[0] if constant else wide[0] if wide else 1)
        return tuple(result)


class Raw(str):
    """The text of an attribute, printed without quotes."""


class Value:
    __slots__ = ("name", "dtype", "shape")

    def __init__(self, name, dtype, shape):
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)

    @property
    def rank(self):
        return len(self.shape)


class Line:
    """One line. first: the first of the lines that differ only in names, or None in this line itself."""

    __slots__ = ("result", "head", "operands", "attrs", "symbols", "first")

    def __init__(self, result, head, operands, attrs, symbols, first=None):
        self.result, self.head, self.operands, self.attrs, self.symbols, self.first = result, head, operands, attrs, symbols, first

    def again(self, result, operands):
        """The same line with other names."""
        return Line(result, self.head, operands, self.attrs, self.symbols, self.first or self)

    def can_fault(self):
        """Whether some operands are faults: values for which a framework raises an error and the library refuses the call."""
        fault = _abi.op(self.head).fault
        return fault == OpInfo.FAULT_INDEX or fault == OpInfo.FAULT_INTEGER and self.result.dtype not in FLOATS

    def ending(self, size):
        """The text behind the operands: the attributes and the type. size: a function that writes a size."""
        attrs = ", ".join(f"{k}={attr_text(v, size)}" for k, v in self.attrs.items())
        return f"{{{attrs}}} : {type_text(self.result, size)}" if attrs else f" : {type_text(self.result, size)}"


def line_texts(lines, size):
    """The text of each line. size: a function that writes a size."""
    endings, texts = {}, []
    for line in lines:
        first = line.first or line
        if (ending := endings.get(first)) is None:
            ending = endings[first] = first.ending(size)
        operands = ", ".join(["%" + v.name for v in line.operands])
        texts.append(f"  %{line.result.name} = {line.head}({operands}){ending}" if operands else f"  %{line.result.name} = {line.head}{ending}")
    return texts


def type_text(value, size):
    return f"{value.dtype}[{','.join(size(n) for n in value.shape)}]"


def attr_text(value, size):
    if type(value) is int:
        return size(value)
    if isinstance(value, Raw):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)  # the shortest decimal that reads back; inf, -inf, nan
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(attr_text(v, size) for v in value) + "]"
    return size(value)


def _sizes_in(attrs):
    """The sizes among the values of attributes and their lists."""
    for v in attrs:
        if isinstance(v, (list, tuple)):
            yield from _sizes_in(v)
        elif not isinstance(v, (bool, float, str)):
            yield v


def strides_text(strides, size):
    """The text that follows the type of an input or output that is not dense and row-major."""
    return f" strides=[{','.join(map(size, strides))}]"


def input_text(value, size, name=str, strides="", param=False, donated=False):
    """strides: the result of strides_text, or ""; param: whether every call passes the same tensor; donated: whether a run may
    overwrite the tensor."""
    return f"%{name(value.name)}: {type_text(value, size)}{strides}{' param' * param}{' donated' * donated}"


def graph_text(name, inputs, body, outputs):
    """The text of a graph. inputs, outputs: the text of each; body: the lines between the braces."""
    return (f"graph @{name}(" + ",\n    ".join(inputs) + ") {\n" + "".join(line + "\n" for line in body) +
            f"  return {', '.join(outputs)}\n}}\n")


class Builder:
    """Writes lines. Each method writes one op of docs/ops.md or a few of them."""

    sizes = Sizes()

    def __init__(self, name):
        """name: the name of the graph and the prefix of the names of its values."""
        self.name, self.inputs, self.lines = name, [], []

    def input(self, name, dtype, shape, param=False):
        value = Value(name, dtype, self.sizes.sizes(shape))
        self.inputs.append(input_text(value, self.sizes.text, param=param))
        return value

    def text(self, outputs, updates=()):
        """The text of the graph of all lines written so far. updates: (input, value) pairs: a run writes the value into the memory of
        the input, and takes no output tensor for it."""
        lines = line_texts(self.lines, self.sizes.text)
        returned = [f"%{v.name}" for v in outputs] + [f"%{v.name} updates %{i.name}" for i, v in updates]
        return graph_text(self.name, self.inputs, lines, returned)

    def op(self, head, operands, dtype, shape, /, **attrs):
        """Writes a line with an op of the table. Leaves out attributes and operands that are None."""
        attrs = {k: self._attr(v) for k, v in attrs.items() if v is not None}
        result = Value(f"{self.name}.{len(self.lines)}", dtype, self.sizes.sizes(shape))
        symbols = self._symbols_in([*result.shape, *_sizes_in(attrs.values())])
        self.lines.append(Line(result, head, [v for v in operands if v is not None], attrs, symbols))
        return result

    def _symbols_in(self, sizes):
        """The names of the symbols in sizes. Refuses a size that cannot be written."""
        symbols = set()
        for n in sizes:
            if not isinstance(n, int):
                self.sizes.text(n)  # raises Unsupported
                symbols |= self.sizes.symbols(n)
        return symbols

    def _attr(self, value):
        if isinstance(value, (list, tuple)):
            return [self._attr(v) for v in value]
        return value if isinstance(value, (bool, float, str)) else self.sizes.size(value)

    # --- map ---
    def map(self, head, *operands):
        dtype = "bool" if _abi.op(head).to_bool else operands[-1].dtype
        return self.op(head, operands, dtype, self.sizes.broadcast(*(v.shape for v in operands)))

    def cast(self, v, dtype):
        return v if v.dtype == dtype else self.op("cast", [v], dtype, v.shape, dtype=Raw(dtype))

    def wide(self, v):
        """A 16-bit float as f32, so that several ops round only their last result. Other dtypes stay as they are."""
        return self.cast(v, "f32") if v.dtype in HALVES else v

    def full(self, value, dtype, shape=()):
        """A tensor in which every element is `value`, a number or a size."""
        if not isinstance(value, numbers.Real):
            v = self.cast(self.op("dim", [], "i64", (), value=value), dtype)
            return self.expand(v, shape) if shape else v
        if dtype == "bool":
            value = int(bool(value))
        elif dtype not in FLOATS:
            if not math.isfinite(value):
                raise Unsupported(f"{value} as {dtype}")
            value = int(value)
        number = int(value) if isinstance(value, numbers.Integral) else float(value)
        return self.op("full", [], dtype, shape, value=Raw(repr(number)), shape=self.sizes.sizes(shape), dtype=Raw(dtype))

    def scalar_like(self, v, number):
        return self.full(number, v.dtype)

    def iota(self, shape, dtype="i64", axis=0, start=0, step=1):
        return self.op("iota", [], dtype, shape, shape=self.sizes.sizes(shape), dtype=Raw(dtype), axis=axis,
                       start=Raw(repr(start)), step=Raw(repr(step)))

    # --- reduce ---
    def reduce(self, head, v, axes, keepdims=False, **attrs):
        """axes: None or [] means all axes."""
        axes = sorted(axis % max(v.rank, 1) for axis in axes) if axes else list(range(v.rank))
        if v.rank == 0:
            axes = []
        shape = [1 if i in axes else n for i, n in enumerate(v.shape) if keepdims or i not in axes]
        dtype = "bool" if head in ("any", "all") else v.dtype
        return self.op(head, [v], dtype, shape, axes=axes, **attrs, keepdims=bool(keepdims))

    # --- move ---
    def reshape(self, v, shape):
        shape = self.sizes.sizes(shape)
        return v if self.sizes.same_shape(v.shape, shape) else self.op("reshape", [v], v.dtype, shape, shape=shape)

    def transpose(self, v, perm):
        perm = [p % v.rank for p in perm] if v.rank else []
        if perm == list(range(v.rank)):
            return v
        return self.op("transpose", [v], v.dtype, [v.shape[p] for p in perm], perm=perm)

    def swap(self, v, a, b):
        perm = list(range(v.rank))
        perm[a], perm[b] = perm[b], perm[a]
        return self.transpose(v, perm)

    def expand(self, v, shape):
        shape = self.sizes.sizes(shape)
        return v if self.sizes.same_shape(v.shape, shape) else self.op("expand", [v], v.dtype, shape, shape=shape)

    def slice(self, v, axis, start, end, step=1):
        """start, end: normalised, 0 <= start <= end <= the size of the axis."""
        axis %= v.rank
        extent = v.shape[axis]
        start, end = self.sizes.sizes((start, end))
        if step == 1 and self.sizes.same(start, 0) and self.sizes.same(end, extent):
            return v
        length = self.sizes.size(end - start) if step == 1 else \
            self.sizes.floor_div(self.sizes.size(end - start + step - 1), step)
        shape = list(v.shape)
        shape[axis] = length
        return self.op("slice", [v], v.dtype, shape, axis=axis, start=start, end=end, step=step)

    def concat(self, values, axis):
        if len(values) == 1:
            return values[0]
        axis %= values[0].rank
        shape = list(values[0].shape)
        shape[axis] = self.sizes.size(sum(v.shape[axis] for v in values))
        return self.op("concat", values, values[0].dtype, shape, axis=axis)

    def pad(self, v, low, high, value=0):
        """low, high: how many elements to add before and behind each axis; a negative number removes elements."""
        if all(isinstance(n, int) and n == 0 for n in (*low, *high)):
            return v
        if v.dtype in FLOATS and isinstance(value, int):
            value = float(value)
        shape = [self.sizes.size(a + n + b) for a, n, b in zip(low, v.shape, high)]
        return self.op("pad", [v], v.dtype, shape, low=low, high=high, value=Raw(repr(value)))

    def gather(self, v, indices, axis=0, wrap=True):
        """wrap: whether negative indices count from the end; if not, they are out of range."""
        axis %= v.rank
        shape = v.shape[:axis] + indices.shape + v.shape[axis + 1:]
        return self.op("gather", [v, indices], v.dtype, shape, axis=axis, wrap=None if wrap else False)

    # --- contract ---
    def matmul(self, a, b, **attrs):
        batch = self.sizes.broadcast(a.shape[:-2], b.shape[:-2])
        shape = batch + (a.shape[-2:-1] if a.rank > 1 else ()) + (b.shape[-1:] if b.rank > 1 else ())
        return self.op("matmul", [a, b], a.dtype, shape, **attrs)

"""What the rows of the op table (ops/) are written in. A Value is a `%name` of the graph text with dtype and shape.

An Emitter writes the lines of one node: each method writes one line and returns its Value, with the type already known, so
that every line carries the type PyTorch expects and the library checks it. Tested by tests/torch/test_lower.py.
"""

import math
import operator

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Promotion  # noqa: F401  (a word of the rows)
from torch._prims_common import elementwise_dtypes

from . import sizes
from .sizes import Unsupported, broadcast, floor_div, same_shape
from .tensors import CPU, dtype_of

FLOATS = {"f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2"}
HALVES = {"f16", "bf16"}
STORAGE = {"f8e4m3fn", "f8e5m2"}  # cast and moved, and nothing else
MOVES = set("cast full reshape transpose expand slice windows flip concat pad gather take_along scatter index_put where".split())
INDEXING = set("gather take_along scatter index_put index_in".split())  # a fault where an index is out of range
DIVISIONS = set("floor_div trunc_div remainder fmod".split())  # a fault where an integer is divided by 0
BOOL_RESULT = set("eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_xor logical_not".split())


class Raw(str):
    """Attribute text that is printed as it stands."""


class Value:
    __slots__ = ("name", "dtype", "shape", "fake")

    def __init__(self, name, dtype, shape, fake=None):
        self.name, self.dtype, self.shape, self.fake = name, dtype, tuple(shape), fake

    @property
    def rank(self):
        return len(self.shape)


class Line:
    __slots__ = ("result", "head", "operands", "attrs", "symbols")

    def __init__(self, result, head, operands, attrs, symbols):
        self.result, self.head, self.operands, self.attrs, self.symbols = result, head, operands, attrs, symbols

    def can_fault(self):
        """Whether the library refuses to compute it for some values: an error of PyTorch's, too."""
        return self.head in INDEXING or self.head in DIVISIONS and self.result.dtype not in FLOATS

    def text(self, size=sizes.text, name=str):
        """size, name: how a size and the name of a value are written."""
        operands = ", ".join("%" + name(v.name) for v in self.operands)
        operands = f"({operands})" if operands else ""
        attrs = ", ".join(f"{k}={attr_text(v, size)}" for k, v in self.attrs.items())
        attrs = "{" + attrs + "}" if attrs else ""
        return f"  %{name(self.result.name)} = {self.head}{operands}{attrs} : {type_text(self.result, size)}"


def type_text(value, size=sizes.text):
    return f"{value.dtype}[{','.join(size(n) for n in value.shape)}]"


def attr_text(value, size):
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
    return size(sizes.size(value))


class Emitter:
    def __init__(self, node, seed=None, device=CPU):
        """seed: (Value of the graph's seeds, which of them is the node's); None: PyTorch draws its random numbers.
        device: of the graph."""
        self.node, self.seed, self.device = node, seed, device
        self.fake = node.meta.get("val")
        self.lines, self.placed = [], []

    # The result PyTorch expects of this node.
    @property
    def dtype(self):
        return dtype_of(self.fake.dtype)

    @property
    def shape(self):
        return sizes.sizes(self.fake.shape)

    def used(self, index):
        """Whether anybody reads result `index` of a node with several."""
        return any(u.target is operator.getitem and u.args[1] == index and u.users for u in self.node.users)

    def op(self, head, operands, dtype, shape, /, **attrs):
        symbols = set()

        def collect(n):
            symbols.update(sizes.symbols(n))
            return sizes.text(n)

        attrs = {k: v for k, v in attrs.items() if v is not None}
        operands = [v for v in operands if v is not None]
        for kind in STORAGE.intersection([dtype, *(v.dtype for v in operands)]):
            if head not in MOVES or attrs.get("mode", "set") != "set":
                raise Unsupported(f"{head} of {kind}, which is only cast and moved")
        result = Value(f"{self.node.name}.{len(self.lines)}", dtype, sizes.sizes(shape))
        self.lines.append(Line(result, head, operands, attrs, symbols))
        self.lines[-1].text(collect)  # a size that cannot be written is refused here, not when the graph is printed
        return result

    # --- map ---
    def map(self, head, *operands):
        dtype = "bool" if head in BOOL_RESULT else operands[-1].dtype
        shape = broadcast(*(v.shape for v in operands))
        return self.op(head, operands, dtype, shape)

    def cast(self, v, dtype):
        return v if v.dtype == dtype else self.op("cast", [v], dtype, v.shape, dtype=Raw(dtype))

    def wide(self, v):
        """A 16-bit float as f32, so that only the result of several ops is rounded; others as they are."""
        return self.cast(v, "f32") if v.dtype in HALVES else v

    def full(self, value, dtype, shape=()):
        if isinstance(value, (complex, torch.SymFloat, torch.SymBool)):
            raise Unsupported(f"a {type(value).__name__} operand")
        if isinstance(value, sizes.Real):
            v = self.cast(self.real(value.expr), dtype)
            return self.expand(v, shape) if shape else v
        if isinstance(value, bool) and dtype != "bool":
            value = int(value)
        if isinstance(value, (int, float)):
            if dtype not in FLOATS and dtype != "bool" and isinstance(value, float):
                if not math.isfinite(value):
                    raise Unsupported(f"{value} as {dtype}")
                value = int(value)
            if dtype == "bool":
                value = int(bool(value))
            return self.op("full", [], dtype, shape, value=Raw(repr(value)), shape=sizes.sizes(shape), dtype=Raw(dtype))
        v = self.op("dim", [], "i64", (), value=sizes.size(value))
        v = self.cast(v, dtype)
        return self.expand(v, shape) if shape else v

    def real(self, x):
        """A float of the host's as an f64 scalar, computed from sizes as Python would."""
        f = sizes.torch_functions
        if x.is_number:
            return self.op("full", [], "f64", (), value=Raw(repr(float(x))), shape=(), dtype=Raw("f64"))
        if x.is_integer:
            return self.cast(self.op("dim", [], "i64", (), value=sizes.size(x)), "f64")
        if isinstance(x, f.ToFloat):
            return self.real(x.args[0])
        if isinstance(x, (sizes.sympy.Add, sizes.sympy.Mul, f.IntTrueDiv, f.FloatTrueDiv, f.FloatPow, sizes.sympy.Pow)):
            head = {"Add": "add", "Mul": "mul", "FloatPow": "pow", "Pow": "pow"}.get(type(x).__name__, "div")
            result, *others = (self.real(a) for a in x.args)
            for other in others:
                result = self.op(head, [result, other], "f64", ())
            return result
        if isinstance(x, f.OpaqueUnaryFn_sqrt):
            return self.op("sqrt", [self.real(x.args[0])], "f64", ())
        raise Unsupported(f"the number {x}")

    def iota(self, shape, dtype="i64", axis=0, start=0, step=1):
        return self.op("iota", [], dtype, shape, shape=sizes.sizes(shape), dtype=Raw(dtype), axis=axis,
                       start=Raw(repr(start)), step=Raw(repr(step)))

    def scalar_like(self, v, number):
        return self.full(number, v.dtype)

    def own_seed(self):
        if self.seed is None:
            raise Unsupported(f'{self.node.target} draws random numbers as PyTorch does, unless options={{"rng": "fast"}}')
        seeds, i = self.seed
        return self.reshape(self.slice(seeds, 0, i, i + 1), [])

    def uniform(self, shape):
        """Random numbers of [0, 1) as f32, from the node's seed."""
        return self.op("random_uniform", [self.own_seed()], "f32", shape, shape=sizes.sizes(shape))

    def random_words(self, shape):
        """Random numbers of 32 bits, as i64 of [0, 2^32), from the node's seed: the upper 24 bits are those of `uniform`."""
        place = self.reshape(self.iota([sizes.product(sizes.sizes(shape))]), shape)
        word = self.op("random_bits", [place, self.own_seed()], "i32", shape)
        return self.map("bit_and", self.cast(word, "i64"), self.full(0xffffffff, "i64"))

    def promote(self, kind, *args):
        """Tensors and numbers as Values of the dtype PyTorch computes in. 16-bit floats stay as they are, because
        Tenon computes them in f32 anyway, unless a Python number takes part: it keeps its f32 precision."""
        compute, result = elementwise_dtypes(*(a.fake if isinstance(a, Value) else _number(a) for a in args),
                                             type_promotion_kind=kind)
        if compute == torch.float32 and result in (torch.float16, torch.bfloat16):
            if all(isinstance(a, Value) for a in args):
                compute = result
        dtype = dtype_of(compute)
        return [self.cast(a, dtype) if isinstance(a, Value) else self.full(a, dtype) for a in args]

    # --- reduce ---
    def reduce(self, head, v, axes, keepdims=False, **attrs):
        """axes None or []: all."""
        axes = sorted(axis % max(v.rank, 1) for axis in axes) if axes else list(range(v.rank))
        if v.rank == 0:
            axes = []
        shape = [1 if i in axes else n for i, n in enumerate(v.shape) if keepdims or i not in axes]
        dtype = "bool" if head in ("any", "all") else v.dtype
        return self.op(head, [v], dtype, shape, axes=axes, **attrs, keepdims=bool(keepdims))

    def scan(self, head, v, axis):
        """Sums and products of f32 go on in f64 on the CPU, as PyTorch's do: a long row would lose its digits."""
        wide = "f64" if head in ("cumsum", "cumprod") and v.dtype == "f32" and self.device == CPU else v.dtype
        return self.cast(self.op(head, [self.cast(v, wide)], wide, v.shape, axis=axis), v.dtype)

    # --- move ---
    def reshape(self, v, shape):
        shape = sizes.sizes(shape)
        return v if same_shape(v.shape, shape) else self.op("reshape", [v], v.dtype, shape, shape=shape)

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
        shape = sizes.sizes(shape)
        return v if same_shape(v.shape, shape) else self.op("expand", [v], v.dtype, shape, shape=shape)

    def slice(self, v, axis, start, end, step=1):
        """Bounds already normalised."""
        axis %= v.rank
        extent = v.shape[axis]
        start, end = sizes.size(start), sizes.size(end)
        if step == 1 and sizes.same(start, 0) and sizes.same(end, extent):
            return v
        length = sizes.size(end - start) if step == 1 else floor_div(sizes.size(end - start + step - 1), step)
        shape = list(v.shape)
        shape[axis] = length
        return self.op("slice", [v], v.dtype, shape, axis=axis, start=start, end=end, step=step)

    def concat(self, values, axis):
        if len(values) == 1:
            return values[0]
        rank = values[0].rank
        axis %= rank
        shape = list(values[0].shape)
        shape[axis] = sizes.size(sum(v.shape[axis] for v in values))
        return self.op("concat", values, values[0].dtype, shape, axis=axis)

    def pad(self, v, low, high, value=0):
        """low, high: how much is put before and behind each axis; below 0 it is cut off."""
        if v.dtype in FLOATS and isinstance(value, int):
            value = float(value)
        shape = [sizes.size(a + n + b) for a, n, b in zip(low, v.shape, high)]
        return self.op("pad", [v], v.dtype, shape, low=low, high=high, value=Raw(repr(value)))

    def gather(self, v, indices, axis=0, wrap=True):
        """wrap: negative indices count from the end; else they are out of range."""
        axis %= v.rank
        shape = v.shape[:axis] + indices.shape + v.shape[axis + 1:]
        return self.op("gather", [v, indices], v.dtype, shape, axis=axis, wrap=None if wrap else False)

    # --- contract ---
    def matmul(self, a, b):
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        shape = batch + (a.shape[-2:-1] if a.rank > 1 else ()) + (b.shape[-1:] if b.rank > 1 else ())
        tf32 = self.tf32(a, torch.backends.cuda.matmul) if a.rank > 1 and b.rank > 1 else None  # else a gemv of PyTorch's
        return self.op("matmul", [a, b], a.dtype, shape, tf32=tf32)

    def tf32(self, v, flags):
        """The attribute: True where PyTorch's flags say at this moment that a GPU may use TF32, else None. flags: matmul of
        torch.backends.cuda or conv of torch.backends.cudnn. Their fp32_precision follows allow_tf32, which cannot be read
        once both were set."""
        return True if self.device.type == "cuda" and v.dtype == "f32" and flags.fp32_precision == "tf32" else None


def _number(x):
    if isinstance(x, sizes.Real):
        return 1.0
    return x if isinstance(x, (bool, int, float, complex)) else 1  # a size: any int promotes alike

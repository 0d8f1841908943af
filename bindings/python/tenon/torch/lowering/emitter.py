"""The Emitter, with which the rows of the op table (ops/) write lines: the Builder of graph_text.py and what PyTorch adds.

An Emitter writes the lines of one node: the type of each line is the one that PyTorch expects, by its rules of promotion,
and random numbers, TF32 and running sums are as PyTorch has them. Tested by tests/torch/test_lower.py.
"""

import operator

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Promotion  # noqa: F401  (for the rows)
from torch._prims_common import elementwise_dtypes

from ...graph_text import Builder, Raw, Unsupported, Value
from . import sizes
from .tensors import CPU, dtype_of


class Operand(Value):
    """The Value of a node of the graph. fake: the tracer's tensor of it."""

    __slots__ = ("fake",)

    def __init__(self, name, dtype, shape, fake):
        super().__init__(name, dtype, shape)
        self.fake = fake


class Emitter(Builder):
    sizes = sizes.SYMBOLIC

    def __init__(self, node, seed=None, device=CPU):
        """seed: (Value of all seeds, the number of the node's own); None: PyTorch draws its random numbers.
        device: of the graph."""
        super().__init__(node.name)
        self.node, self.seed, self.device = node, seed, device
        self.fake, self.placed = node.meta.get("val"), []

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

    def full(self, value, dtype, shape=()):
        if isinstance(value, (complex, torch.SymFloat, torch.SymBool)):
            raise Unsupported(f"a {type(value).__name__} operand")
        if not isinstance(value, sizes.Real):
            return super().full(value, dtype, shape)
        v = self.cast(self.real(value.expr), dtype)
        return self.expand(v, shape) if shape else v

    def real(self, x):
        """A float of the host as an f64 scalar, computed from sizes as Python computes it."""
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
        """Tensors and numbers as Values of the dtype in which PyTorch computes. 16-bit floats stay as they are, because Tenon
        computes them in f32 anyway. If a Python number takes part they become f32, in which PyTorch takes the number."""
        compute, result = elementwise_dtypes(*(a.fake if isinstance(a, Value) else _number(a) for a in args),
                                             type_promotion_kind=kind)
        if compute == torch.float32 and result in (torch.float16, torch.bfloat16):
            if all(isinstance(a, Value) for a in args):
                compute = result
        dtype = dtype_of(compute)
        return [self.cast(a, dtype) if isinstance(a, Value) else self.full(a, dtype) for a in args]

    def scan(self, head, v, axis):
        """On the CPU, sums and products of f32 run in f64, as in PyTorch: in f32 a long row loses its digits."""
        wide = "f64" if head in ("cumsum", "cumprod") and v.dtype == "f32" and self.device == CPU else v.dtype
        return self.cast(self.op(head, [self.cast(v, wide)], wide, v.shape, axis=axis), v.dtype)

    def matmul(self, a, b):
        tf32 = self.tf32(a, torch.backends.cuda.matmul) if a.rank > 1 and b.rank > 1 else None  # else PyTorch calls gemv
        return super().matmul(a, b, tf32=tf32)

    def tf32(self, v, flags):
        """The attribute tf32: True if PyTorch's flags allow TF32 on a GPU now, else None. flags: torch.backends.cuda.matmul or
        torch.backends.cudnn.conv. This reads fp32_precision, which follows allow_tf32, because allow_tf32 cannot be read once
        both are set."""
        return True if self.device.type == "cuda" and v.dtype == "f32" and flags.fp32_precision == "tf32" else None


def _number(x):
    if isinstance(x, sizes.Real):
        return 1.0
    return x if isinstance(x, (bool, int, float, complex)) else 1  # a size: any int promotes alike

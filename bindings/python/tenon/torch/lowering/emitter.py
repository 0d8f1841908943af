"""The Emitter: the Builder of graph_text.py with the rules of PyTorch. The rows of the op table (ops/) write lines with it.

An Emitter writes the lines of one node. Types follow PyTorch's rules of promotion; random numbers, TF32 and running sums follow
PyTorch's settings and precision. Tested by tests/torch/test_lower.py.
"""

import operator

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Promotion  # noqa: F401  (for the rows)
from torch._prims_common import elementwise_dtypes

from ...graph_text import FLOATS, Builder, Raw, Unsupported, Value
from . import sizes
from .tensors import CPU, dtype_of


class Emitter(Builder):
    sizes = sizes.SYMBOLIC

    def __init__(self, node, seed=None, device=CPU):
        """seed: (Value of all seeds, index of the node's own seed); None: PyTorch draws the random numbers.
        device: the device of the graph."""
        super().__init__(node.name)
        self._node, self.target, self.seed, self.device = node, node.target, seed, device
        self.fake, self.placed = node.meta.get("val"), []
        self.read_node = False  # whether the lines depend on more than the types of the node's operands and results

    @property
    def node(self):
        """The node, for rows that look at other nodes around it."""
        self.read_node = True
        return self._node

    # dtype and shape of the result that PyTorch expects from this node.
    @property
    def dtype(self):
        return dtype_of(self.fake.dtype)

    @property
    def shape(self):
        return sizes.sizes(self.fake.shape)

    def used(self, index):
        return is_used(self._node, index)

    def full(self, value, dtype, shape=()):
        if isinstance(value, (complex, torch.SymFloat, torch.SymBool)):
            raise Unsupported(f"a {type(value).__name__} operand")
        if not isinstance(value, sizes.Real):
            return super().full(value, dtype, shape)
        if dtype not in FLOATS:
            raise Unsupported("an integer from a float that depends on sizes")  # the cast would drop its fraction
        v = self.cast(self.real(value.expr), dtype)
        return self.expand(v, shape) if shape else v

    def real(self, x):
        """An f64 scalar with the value of a float that the host computes from sizes. x: its sympy expression. The scalar is computed
        in the same steps as in Python."""
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
            raise Unsupported(f'{self.target} draws random numbers, which PyTorch does without options={{"rng": "fast"}}')
        seeds, i = self.seed
        return self.reshape(self.slice(seeds, 0, i, i + 1), [])

    def uniform(self, shape):
        """Random f32 numbers of [0, 1), from the node's seed."""
        return self.op("random_uniform", [self.own_seed()], "f32", shape, shape=sizes.sizes(shape))

    def random_words(self, shape):
        """Random integers of 32 bits, as i64 of [0, 2^32), from the node's seed. Their upper 24 bits are those of `uniform`."""
        place = self.reshape(self.iota([sizes.product(sizes.sizes(shape))]), shape)
        word = self.op("random_bits", [place, self.own_seed()], "i32", shape)
        return self.map("bit_and", self.cast(word, "i64"), self.full(0xffffffff, "i64"))

    def promote(self, kind, *args, exact=False):
        """Tensors and numbers as Values of the dtype in which PyTorch computes. 16-bit floats stay as they are, because Tenon
        computes them in f32 anyway. Beside them, numbers and scalar tensors of wider floats are rounded to 16 bits; with exact=True
        they are not, because the op uses them in f32 in PyTorch."""
        compute, result = _promoted(kind, [a.fake if isinstance(a, Value) else _number(a) for a in args])
        if compute == torch.float32 and result in (torch.float16, torch.bfloat16):
            if not (exact and any(not isinstance(a, Value) or a.dtype in ("f32", "f64") for a in args)):
                compute = result
        dtype = dtype_of(compute)
        return [self.cast(a, dtype) if isinstance(a, Value) else self.full(a, dtype) for a in args]

    def scan(self, head, v, axis):
        """A running fold along an axis. On the CPU, sums and products of f32 run in f64, as in PyTorch, because f32 loses too many
        digits in a long row."""
        wide = "f64" if head in ("cumsum", "cumprod") and v.dtype == "f32" and self.device == CPU else v.dtype
        return self.cast(self.op(head, [self.cast(v, wide)], wide, v.shape, axis=axis), v.dtype)

    def matmul(self, a, b):
        tf32 = self.tf32(a, torch.backends.cuda.matmul) if a.rank > 1 and b.rank > 1 else None  # else PyTorch calls gemv
        return super().matmul(a, b, tf32=tf32)

    def tf32(self, v, flags):
        """The attribute tf32: True if PyTorch's flags now allow TF32 on a GPU, else None. flags: torch.backends.cuda.matmul or
        torch.backends.cudnn.conv. Reads fp32_precision, which follows allow_tf32, because reading allow_tf32 raises once both
        have been set."""
        return True if self.device.type == "cuda" and v.dtype == "f32" and flags.fp32_precision == "tf32" else None


def is_used(node, index):
    """Whether any node reads result `index` of a node that has several results."""
    return any(u.target is operator.getitem and u.args[1] == index and u.users for u in node.users)


_promotions = {}


def _promoted(kind, args):
    """elementwise_dtypes of tensors and numbers, from a table: it reads only the dtypes of tensors, whether they are scalars, and the types
    of numbers."""
    key = (kind, torch.get_default_dtype(), *((a.dtype, a.dim() == 0) if isinstance(a, torch.Tensor) else type(a) for a in args))
    if key not in _promotions:
        _promotions[key] = elementwise_dtypes(*args, type_promotion_kind=kind)
    return _promotions[key]


def _number(x):
    if isinstance(x, sizes.Real):
        return 1.0
    return x if isinstance(x, (bool, int, float, complex)) else 1  # a size: every int promotes the same way

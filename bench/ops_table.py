"""The rows of `./dev bench ops`: a function of PyTorch, its dtypes, and arguments whose largest tensor has a given size in bytes.

A new row is a decorated function that takes a Maker and returns (function, arguments).
"""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
          "i32": torch.int32, "u8": torch.uint8}
FLOATS, INTEGERS = ("f32", "f64", "bf16", "f16"), ("i64", "i32", "u8")
ROWS = {}


@dataclass
class Row:
    make: Callable
    dtypes: tuple
    symbolic: bool  # compile with symbols for sizes


class Maker:
    """Makes tensors of one dtype; the largest has n elements."""

    def __init__(self, dtype, size):
        self.dtype, self.n = dtype, max(1, size // torch.empty((), dtype=dtype).element_size())

    def tensor(self, *shape, low=None):
        if not self.dtype.is_floating_point:
            return torch.randint(0 if low is None else low, 100, shape, dtype=self.dtype)
        x = torch.randn(shape, dtype=torch.float32 if self.dtype != torch.float64 else self.dtype)
        return (x if low is None else x.abs() + low).to(self.dtype)

    @property
    def side(self):
        """The side of a square matrix with about n elements, at least 2."""
        return max(2, math.isqrt(self.n))

    def square(self, low=None):
        return self.tensor(self.side, self.side, low=low)

    def image(self, least):
        """A square image of 16 channels and about n elements, at least `least` pixels wide."""
        n = max(least, math.isqrt(self.n // 16))
        return self.tensor(1, 16, n, n)

    def indices(self, extent, *shape):
        return torch.randint(0, extent, shape)


def row(name, dtypes=("f32",), symbolic=False):
    def add(function):
        ROWS[name] = Row(lambda dtype, size: function(Maker(dtype, size)), tuple(dtypes), symbolic)
        return function
    return add


def unary(name, function, dtypes=("f32",), low=None):
    row(name, dtypes)(lambda m: (function, (m.square(low),)))


def binary(name, function, dtypes=("f32",), low=None):
    row(name, dtypes)(lambda m: (function, (m.square(), m.square(low))))


ANY = ("f32", "f64", "bf16", "i64")

# --- maps -------------------------------------------------------------------------------------------------------------
binary("add", torch.add, (*ANY, "u8"))
binary("mul", torch.mul, ANY)
binary("div", torch.div, ANY, low=1)
binary("fmod", torch.fmod, ANY, low=1)
binary("remainder", torch.remainder, (*ANY, "f16", "i32"), low=1)
binary("floor_divide", torch.floor_divide, (*ANY, "i32"), low=1)
binary("pow", lambda x, y: torch.pow(x.abs(), y), ("f32", "f64"), low=1)
binary("atan2", torch.atan2, ("f32", "f64"))
binary("maximum", torch.maximum, ANY)
for _name in ("exp", "sin", "cos", "tanh", "sigmoid", "erf", "floor", "abs", "tan"):
    unary(_name, getattr(torch, _name), FLOATS)
for _name in ("log", "sqrt", "rsqrt", "reciprocal"):
    unary(_name, getattr(torch, _name), FLOATS, low=0.1)
unary("gelu", F.gelu, FLOATS)
unary("silu", F.silu, FLOATS)
unary("cast_to_f32", lambda x: x.float(), ("f64", "bf16", "f16", "i64", "u8"))
unary("cast_to_i64", lambda x: x.long(), ("f32", "f64", "bf16", "u8"))
unary("clamp", lambda x: x.clamp(1, 50), ANY)
unary("where", lambda x: torch.where(x > 0, x, 0), ANY)

# --- reductions and scans ---------------------------------------------------------------------------------------------
for _dim in (0, 1):
    unary(f"sum_dim{_dim}", lambda x, dim=_dim: x.sum(dim), ANY)
    unary(f"amax_dim{_dim}", lambda x, dim=_dim: x.amax(dim), ANY)
    unary(f"argmax_dim{_dim}", lambda x, dim=_dim: x.argmax(dim), ("f32", "i64"))
    unary(f"softmax_dim{_dim}", lambda x, dim=_dim: x.softmax(dim), FLOATS)
    unary(f"cumsum_dim{_dim}", lambda x, dim=_dim: x.cumsum(dim), ANY)
unary("sum_all", lambda x: x.sum(), ANY)
unary("var", lambda x: x.var(-1), ("f32", "f64"))
unary("logsumexp", lambda x: x.logsumexp(-1), ("f32",))
unary("norm", lambda x: torch.linalg.vector_norm(x, dim=-1), ("f32",))
unary("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:]), FLOATS)

# --- joined and moved -------------------------------------------------------------------------------------------------
for _count in (4, 24, 100):
    @row(f"cat{_count}", ANY)
    def _(m, count=_count):
        n = max(1, m.side // count)
        return lambda *x: torch.cat(x), tuple(m.tensor(n, m.side) for _ in range(count))

    @row(f"cat{_count}_last")
    def _(m, count=_count):
        n = max(1, m.side // count)
        return lambda *x: torch.cat(x, -1), tuple(m.tensor(m.side, n) for _ in range(count))

    @row(f"stack{_count}")
    def _(m, count=_count):
        return lambda *x: torch.stack(x), tuple(m.tensor(max(1, m.n // count)) for _ in range(count))


@row("meshgrid_stack")
def _(m):
    x, y = m.tensor(m.side), m.tensor(max(1, m.side // 2))
    return lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij"), -1), (x, y)


@row("pad_constant", ANY)
def _(m):
    return lambda x: F.pad(x, (3, 2, 1, 4)), (m.square(),)


@row("pad_four_axes")
def _(m):
    n = max(2, round(m.n ** 0.25))
    return lambda x: F.pad(x, (1, 2) * 4), (m.tensor(n, n, n, n),)


@row("pad_by_size", symbolic=True)
def _(m):
    return lambda x, y: F.pad(x, (y.shape[0], y.shape[0])), (m.square(), m.tensor(3))


for _mode in ("reflect", "replicate", "circular"):
    @row(f"pad_{_mode}")
    def _(m, mode=_mode):
        n = max(2, math.isqrt(m.n // 4))
        return lambda x: F.pad(x, (1, 1, 1, 1), mode=mode), (m.tensor(1, 4, n, n),)


@row("reshape_apart")
def _(m):
    n = max(1, m.side // 6)
    return lambda x: x.t().reshape(4 * n, 9 * n), (m.tensor(6 * n, 6 * n),)


unary("transpose", lambda x: x.t().contiguous(), (*ANY, "u8"))
unary("flip", lambda x: x.flip(-1), ANY)
unary("roll", lambda x: x.roll(1, 0))
unary("repeat", lambda x: x.repeat(2, 1))
unary("tril", torch.tril)
unary("diagonal", lambda x: x.diagonal() * 2)


@row("pixel_shuffle")
def _(m):
    n = max(1, math.isqrt(m.n // 16))
    return lambda x: F.pixel_shuffle(x, 2), (m.tensor(1, 16, n, n),)


@row("im2col")
def _(m):
    n = max(4, math.isqrt(m.n // 36))
    return lambda x: F.unfold(x, 3), (m.tensor(1, 4, n, n),)


@row("upsample_nearest")
def _(m):
    n = max(1, math.isqrt(m.n // 16))
    return lambda x: F.interpolate(x, scale_factor=2.0), (m.tensor(1, 4, n, n),)


@row("upsample_bilinear")
def _(m):
    n = max(2, math.isqrt(m.n // 16))
    return lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (m.tensor(1, 4, n, n),)


# --- gathered and scattered -------------------------------------------------------------------------------------------
@row("index_select", ANY)
def _(m):
    return lambda x, i: x.index_select(0, i), (m.square(), m.indices(m.side, m.side))


@row("index_select_last")
def _(m):
    return lambda x, i: x.index_select(1, i), (m.square(), m.indices(m.side, m.side))


@row("gather")
def _(m):
    return lambda x, i: x.gather(1, i), (m.square(), m.indices(m.side, m.side, m.side))


@row("embedding")
def _(m):
    return lambda w, i: F.embedding(i, w), (m.square(), m.indices(m.side, m.side))


for _dim in (0, 1):
    @row(f"scatter_dim{_dim}")
    def _(m, dim=_dim):
        return (lambda x, i, u: x.scatter(dim, i, u)), (m.square(), m.indices(m.side, m.side, m.side), m.square())

    @row(f"scatter_add_dim{_dim}")
    def _(m, dim=_dim):
        return (lambda x, i, u: x.scatter_add(dim, i, u)), (m.square(), m.indices(m.side, m.side, m.side), m.square())


@row("scatter_into_zeros")
def _(m):
    return (lambda i, u: torch.zeros_like(u).scatter_add(1, i, u)), (m.indices(m.side, m.side, m.side), m.square())


@row("scatter_value")
def _(m):
    return (lambda x, i: x.scatter(1, i, 2.0)), (m.square(), m.indices(m.side, m.side, m.side))


@row("one_hot")
def _(m):
    return (lambda i: torch.zeros(i.shape[0], 64).scatter(1, i[:, None], 1.0)), (m.indices(64, max(1, m.n // 64)),)


for _accumulate in (False, True):
    @row("index_add_rows" if _accumulate else "index_put_rows")
    def _(m, accumulate=_accumulate):
        return (lambda x, i, u: x.index_put((i,), u, accumulate)), (m.square(), m.indices(m.side, m.side), m.square())

    @row("index_add_points" if _accumulate else "index_put_points")
    def _(m, accumulate=_accumulate):
        i, j = m.indices(m.side, m.n), m.indices(m.side, m.n)
        return (lambda x, i, j, u: x.index_put((i, j), u, accumulate)), (m.square(), i, j, m.tensor(m.n))


@row("index_put_scalar")
def _(m):
    return (lambda x, i: x.index_put((i,), torch.tensor(1.0))), (m.square(), m.indices(m.side, max(1, m.side // 2)))


@row("slice_scatter")
def _(m):
    return (lambda x, u: x.slice_scatter(u, 0, 0, u.shape[0])), (m.square(), m.tensor(max(1, m.side // 2), m.side))


@row("slice_scatter_step")
def _(m):
    return (lambda x, u: x.slice_scatter(u, 1, 0, 2 * u.shape[1], 2)), (m.square(), m.tensor(m.side, m.side // 2))


@row("slice_assign_zero")
def _(m):
    def assign(x):
        x = x.clone()
        x[:, ::2] = 0
        return x
    return assign, (m.square(),)


# --- products and windows ---------------------------------------------------------------------------------------------
def product_side(m):
    return max(2, min(m.side, 512))


@row("matmul", ("f32", "f64", "i64", "i32"))
def _(m):
    n = product_side(m)
    return torch.matmul, (m.tensor(n, n), m.tensor(n, n))


@row("bmm", ("f32", "f64", "i64"))
def _(m):
    n = max(2, min(64, math.isqrt(max(1, m.n // 8))))
    return torch.bmm, (m.tensor(8, n, n), m.tensor(8, n, n))


@row("mv", ("f32", "f64", "bf16", "i64"))
def _(m):
    return torch.mv, (m.square(), m.tensor(m.side))


@row("vm", ("f32", "f64"))
def _(m):
    return (lambda x, y: y @ x), (m.square(), m.tensor(m.side))


@row("dot", ("f32", "f64", "i64"))
def _(m):
    return torch.dot, (m.tensor(m.n), m.tensor(m.n))


@row("outer", ("f32", "i64"))
def _(m):
    return torch.outer, (m.tensor(m.side), m.tensor(m.side))


@row("linear")
def _(m):
    n = product_side(m)
    return F.linear, (m.tensor(n, n), m.tensor(n, n), m.tensor(n))


@row("conv2d")
def _(m):
    n = max(3, math.isqrt(m.n // 16))
    return (lambda x, w: F.conv2d(x, w, padding=1)), (m.tensor(1, 16, n, n), m.tensor(16, 16, 3, 3))


@row("conv1d_depthwise_causal")
def _(m):
    n = max(4, m.n // 64)
    return (lambda x, w: F.conv1d(F.pad(x, (3, 0)), w, groups=64)), (m.tensor(1, 64, n), m.tensor(64, 1, 4))


@row("max_pool2d")
def _(m):
    return (lambda x: F.max_pool2d(x, 2)), (m.image(4),)


@row("avg_pool2d")
def _(m):
    return (lambda x: F.avg_pool2d(x, 3, 2, 1)), (m.image(4),)


@row("adaptive_avg_pool_uneven")
def _(m):
    return (lambda x: F.adaptive_avg_pool2d(x, 7)), (m.image(8),)


@row("adaptive_max_pool_uneven")
def _(m):
    return (lambda x: F.adaptive_max_pool2d(x, 7)), (m.image(8),)


@row("attention")
def _(m):
    n = max(2, m.n // (8 * 64))
    q = [m.tensor(1, 8, min(n, 512), 64) for _ in range(3)]
    return F.scaled_dot_product_attention, tuple(q)

"""Each lowered overload against eager: values, dtype, shape and strides, over dtypes, shapes and layouts.

A case is one line: the rows it covers, a function, and its argument makers. Every row of rows.TABLE must be covered.
"""

import math

import pytest
import torch
import torch.nn.functional as F

import tenon
from tenon import rows

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ANY = FLOATS + INTS + (torch.bool,)
F32 = (torch.float32,)


def make(shape, dtype, low=-4, high=4):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else math.ceil(low), math.floor(high) + 1, shape, dtype=dtype)
    return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(dtype)


def layouts(shape, dtype, low=-4, high=4):
    """The same shape dense, transposed, sliced with a gap, expanded, and in channels-last."""
    yield make(shape, dtype, low, high)
    if len(shape) >= 2:
        yield make(shape[::-1], dtype, low, high).permute(*range(len(shape))[::-1])
        yield make((*shape[:-1], shape[-1] + 3), dtype, low, high)[..., 2:-1]
        yield make((1, *shape[1:]), dtype, low, high).expand(shape)
    if len(shape) == 4:
        yield make(shape, dtype, low, high).contiguous(memory_format=torch.channels_last)


def layer_norm_gradients(g, x, shape, w, b, mask=(True, True, True)):
    _, mean, rstd = aten.native_layer_norm(x, shape, w, b, 1e-5)
    return [y for y in aten.native_layer_norm_backward(g, x, shape, mean, rstd, w, b, mask) if y is not None]


covered = set()


def compare(f, args, native=True, exact=False, strides=True, **tolerance):
    expected = f(*[a.clone(memory_format=torch.preserve_format) if isinstance(a, torch.Tensor) else a for a in args])
    torch._dynamo.reset()
    tenon.reset_stats()
    with torch.no_grad():
        got = torch.compile(f, backend="tenon", fullgraph=True)(*args)
    expected, got = torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(got)
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        if not isinstance(e, torch.Tensor):
            assert e == g
            continue
        assert g.dtype == e.dtype and g.shape == e.shape
        assert not strides or g.stride() == e.stride() or e.numel() == 0 or all(
            n == 1 or a == b for n, a, b in zip(e.shape, e.stride(), g.stride())), (g.stride(), e.stride())
        if exact:
            tolerance = dict(rtol=0, atol=0)
        torch.testing.assert_close(g, e, equal_nan=True, **tolerance)
    if native:
        s = tenon.stats()
        assert s["fallback_reasons"] == {}
        assert s["programs"] >= 1
    return got


SHAPES = [(3, 5), (), (0,), (2, 0, 3), (7,), (1, 4, 1)]
UNARY = {
    "exp": (-4, 4), "exp2": (-4, 4), "expm1": (-2, 2), "log": (0.1, 4), "log2": (0.1, 4), "log10": (0.1, 4), "log1p": (-0.5, 4),
    "sigmoid": (-4, 4), "tanh": (-4, 4), "erf": (-3, 3), "erfc": (-3, 3), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1, 1),
    "asin": (-1, 1), "acos": (-1, 1), "atan": (-4, 4), "sinh": (-4, 4), "cosh": (-4, 4), "asinh": (-4, 4), "acosh": (1, 4),
    "atanh": (-0.9, 0.9), "sqrt": (0, 4), "rsqrt": (0.1, 4), "reciprocal": (0.5, 4), "special_erfc": (-3, 3),
    "special_expm1": (-2, 2), "special_exp2": (-2, 2), "special_expit": (-2, 2),
}


def together(f, arguments, **options):
    """compare() of many argument lists in one graph: tracing is what takes time."""
    flat = [a for args in arguments for a in args]
    sizes = [len(args) for args in arguments]

    def g(*flat):
        results, at = [], 0
        for n in sizes:
            results.append(f(*flat[at:at + n]))
            at += n
        return results

    compare(g, flat, **options)


def of_dtypes(*dtypes, low=-4, high=4):
    return [make((3, 5), d, low, high) for d in dtypes]


def of_shapes(dtype, low=-4, high=4):
    return [x for shape in SHAPES for x in layouts(shape, dtype, low, high)]


@pytest.mark.parametrize("name", UNARY)
def test_float_unary(name):
    f, (low, high) = getattr(aten, name), UNARY[name]
    dtypes = [d for d in ANY if d != torch.bool or name not in ("reciprocal", "log")]
    together(f, [[x] for x in of_dtypes(*dtypes, low=low, high=high) + of_shapes(torch.float32, low, high)])


@pytest.mark.parametrize("name", "abs floor ceil trunc round sign relu neg square bitwise_not isnan isinf isfinite isposinf "
                                 "isneginf logical_not".split())
def test_same_unary(name):
    dtypes = [d for d in ANY if not (name == "bitwise_not" and d.is_floating_point) and not (d == torch.bool and name in (
        "neg", "floor", "ceil", "trunc", "round", "relu", "square", "abs"))]
    inputs = of_dtypes(*dtypes) + of_shapes(torch.int32 if name == "bitwise_not" else torch.float32)
    for x in inputs:
        if x.is_floating_point() and x.shape == (3, 5) and x.is_contiguous():
            x[0, 0], x[0, 1], x[0, 2], x[0, 3] = math.nan, math.inf, 2.5, -math.inf
    together(getattr(aten, name), [[x] for x in inputs], exact=True)


PAIRS = [(torch.float32, torch.float32), (torch.float32, torch.float64), (torch.bfloat16, torch.bfloat16), (torch.int64, torch.int64),
         (torch.int32, torch.float32), (torch.uint8, torch.int8), (torch.bool, torch.bool), (torch.bool, torch.int16),
         (torch.float16, torch.bfloat16)]
BINARY = ("add sub mul div maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor atan2 fmod remainder "
          "floor_divide pow true_divide").split()
NOT_FOR_BOOL = ("sub", "remainder", "fmod", "floor_divide", "pow")


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    arguments = []
    for a, b in PAIRS:
        if torch.bool in (a, b) and (name == "sub" or a == b and name in NOT_FOR_BOOL):
            continue
        x, y = make((3, 5), a, 1, 4), make((3, 5), b, 1, 4)
        if b == torch.bool and name in NOT_FOR_BOOL:
            y = torch.ones_like(y)
        arguments += [[x, y], [x, y[0]], [x[0, 0], y]]
    arguments += [[make((3, 1, 5), torch.float32, 1, 4), make((4, 1), torch.float32, 1, 4)],
                  [make((3, 0), torch.float32, 1, 4), make((1,), torch.float32, 1, 4)]]
    arguments += [[x, make((4, 3), torch.float32, 1, 4)] for x in layouts((4, 3), torch.float32, 1, 4)]
    # While tracing, PyTorch itself expects dense results of floor_divide, whatever its operands' strides.
    together(getattr(torch, name), arguments, strides=name != "floor_divide")


@pytest.mark.parametrize("name", "add sub mul div fmod remainder eq ne lt le gt ge pow floor_divide".split())
def test_binary_scalar(name):
    f = getattr(torch, name)
    inputs = [x for x in of_dtypes(*ANY, low=-3) if x.dtype != torch.bool or name not in NOT_FOR_BOOL]
    together(lambda x: [f(x, number) for number in (2, 2.5)], [[x] for x in inputs])


def test_pow_scalar():
    x, i = make((3, 5), torch.float32, 0.1, 4), make((3, 5), torch.int64)
    compare(lambda x, i: [x ** e for e in (2, 3, 0.5, -0.5, -1, -2, 1, 0, 2.5, 4)] + [i ** e for e in (2, 3, 4, 0)] + [2.0 ** x], [x, i])


@pytest.mark.parametrize("name", "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split())
def test_bitwise(name):
    dtypes = [d for d in (torch.int64, torch.int32, torch.uint8, torch.bool) if d != torch.bool or "shift" not in name]
    f = getattr(torch, name)
    together(lambda x, y: (f(x, y), f(x, 1)), [[make((3, 5), d, 0, 4), make((3, 5), d, 0, 3)] for d in dtypes])


X, Y = (lambda d: make((3, 5), d)), (lambda d: make((5,), d, 1, 3))
img = lambda d: make((2, 6, 9, 8), d)
idx = lambda *shape: (lambda d: torch.randint(-3, 3, shape))
pos = lambda *shape: (lambda d: torch.randint(0, 3, shape))
mask = lambda *shape: (lambda d: torch.rand(shape) > 0.5)
t = lambda *shape, low=-4, high=4: (lambda d: make(shape, d, low, high))

# name: (function, argument makers, dtypes)
CASES = {
    "add_alpha": (lambda x, y: torch.add(x, y, alpha=3), (X, Y), FLOATS + (torch.int64,)),
    "sub_alpha": (lambda x, y: torch.sub(x, y, alpha=2), (X, Y), FLOATS),
    "rsub": (lambda x: (3 - x, torch.rsub(x, x, alpha=2)), (X,), FLOATS + (torch.int64,)),
    "div_mode": (lambda x, y: (torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc"), torch.div(x, 2, rounding_mode="floor"), torch.div(x, y, rounding_mode=None)), (X, Y), FLOATS + (torch.int64, torch.int32)),
    "where": (lambda c, x, y: (torch.where(c, x, y), torch.where(c, x, 0.5), torch.where(c, 1, x), torch.where(x > 0, c, False)), (mask(3, 5), X, Y), FLOATS + (torch.int32,)),
    "masked_fill": (lambda x, c, y: (x.masked_fill(c, 2.0), x.masked_fill(c, y)), (X, mask(5), lambda d: make((), d)), FLOATS),
    "clamp": (lambda x, y: (x.clamp(-1, 2), x.clamp(min=0), x.clamp(max=1), torch.clamp(x, y - 1, y), x.clamp_min(1), x.clamp_max(1), torch.clamp(x, 2, 1), aten.clamp_min.Tensor(x, y), aten.clamp_max.Tensor(x, y)), (X, Y), FLOATS + (torch.int64,)),
    "clamp_mixed": (lambda x: x.clamp(-1.5, 2.5), (X,), (torch.int64, torch.float32)),
    "fmax": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), (X, Y), FLOATS),
    "activations": (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.hardswish(x), F.hardsigmoid(x), F.leaky_relu(x, 0.2), F.elu(x, 0.7), F.selu(x), F.celu(x, 2.0), F.softplus(x, 2, 1), F.hardtanh(x, -2, 1), F.relu6(x), F.logsigmoid(x)), (X,), FLOATS),
    "activations_int": (lambda x: (F.relu(x), aten.hardtanh(x, -1, 2)), (X,), (torch.int64, torch.int32)),
    "threshold": (lambda x: (F.threshold(x, 0.5, 2.0), F.softshrink(x), F.hardshrink(x), F.glu(torch.cat([x, x], -1)), F.tanhshrink(x), F.softsign(x)), (X,), F32),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), x.softmax(-1, dtype=torch.float32), torch.logsumexp(x, (0, 1)), torch.logsumexp(x, 1, True)), (X,), FLOATS),
    "softmax_0d": (lambda x: (x.softmax(0), x.log_softmax(-1)), (t(),), F32),
    "safe_softmax": (lambda x: aten._safe_softmax(torch.where(x.new_ones(3, 1) > x.new_zeros(3, 1), x - math.inf, x), -1), (X,), F32),
    "sum": (lambda x: (x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), x.sum(-1, dtype=torch.float64), x.sum(dim=[])), (X,), ANY),
    "prod": (lambda x: (x.prod(), x.prod(1), x.prod(0, keepdim=True)), (X,), FLOATS + (torch.int64, torch.bool)),
    "mean": (lambda x: (x.mean(), x.mean(1), x.mean((0, 1), keepdim=True), x.mean(0, dtype=torch.float64)), (X,), FLOATS),
    "extremes": (lambda x: (x.amax(), x.amin(1), x.amax((0, 1), keepdim=True), x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True), x.max(1)[0]), (X,), (torch.float32, torch.int64, torch.bfloat16)),
    "arg": (lambda x: (x.argmax(), x.argmin(1), x.argmax(0, keepdim=True), x.argmin(keepdim=True)), (X,), (torch.float32, torch.int32)),
    "any": (lambda x: (x.any(), x.all(), x.any(1), x.all(0, keepdim=True), aten.any.dims(x, [0, 1]), aten.all.dims(x, [0])), (X,), ANY[:5] + (torch.bool,)),
    "var": (lambda x: (x.var(), x.var(1), x.std(0, correction=0), *torch.var_mean(x, 1, keepdim=True), x.std((0, 1), keepdim=True), *torch.std_mean(x, 0)), (X,), FLOATS),
    "norms_of_vectors": (lambda x: [torch.linalg.vector_norm(x, o, d, k) for o in (2, 1, math.inf, -math.inf, 0, 3) for d, k in ((1, False), (None, False), ((0, 1), True))], (X,), FLOATS),
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(-1), x.cumsum(1, dtype=torch.float64)), (X,), F32 + (torch.int64, torch.bool)),
    "reduce_0d": (lambda x: (x.sum(0), x.mean(-1), x.amax(0), x.cumsum(0), x.any(0), x.argmax(0), x.var(0, correction=0)), (t(),), F32),
    "reduce_empty": (lambda x: (x.sum(1), x.sum(), x.prod(1), x.any(1), x.all(), x.mean(1), x.amax(0)), (t(3, 0),), F32),
    "copies": (lambda x: (x.clone(), x.t().contiguous(), x.to(torch.float64), x.t().clone(), x.bool(), x.to(torch.int32), aten.copy(x, x[0].double()), x.detach().clone(), aten.alias(x + 1), aten.detach(x + 1), aten.lift_fresh_copy(x)), (X,), F32 + (torch.float64,)),
    "casts": (lambda x: [x.to(d) for d in ANY], (t(3, 5, low=0, high=100),), ANY),
    "convert": (lambda x: torch.ops.prims.convert_element_type(x, torch.float64), (X,), F32),
    "dropout_backward": (lambda x: aten.native_dropout_backward(x, x > 0, 1 / 0.9), (X,), FLOATS),
    "dropout": (lambda x: (F.dropout(x, 0.5, False), aten.native_dropout(x, 0.5, False)[0] + 1, aten.native_dropout(x, 0.5, False)[1]), (X,), F32),
    "views": (lambda x: [y + 1 for y in (x.view(5, 3), x.reshape(-1), x[:, None], x.unsqueeze(0).squeeze(0), x.view(1, 3, 1, 5).squeeze(), x.view(1, 3, 1, 5).squeeze((0, 2)), x.t(), x.transpose(0, 1), x.permute(1, 0), x.expand(2, 3, 5), x[1], x[:, -2], x[1:], x[:, ::2], x[-2:, 1:-1], x[5:], x[:, 1:100], *x.split(2, 1), *x.split([1, 2]), *x.unbind(1), *x.chunk(2), x.diagonal(), x.diagonal(1), x.diagonal(-1), aten._unsafe_view(x, [5, 3]), x.t()[1:4:2])], (X,), (torch.float32, torch.int64, torch.bool)[:2]),
    "view_scalar": (lambda x: (x.t() + 1, x.transpose(0, 0) * 2, x.view(1, 1) + 1, x.unsqueeze(0) + 1, x.expand(3) + 1, aten.alias(x) + 1), (t(),), F32),
    "unfold": (lambda x: x.unfold(1, 2, 2).contiguous(), (X,), F32),
    "unsafe_split": (lambda x: [y + 1 for y in (*torch.unsafe_split(x, 2, 1), *torch.unsafe_split_with_sizes(x, [1, 2]))], (X,), F32),
    "flip": (lambda x: (x.flip(0), x.flip(0, 1), x.flip(())), (X,), F32 + (torch.int64,)),
    "roll": (lambda x: (x.roll(1), x.roll((1, -2), (0, 1)), x.roll(5, 1)), (X,), F32),
    "repeat": (lambda x: (x.repeat(2, 3), x.repeat(2, 1, 3), x.repeat(0, 1), x.repeat_interleave(2, 1)), (X,), F32),
    "cat": (lambda x, y: (torch.cat([x, x], 1), torch.cat([x, x.double()]), torch.cat([x.new_empty(0), x]), torch.stack([x, x * 2], 1), torch.stack([x, x], -1), torch.cat([x])), (X, Y), F32 + (torch.int32,)),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=2), F.pad(x, (-1, 1)), F.pad(x, (1, 1), value=-math.inf if x.is_floating_point() else 1)), (X,), FLOATS + (torch.int64,)),
    "pad_modes": (lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (1, 2), mode="replicate"), F.pad(x, (1, 2), mode="circular")), (X,), F32),
    "slice_scatter": (lambda x: (torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3), torch.slice_scatter(x, x[:, ::2] * 2, 1, 0, 5, 2), torch.select_scatter(x, x[0] * 2, 0, -1), torch.slice_scatter(x, x, 0)), (X,), F32 + (torch.int64,)),
    "full": (lambda x: (x + torch.full((3, 5), 2.5), torch.zeros(2, 3), torch.ones(3, dtype=torch.int32), torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), x.new_full((2,), 1), x.new_zeros(2), x.new_ones(2, 2), torch.scalar_tensor(3.0), aten.fill.Scalar(x, 2), aten.fill.Tensor(x, x[0, 0]), aten.zero(x), torch.tensor(3) + x), (X,), F32 + (torch.int64, torch.bool)),
    "arange": (lambda x: (torch.arange(5) + x, torch.arange(2, 7), torch.arange(0, 1, 0.25), torch.arange(9, 0, -2), torch.arange(4, dtype=torch.bfloat16), torch.linspace(0, 1, 5), torch.eye(3), torch.eye(2, 3, dtype=torch.int64)), (X,), F32),
    "tril": (lambda x: (x.tril(), x.triu(), x.tril(1), x.triu(-1), x.expand(2, 3, 5).triu(2)), (X,), F32 + (torch.int64, torch.bool)),
    "embedding": (lambda w, i: (F.embedding(i, w), F.embedding(i[0, 0], w), F.embedding(i.int(), w)), (t(4, 6), pos(2, 3)), FLOATS),
    "index_select": (lambda x, i: (x.index_select(0, i), x.index_select(1, i), x.index_select(-1, i[0])), (t(4, 6), pos(3)), F32),
    "gather": (lambda x, i: (x.gather(1, i), x.gather(0, i), torch.take_along_dim(x, i, 1)), (t(3, 5), pos(3, 2)), F32 + (torch.int64,)),
    "scatter": (lambda x, i, s: (x.scatter(1, i, s), x.scatter(1, i, 2.0), x.scatter_add(1, i, s)), (t(3, 5), lambda d: torch.stack([torch.randperm(5)[:2] for _ in range(3)]), t(3, 4)), F32),
    "index": (lambda x, i, j: (x[i], x[:, i], x[i, j], x[:, i, j], x[i[:, None], j[None, :]], x[..., i], x[i[:, None], j]), (t(4, 5, 6), idx(3), idx(3)), F32 + (torch.int64,)),
    "index_put": (lambda x, i, v: (x.index_put((i,), v), x.index_put((i,), v, accumulate=True), x.index_put((i[:1], i[1:2]), x[0, 0, 0] * 2), aten._unsafe_index_put(x, [None, i], x[0, 0])), (t(4, 5, 6), lambda d: torch.tensor([0, -1, 2]), t(3, 5, 6)), F32),
    "mask_put": (lambda x, m, v: (x.index_put((m,), v), x.index_put((m[:, 0],), v)), (t(4, 5), mask(4, 5), t()), F32),
    "matmul": (lambda a, b: (a @ b, torch.mm(a, b), torch.mv(a, b[:, 0]), torch.dot(a[0], b[:, 0]), a.t() @ b, a[None] @ b[None].expand(3, 4, 5)), (lambda d: make((4, 4), d), t(4, 5)), F32 + (torch.float64,)),
    "matmul_square": (lambda a, b: (a @ b, a.t() @ b, a @ b.t(), torch.bmm(a[None], b[None])), (t(4, 4), t(4, 4)), FLOATS),
    "addmm": (lambda c, a, b: (torch.addmm(c, a, b), torch.addmm(c, a, b, beta=0.5, alpha=2), torch.addmm(c, a, b, beta=0), torch.addmv(c, a, b[0]), torch.baddbmm(c[None, None], a[None], b[None], alpha=0.5), torch.addbmm(c, a[None], b[None]), F.linear(a, b, c), torch.addcmul(c, a, b), torch.addcdiv(c, a, b.abs() + 1), torch.lerp(a, b, 0.25)), (t(4), t(4, 4), t(4, 4)), F32 + (torch.bfloat16,)),
    "conv2d": (lambda x, w, b: (F.conv2d(x, w, b), F.conv2d(x, w, None, 2, 1), F.conv2d(x, w, b, (1, 2), (2, 1), (2, 1))), (img, t(4, 6, 3, 3), t(4)), F32),
    "conv_groups": (lambda x, w: (F.conv2d(x, w, groups=3), F.conv2d(x[0], w, groups=3)), (img, t(6, 2, 3, 3)), F32),
    "conv1d3d": (lambda x, w, y, v: (F.conv1d(x, w, padding=1), F.conv3d(y, v)), (t(2, 3, 9), t(4, 3, 3), t(1, 2, 4, 5, 6), t(3, 2, 2, 2, 2)), F32),
    "conv_transposed": (lambda x, w: (F.conv_transpose2d(x, w), F.conv_transpose2d(x, w, None, 2, 1, 1)), (img, t(6, 3, 3, 3)), F32),
    "max_pool": (lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.max_pool2d(x, 2, 2, 0, ceil_mode=True), F.max_pool2d(x, 2, 1, 0, 2), F.max_pool1d(x[0], 3, 2), F.max_pool2d(x[0], 2)), (img,), F32),
    "pool3d": (lambda x: (F.max_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2), F.avg_pool3d(x, 2, 1, 1)), (t(2, 3, 4, 5, 6),), F32),
    "avg_pool": (lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, 2, 0, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool1d(x[0], 3, 2), F.avg_pool2d(x[0], 2)), (img,), F32),
    "adaptive_pool": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool1d(x[0], 4), F.adaptive_avg_pool2d(x[0], 2)), (img,), F32),
    "activation_gradients": (lambda g, x: (aten.sigmoid_backward(g, x), aten.tanh_backward(g, x), aten.silu_backward(g, x), aten.gelu_backward(g, x), aten.gelu_backward(g, x, approximate="tanh"), aten.threshold_backward(g, x, 0.5), aten.leaky_relu_backward(g, x, 0.2, False), aten.hardtanh_backward(g, x, -1, 1.5), aten.hardsigmoid_backward(g, x), aten.hardswish_backward(g, x), aten.native_dropout_backward(g, x > 0, 1.25)), (X, X), FLOATS),
    "gradient_ends": (lambda x: (aten.threshold_backward(x, x, 3), aten.hardtanh_backward(x, x, -3, 3), aten.hardsigmoid_backward(x, x), aten.hardswish_backward(x, x), aten.leaky_relu_backward(x, x, 0.1, False)), (lambda d: torch.tensor([-3.0, 3.0, 0.0, -0.0, math.nan, math.inf, -math.inf], dtype=d),), FLOATS),
    "softmax_gradients": (lambda g, x: [f(g, y(x, a), a, x.dtype) for a in (-1, 0) for f, y in ((aten._softmax_backward_data, torch.softmax), (aten._log_softmax_backward_data, torch.log_softmax))], (X, X), FLOATS),
    "layer_norm": (lambda x, w, b: (F.layer_norm(x, (8,)), F.layer_norm(x, (8,), w, b), F.layer_norm(x, (8,), w), F.layer_norm(x, (8,), None, b), F.layer_norm(x, (9, 8), None, b.expand(9, 8)), *aten.native_layer_norm(x, [8], w, b, 1e-5)), (img, t(8), t(8)), FLOATS),
    "layer_norm_gradient": (lambda g, x, w, b: (*layer_norm_gradients(g, x, [8], w, b), *layer_norm_gradients(g, x, [8], None, None, (True, False, False)), *layer_norm_gradients(g, x, [9, 8], w.expand(9, 8), None, (True, True, False)), *layer_norm_gradients(g[0, 0, 0], x[0, 0, 0], [8], w, b)), (img, img, t(8), t(8)), F32 + (torch.float64,)),
    "group_norm": (lambda x, w, b: (F.group_norm(x, 3, w, b), F.group_norm(x, 2), F.group_norm(x, 2, None, b), F.instance_norm(x, None, None, w, b)), (img, t(6), t(6)), F32),
    "batch_norm": (lambda x, m, v, w, b: (F.batch_norm(x, m, v, w, b), F.batch_norm(x, m, v), aten._native_batch_norm_legit_no_training(x, w, b, m, v, 0.1, 1e-5)[1]), (img, t(6), t(6, low=0.5), t(6), t(6)), F32),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w), (img, t(8)), F32 + (torch.bfloat16,)),
    "attention": (lambda q, k, v, m: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, attn_mask=m), F.scaled_dot_product_attention(q, q, q, is_causal=True), F.scaled_dot_product_attention(q, k, v, scale=0.3), F.scaled_dot_product_attention(q, k, v, attn_mask=m > 0)), (t(2, 4, 6, 8), t(2, 4, 5, 8), t(2, 4, 5, 8), t(6, 5)), F32),
    "attention_grouped": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), (t(2, 4, 6, 8), t(2, 2, 5, 8)), F32),
    "resize": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7), mode="bilinear"), F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), F.pixel_shuffle(x[:, :4], 2), F.pixel_unshuffle(x[:, :, :8], 2)), (img,), F32),
    "empty": (lambda x: [torch.nan_to_num(y, 0, 0, 0) * 0 + x for y in (torch.empty(3, 5), torch.empty_like(x), x.new_empty(5), torch.empty_strided((3, 5), (1, 3)), x.new_empty_strided((3, 5), (5, 1)), torch.empty_permuted((3, 5), (1, 0)))], (X,), F32),
    "as_strided": (lambda x: x.view(1, 3, 5).as_strided((1, 3, 5), (1, 5, 1)) * 2, (X,), F32),
    "losses": (lambda x, y: (F.mse_loss(x, y.expand(3, 5)), F.smooth_l1_loss(x, y.expand(3, 5)), F.binary_cross_entropy_with_logits(x, y.expand(3, 5)), F.cross_entropy(x, torch.tensor([0, 2, 4])), torch.isin(x, y), torch.nan_to_num(x), torch.xlogy(x.abs(), y), torch.count_nonzero(x)), (X, Y), F32),
}
LOOSE = {torch.float32: dict(rtol=2e-5, atol=2e-5), torch.float64: dict(rtol=1e-7, atol=1e-7), torch.bfloat16: dict(rtol=3e-2, atol=3e-2),
         torch.float16: dict(rtol=4e-3, atol=4e-3)}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    f, makers, dtypes = CASES[name]
    for dtype in dtypes:
        args = [m(dtype) for m in makers]
        compare(f, args, **LOOSE.get(dtype, {}))


@pytest.mark.parametrize("name", "conv2d conv_groups max_pool avg_pool adaptive_pool group_norm batch_norm activations softmax pad".split())
def test_channels_last(name):
    f, makers, _ = CASES[name]
    args = [m(torch.float32) for m in makers]
    args = [a.contiguous(memory_format=torch.channels_last) if a.dim() == 4 else a for a in args]
    compare(f, args, **LOOSE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layer_norm_gradients_of_16_bits(dtype):
    """Against float64, because eager adds up rows in fewer bits."""
    def f(g, x, w, mean, rstd):
        return aten.native_layer_norm_backward(g, x, [8], mean, rstd, w, w, [True, True, True])

    g, x, w = make((40, 8), dtype), make((40, 8), dtype), make((8,), dtype)
    args = g, x, w, *aten.native_layer_norm(x, [8], w, w, 1e-5)[1:]
    with torch.no_grad():
        for got, want in zip(torch.compile(f, backend="tenon", fullgraph=True)(*args), f(*[a.double() for a in args])):
            assert got.dtype == dtype
            torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-3 * float(want.abs().max()))


def test_nan_and_infinity():
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0, -2.0])
    compare(lambda x: (torch.maximum(x, x.flip(0)), torch.minimum(x, x.flip(0)), x.clamp(-1, 1), x.relu(), x.amax(), x.argmax(),
                       x.min(), x.isnan(), x.isinf(), x.isfinite(), x == x, x != x, torch.fmax(x, x.flip(0))), [x], exact=True)


def test_integer_division_signs():
    a, b = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
    compare(lambda a, b: (a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc"), a / b), [a, b], exact=True)


def test_every_row_is_covered():
    """Lowering any case marks its rows; a row no case reaches is untested."""
    from tenon import lower, partition

    seen = set()
    original = lower.lower_node

    def spy(node, values, *others):
        result = original(node, values, *others)
        seen.add(str(node.target))
        return result

    lower.lower_node = partition.lower.lower_node = spy
    try:
        for f, makers, dtypes in CASES.values():
            for dtype in (dtypes[0], dtypes[-1]):
                torch._dynamo.reset()
                with torch.no_grad():
                    torch.compile(f, backend="tenon", fullgraph=True)(*[m(dtype) for m in makers])
        torch._dynamo.reset()
        drawn = torch.compile(lambda x: (torch.bernoulli(x, 0.5), torch.rand(3, 5), torch.rand_like(x)), backend="tenon",
                              fullgraph=True, options={"rng": "fast"})  # tests/torch/test_random.py looks at the numbers
        drawn(torch.zeros(3, 5))
    finally:
        lower.lower_node = partition.lower.lower_node = original
    families = set(UNARY) | set(BINARY) | set("abs floor ceil trunc round sign relu neg square bitwise_not isnan isinf isfinite "
                                              "logical_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split())
    on_gpus = {f"aten._scaled_dot_product_{kind}_attention.default" for kind in ("flash", "efficient", "cudnn")}  # test_cuda.py
    missing = {name for name in rows.TABLE if name not in seen | on_gpus and name.split(".")[1] not in families
               and hasattr(getattr(torch.ops, name.split(".")[0]), name.split(".")[1])
               and name.split(".")[2] in getattr(getattr(torch.ops, name.split(".")[0]), name.split(".")[1]).overloads()}
    assert not missing, " ".join(sorted(missing))

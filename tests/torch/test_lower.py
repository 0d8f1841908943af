"""Each lowered overload against eager: values, dtype, shape and strides, over dtypes, shapes and layouts.

A case is one line: the rows it covers, a function, and its argument makers. Every row of ops.TABLE must be covered.
"""

import math
import operator

import pytest
import torch
import torch.nn.functional as F
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

import direct
import tenon
from tenon import _abi
from tenon.torch import ops

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


def compare(f, args, native=True, exact=False, strides=True, each=None, **tolerance):
    """each: tolerances of each of f's results, where these differ."""
    expected = f(*[a.clone(memory_format=torch.preserve_format) if isinstance(a, torch.Tensor) else a for a in args])
    tenon.reset_stats()
    got = direct.call(f, args)
    leaves = torch.utils._pytree.tree_leaves
    limits = [limit for limit, result in zip(each, expected, strict=True) for _ in leaves(result)] if each else [tolerance] * len(leaves(expected))
    for e, g, limit in zip(leaves(expected), leaves(got), limits, strict=True):
        if not isinstance(e, torch.Tensor):
            assert e == g
            continue
        assert g.dtype == e.dtype and g.shape == e.shape
        assert not strides or g.stride() == e.stride() or e.numel() == 0 or all(
            n == 1 or a == b for n, a, b in zip(e.shape, e.stride(), g.stride())), (g.stride(), e.stride())
        if exact:
            limit = dict(rtol=0, atol=0)
        torch.testing.assert_close(g, e, equal_nan=True, **limit)
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


def joined(f, arguments):
    """A function that calls f with many argument lists in one graph, because tracing takes most of the time; and its arguments."""
    flat = [a for args in arguments for a in args]
    sizes = [len(args) for args in arguments]

    def g(*flat):
        results, at = [], 0
        for n in sizes:
            results.append(f(*flat[at:at + n]))
            at += n
        return results

    return g, flat


def together(f, arguments, **options):
    compare(*joined(f, arguments), **options)


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


@pytest.mark.parametrize("f", [operator.lshift, operator.rshift])
def test_shifts(f):
    """By more bits than the dtype has and by a negative number, too."""
    dtypes = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8
    together(lambda x, y: [f(x, n) for n in (y, 0, 3, 7, 8, 70, -1)], [[make((3, 25), d, -90, 90), make((25,), d, -2, 70)] for d in dtypes])


X, Y = (lambda d: make((3, 5), d)), (lambda d: make((5,), d, 1, 3))
img = lambda d: make((2, 6, 9, 8), d)
idx = lambda *shape: (lambda d: torch.randint(-3, 3, shape))
pos = lambda *shape: (lambda d: torch.randint(0, 3, shape))
mask = lambda *shape: (lambda d: torch.rand(shape) > 0.5)
t = lambda *shape, low=-4, high=4: (lambda d: make(shape, d, low, high))

distinct = lambda *shape: (lambda d: torch.randperm(math.prod(shape)).reshape(shape).to(d))

def ends(d):
    """NaN, infinities, zeros, the smallest and the largest numbers of a float dtype."""
    if not d.is_floating_point:
        return make((10,), d)
    i = torch.finfo(d)
    return torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, i.tiny / 4, -i.tiny / 8, i.tiny, i.max, -i.max], dtype=d)

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
    "fma": (lambda x, y: (x.clone().addcmul_(x, y, value=0.5), x.clone().addcdiv_(y, y, value=2.0), torch.ops.prims.fma(x, y, x)), (X, lambda d: make((3, 5), d, 1, 4)), FLOATS),
    "special": (lambda x: [getattr(torch.special, f)(x) for f in "gammaln digamma erfinv i0 i0e i1 i1e".split()], (lambda d: make((3, 5), d, -0.9, 0.9),), FLOATS + (torch.int32, torch.bool)),
    "special_wide": (lambda x: [getattr(torch.special, f)(x) for f in "ndtri erfcx log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0".split()], (lambda d: make((3, 5), d, 0, 2),), (torch.float32, torch.float64, torch.int64)),
    "bessel": (lambda x, z: [g(v) for f in "j0 j1 y0 y1".split() for g in [getattr(torch.special, "bessel_" + f)] for v in (x, x * 0.2, z)], (lambda d: make((30, 5), d, -40, 40), ends), F32 + (torch.float64, torch.int64, torch.bool)),
    "airy": (torch.special.airy_ai, (lambda d: make((3, 5), d, -8, 8),), (torch.float32, torch.int64)),
    "gammas": (lambda x, y: (torch.igamma(x, y), torch.igammac(x, y), *[torch.polygamma(n, x) for n in range(4)], torch.mvlgamma(x + 2, 3)), (lambda d: make((3, 5), d, 0.5, 4), lambda d: make((5,), d, 0.5, 4)), FLOATS),
    "zeta": (lambda x, y: (torch.special.zeta(x, y), torch.special.zeta(x, 2), torch.special.zeta(2.5, y)), (lambda d: make((3, 5), d, 1.5, 4), lambda d: make((5,), d, 0.5, 4)), F32 + (torch.float64,)),
    "polynomials": (lambda x, n: [y for f in "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p".split() for g in [getattr(torch.special, f)] for y in (g(x, n), *[g(x, k) for k in (-1, 0, 1, 5, 12)], g(0.25, n))], (lambda d: make((3, 5), d, -1.25, 1.25), pos(5)), F32 + (torch.float64,)),
    "divisors": (lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), (lambda d: make((3, 5), d, -90, 90), lambda d: make((5,), d, -90, 90)), INTS),
    "logaddexp": (lambda x, y: [f(a, b) for f in (torch.logaddexp, torch.logaddexp2) for a, b in ((x, y), (x * math.inf, x * math.inf), (x * math.nan, y))], (X, Y), FLOATS),
    "hypot": (lambda x, y: (torch.hypot(x, y), torch.hypot(x * math.inf, y * math.nan), torch.hypot(x * 1e-30, y * 1e-30), torch.hypot(x.double() * 1e-300, y.double() * 1e-305), torch.hypot(x.double() * 1e300, y.double() * 1e300)), (X, Y), FLOATS),
    "ldexp": (lambda x, n, y: (torch.ldexp(x, n), torch.ldexp(x, y), torch.ldexp(n, n)), (X, idx(5), Y), FLOATS + (torch.int32,)),
    "round_decimals": (lambda x: [torch.round(x * 100, decimals=n) for n in (0, 1, 3, -1, -2, 30)], (X,), FLOATS),
    "signs": (lambda x, y, z: [u for a, b in ((x, y), (z, y[0]), (z, z.flip(0))) for u in (torch.signbit(a), torch.copysign(a, b), torch.copysign(b, a), torch.copysign(a, -0.0), torch.copysign(a, 2), torch.sgn(a), torch.angle(a))], (X, Y, ends), ANY),
    "bits": (lambda x, z: [u for a in (x, z, x[:, ::2], x * 0) for bits in [{2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]]
                           for u in (a.view(bits), (a.view(bits) + 5).view(a.dtype), (a + 1).view(bits) >> 3)] + [(x > 0).to(torch.int8).neg().view(torch.uint8)],
             (X, ends), F32 + (torch.float64, torch.bfloat16)),
    "nextafter": (lambda x, y, z: [torch.nextafter(a, b) for a, b in ((x, y), (x, x), (x * 0, y), (z, z.flip(0)), (z, z * -1), (z, z + 1))], (X, Y, ends), FLOATS),
    "frexp": (lambda x, z: (*torch.frexp(x), *torch.frexp(z), torch.frexp(x)[1], torch.frexp(x * 1e3)[0]), (X, ends), FLOATS),
    "fmax_int": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), (X, Y), INTS + (torch.bool,)),
    "clamp_nan": (lambda x: (x.clamp(math.nan, 1), x.clamp(max=math.nan)), (X,), FLOATS),
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
    "lerp_of_two_layouts": (lambda a, b: (torch.lerp(a.T, b, 0.25), torch.lerp(b, a.T, 0.75)), (t(3, 4), t(4, 3)), F32),
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
    "pad_edges": (lambda x, y: [F.pad(x[None], p, mode=m) for m in ("reflect", "replicate") for p in ((1, 2, 2, 0), (0, 3, -1, 1), (-2, 4, 0, 0), (-1, -1, 0, 0))]
                  + [F.pad(y, (1, 0, 0, 1, 1, 1), mode=m) for m in ("reflect", "replicate")], (X, t(2, 3, 2, 3, 4)), FLOATS + (torch.int64,)),
    "slice_scatter": (lambda x: (torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3), torch.slice_scatter(x, x[:, ::2] * 2, 1, 0, 5, 2), torch.select_scatter(x, x[0] * 2, 0, -1), torch.slice_scatter(x, x, 0)), (X,), F32 + (torch.int64,)),
    "full": (lambda x: (x + torch.full((3, 5), 2.5), torch.zeros(2, 3), torch.ones(3, dtype=torch.int32), torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), x.new_full((2,), 1), x.new_zeros(2), x.new_ones(2, 2), torch.scalar_tensor(3.0), aten.fill.Scalar(x, 2), aten.fill.Tensor(x, x[0, 0]), aten.zero(x), torch.tensor(3) + x), (X,), F32 + (torch.int64, torch.bool)),
    "arange": (lambda x: (torch.arange(5) + x, torch.arange(2, 7), torch.arange(0, 1, 0.25), torch.arange(9, 0, -2), torch.arange(4, dtype=torch.bfloat16), torch.linspace(0, 1, 5), torch.linspace(4.3, 1, 50, dtype=torch.int64), torch.linspace(torch.tensor(-2.9), 7, 9, dtype=torch.int32), torch.linspace(torch.tensor(-2.9), 7, 9), torch.linspace(-2, torch.tensor(0.7), 9), torch.linspace(torch.tensor(-2.9), torch.tensor(7), 9), torch.eye(3), torch.eye(2, 3, dtype=torch.int64)), (X,), F32),
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
    "int_products": (lambda a, b: (torch._int_mm(a, b), torch._int_mm(a.t(), b.t()), torch._int_mm(a, b) * 0.5), (t(5, 5), t(5, 5)), (torch.int8,)),
    "int8_weights": (lambda x, w, s: torch._weight_int8pack_mm(x, w.to(torch.int8), s), (t(5, 16), lambda d: make((16, 16), torch.int8), t(16, low=0)), FLOATS[:1] + FLOATS[2:]),
    "grouped_products": (lambda a, b, c, o: (torch._grouped_mm(a, b, offs=o), torch._grouped_mm(b[:3], c, offs=o)[:, :9], torch._grouped_mm(b, b.transpose(1, 2))), (t(9, 16), t(3, 16, 8), t(8, 9 + 7), lambda d: torch.tensor([2, 2, 9], dtype=torch.int32)), (torch.bfloat16,)),
    "addmm": (lambda c, a, b: (torch.addmm(c, a, b), torch.addmm(c, a, b, beta=0.5, alpha=2), torch.addmm(c, a, b, beta=0), torch.addmv(c, a, b[0]), torch.baddbmm(c[None, None], a[None], b[None], alpha=0.5), torch.addbmm(c, a[None], b[None]), F.linear(a, b, c), torch.addcmul(c, a, b), torch.addcdiv(c, a, b.abs() + 1), torch.lerp(a, b, 0.25)), (t(4), t(4, 4), t(4, 4)), F32 + (torch.bfloat16,)),
    "conv2d": (lambda x, w, b: (F.conv2d(x, w, b), F.conv2d(x, w, None, 2, 1), F.conv2d(x, w, b, (1, 2), (2, 1), (2, 1))), (img, t(4, 6, 3, 3), t(4)), F32),
    "conv_groups": (lambda x, w: (F.conv2d(x, w, groups=3), F.conv2d(x[0], w, groups=3)), (img, t(6, 2, 3, 3)), F32),
    "conv1d3d": (lambda x, w, y, v: (F.conv1d(x, w, padding=1), F.conv3d(y, v)), (t(2, 3, 9), t(4, 3, 3), t(1, 2, 4, 5, 6), t(3, 2, 2, 2, 2)), F32),
    "conv_transposed": (lambda x, w: (F.conv_transpose2d(x, w), F.conv_transpose2d(x, w, None, 2, 1, 1)), (img, t(6, 3, 3, 3)), F32),
    "max_pool": (lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.max_pool2d(x, 2, 2, 0, ceil_mode=True), F.max_pool2d(x, 2, 1, 0, 2), F.max_pool1d(x[0], 3, 2), F.max_pool2d(x[0], 2)), (img,), F32),
    "fractional_max_pool": (lambda x, y, s: [p for v, o in ((x, (4, 6)), (x.transpose(2, 3), (1, 5)), (x[0], (3, 3))) for p in aten.fractional_max_pool2d(v, (2, 3), o, s[: len(v) if v.dim() == 4 else 1, :, :2])] + [*aten.fractional_max_pool3d(y, (1, 2, 3), (3, 3, 2), s)], (img, t(2, 6, 4, 5, 6), t(2, 6, 3, low=0, high=1)), F32 + (torch.float64,)),
    "pool3d": (lambda x: (F.max_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2), F.avg_pool3d(x, 2, 1, 1)), (t(2, 3, 4, 5, 6),), F32),
    "avg_pool": (lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, 2, 0, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool1d(x[0], 3, 2), F.avg_pool2d(x[0], 2)), (img,), F32),
    "adaptive_pool": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool1d(x[0], 4), F.adaptive_avg_pool2d(x[0], 2)), (img,), F32),
    "activation_gradients": (lambda g, x: (aten.sigmoid_backward(g, x), aten.tanh_backward(g, x), aten.silu_backward(g, x), aten.gelu_backward(g, x), aten.gelu_backward(g, x, approximate="tanh"), aten.threshold_backward(g, x, 0.5), aten.leaky_relu_backward(g, x, 0.2, False), aten.hardtanh_backward(g, x, -1, 1.5), aten.hardsigmoid_backward(g, x), aten.hardswish_backward(g, x), aten.native_dropout_backward(g, x > 0, 1.25), aten.hardshrink_backward(g, x, 0.5), aten.soft_margin_loss_backward(g, 2 * x, g.sign(), 0), aten.soft_margin_loss_backward(g[0, 0], x, g.sign(), 1), aten.smooth_l1_loss_backward(g, 2 * x, g, 0, 0.7), aten.smooth_l1_loss_backward(g[0, 0], torch.where(x > 1, math.nan, x), g, 1, 0.3)), (X, X), FLOATS),
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
    "resize_antialiased": (lambda x: (F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True), F.interpolate(x, scale_factor=(0.4, 1.7), mode="bicubic", antialias=True), F.interpolate(x, size=(3, 20), mode="bicubic", align_corners=True, antialias=True), aten._upsample_lanczos2d_aa(x, [1, 4], False)), (img,), F32),
    "empty": (lambda x: [torch.nan_to_num(y, 0, 0, 0) * 0 + x for y in (torch.empty(3, 5), torch.empty_like(x), x.new_empty(5), torch.empty_strided((3, 5), (1, 3)), x.new_empty_strided((3, 5), (5, 1)), torch.empty_permuted((3, 5), (1, 0)))], (X,), F32),
    "as_strided": (lambda x: x.view(1, 3, 5).as_strided((1, 3, 5), (1, 5, 1)) * 2, (X,), F32),
    "binary_cross_entropy": (lambda x, y: (F.binary_cross_entropy(x.sigmoid(), y.sigmoid().expand(3, 5)), F.binary_cross_entropy(x.sigmoid(), y.sigmoid().expand(3, 5), y.expand(3, 5), reduction="none"), F.binary_cross_entropy((x > 0).to(x.dtype), (x < 1).to(x.dtype), reduction="sum")), (X, Y), FLOATS),
    "losses": (lambda x, y: (F.mse_loss(x, y.expand(3, 5)), F.smooth_l1_loss(x, y.expand(3, 5)), F.binary_cross_entropy_with_logits(x, y.expand(3, 5)), F.cross_entropy(x, torch.tensor([0, 2, 4])), torch.isin(x, y), torch.nan_to_num(x), torch.xlogy(x.abs(), y), torch.count_nonzero(x)), (X, Y), F32),
    "sort": (lambda x: (*x.sort(), *x.sort(0, descending=True), *torch.sort(x, stable=True, dim=1, descending=True), x.argsort(0), torch.msort(x), x.sort(0)[0] + 1), (X,), ANY),
    "order": (lambda x: (*x.topk(2), *x.topk(3, 0, largest=False), *x.topk(5), *x.kthvalue(2), *x.kthvalue(1, 0, True), x.topk(1)[1]), (distinct(3, 5),), FLOATS + INTS),
    "selection": (lambda x: (*x.topk(5, sorted=False), *x.topk(17, 1, largest=False, sorted=False), *x.topk(2, 0, sorted=False), *x.round().topk(19, sorted=False), *x.T.topk(3, sorted=False)), (t(3, 19),), FLOATS + INTS),
    "median": (lambda x: (x.median(), *x.median(0), *x.median(1, True), x.nanmedian(), *x.nanmedian(0), *x.nanmedian(1, True)), (distinct(4, 6),), FLOATS + INTS),
    "mode": (lambda x: (*x.mode(), *x.mode(0, True), x.mode(1)[0]), (X,), ANY),
    "sort_0d": (lambda x: (*x.sort(), *x.topk(1), *x.kthvalue(1), *x.median(0), *x.nanmedian(0), x.median(), *x.mode(), *x.cummax(0), *x.cummin(0), x.cumprod(0)), (t(),), F32),
    "sort_empty": (lambda x: (*x.sort(), *x.sort(1), *x.topk(0, 1), *x.topk(2, 0), *x.cummax(0), *x.cummin(1), x.cumprod(0), *x.mode(0), x.median(), x.nanmedian()), (t(3, 0),), F32),
    "nonzero_static": (lambda x: [y.nonzero_static(size=n, fill_value=f) for y in (x > 0, x[:, 1], x[None] * 0, x.double(), x[:0], x[0, 0]) for n, f in ((4, -1), (20, 7), (0, 0))], (X,), FLOATS + (torch.int64,)),
    "search": (lambda x, y: (torch.searchsorted(x.sort()[0], x), torch.searchsorted(x.sort()[0], x, right=True, out_int32=True), torch.searchsorted(y, x, side="right", sorter=y.argsort()), torch.searchsorted(y.sort()[0], 1.5), torch.bucketize(x, y.sort()[0], right=True), torch.bucketize(2, y), torch.searchsorted(y, x), torch.bucketize(x, y.double())), (X, Y), FLOATS + INTS),
    "histc": (lambda x: (x.histc(), x.histc(7, -2, 3), x.histc(4, 1, 1), x.round().histc(8, -4, 4), (x * 0 + 2).histc(5), torch.where(x > 3, math.nan, x).histc(6, -4, 4)), (X,), (torch.float64, torch.float32)),
    "logcumsumexp": (lambda x, z, s: (x.logcumsumexp(0), x.logcumsumexp(-1), (x * 100).logcumsumexp(1), z.logcumsumexp(0), z.flip(0).logcumsumexp(0), s.logcumsumexp(0)), (X, lambda d: torch.tensor([-math.inf, 2, -3, math.inf, 1, math.nan, 4], dtype=d), t()), FLOATS),
    "running": (lambda x: (*x.cummax(0), *x.cummin(1), x.cummax(1)[0], x.cummin(0)[1], x.cumprod(0), x.cumprod(1), x.cumprod(1, dtype=torch.float64)), (X,), ANY),
}
MOVED = F32 + (torch.int64, torch.bool)
FOLDED = FLOATS + (torch.int64, torch.uint8)
CHUNKS = LinearCrossEntropyOptions(batch_chunk_size=4, allow_retain_graph=True)
coordinates = lambda *shape: (lambda d: torch.cat([make((1, *shape[1:]), d, -1.7, 1.7), make((shape[0] - 1, *shape[1:]), d, -1, 1)]))
repeated = lambda *shape: (lambda d: torch.randint(0, 3, shape))
CASES |= {  # moves
    "copies_of_views": (lambda x: [aten.alias_copy(x), aten.detach_copy(x), aten.diagonal_copy(x, 1), aten.expand_copy(x, [2, 3, 5]), aten.permute_copy(x, [1, 0]), aten.select_copy(x, 1, -2), aten.slice_copy(x, 1, 1, 5, 2), *aten.split_copy(x, 2, 1), *aten.split_with_sizes_copy(x, [1, 2]), aten.squeeze_copy(x[:1]), aten.squeeze_copy(x[:1], 0), aten.squeeze_copy(x[:1], [0, 1]), aten.t_copy(x), aten.transpose_copy(x, 0, 1), *aten.unbind_copy(x, 1), aten.unfold_copy(x, 1, 2, 2), aten.unsqueeze_copy(x, 1), aten.view_copy(x, [5, 3]), aten.narrow_copy(x, 1, 1, 3), aten.narrow_copy(x, 1, -2, 2)], (X,), MOVED),
    "as_strided_views": (lambda x: [y * 2 for x in [x + x] for y in (x.as_strided((2, 3), (1, 2)), x.as_strided((2, 3), (2, 1), 4), x.as_strided((3, 4), (1, 1)), x.as_strided((2, 0), (1, 1)), x.as_strided((2, 3), (0, 5)), x.as_strided((), (), 14), x.t().as_strided((5, 3), (1, 5)), x[:1].expand(3, 5).as_strided((5,), (1,)), aten.as_strided_copy(x, (2, 2), (7, 3), 1))], (X,), F32 + (torch.int64,)),
    "as_strided_scatter": (lambda x, y: (torch.as_strided_scatter(x.neg() if x.dtype != torch.bool else ~x, y, (5,), (2,), 3), torch.as_strided_scatter(x, y.expand(2, 5), (2, 5), (5, 1)), torch.as_strided_scatter(x.t().contiguous().t(), y, (5,), (2,))), (X, Y), MOVED),
    "diagonal_scatter": (lambda x: [torch.diagonal_scatter(x, x.diagonal(o) * 2, o) for o in (0, 1, 4, -1, -2)] + [torch.diagonal_scatter(x, x.new_zeros(0), 5), torch.diagonal_scatter(x.expand(2, 3, 5), x.new_ones(3, 2), 0, 0, 2)], (X,), F32 + (torch.int64,)),
    "unfold_scalar": (lambda x: (x.unfold(0, 1, 2) + 1, x.unfold(0, 0, 1) + 1), (t(),), F32),
    "rot90": (lambda x: [torch.rot90(x, k) for k in range(-1, 5)] + [torch.rot90(x.expand(2, 3, 5), 1, (2, 0))], (X,), MOVED),
    "native_group_norm_backward": (lambda x, m, w: aten.native_group_norm_backward(x * 2, x, m, m * m, w, 2, 6, 72, 2, [True, True, True]),
                                   (img, lambda d: make((2, 2), d), lambda d: make((6,), d)), F32),
    "channel_shuffle": (lambda x: (F.channel_shuffle(x, 3), aten.native_channel_shuffle(x, 2)), (img,), F32),
    "block_diag": (lambda x, y: (torch.block_diag(x, y, x[0, 0], x.new_zeros(0, 2)), torch.block_diag(x), torch.block_diag(x, y.double())), (X, Y), F32 + (torch.int64,)),
    "chunk_cat": (lambda x, y: (aten._chunk_cat([x, x * 2], 1, 2), aten._chunk_cat([x, y[None].expand(4, 5)], 0, 3)), (X, Y), F32),
    "trace": (lambda x: (x.trace(), x.t().trace(), x[:, :0].trace()), (X,), FLOATS + (torch.int64, torch.int32)),
    "index_family": (lambda x, i, y, s: (x.index_add(0, i, y), x.index_add(0, i, y, alpha=2), x.index_add(1, i, y[:3, :4]), x.index_copy(0, i[:1], y[:1]), x.index_copy(1, i[:1], y[:3, :1]), x.index_fill(0, i, 2), x.index_fill(1, i - 3, x[0, 0]), s.index_add(0, i[:1] * 0, y[0, 0]), s.index_copy(0, i[0] * 0, s), s.index_fill(0, i[0] * 0, 3), torch.index_copy(x[0], 0, i[0], s), torch.gather(s, 0, i[0] * 0)), (X, repeated(4), t(4, 5), t()), FLOATS + (torch.int64,)),
    "index_reduce": (lambda x, i, y: [torch.index_reduce(x, a, i, y if a == 0 else y[:3, :4], r, include_self=s) for r in ("prod", "mean", "amax", "amin") for s in (True, False) for a in (0, 1)], (X, repeated(4), t(4, 5)), FOLDED),
    "scatter_reduce": (lambda x, i, y: [torch.scatter_reduce(x, a, i, y, r, include_self=s) for r in ("sum", "prod", "mean", "amax", "amin") for s in (True, False) for a in (0, 1)] + [torch.scatter(x, 1, i, y, reduce=r) for r in ("add", "multiply")] + [torch.scatter(x, 1, i, 2, reduce="add"), x[0, 0].scatter_add(0, i[0, 0] * 0, y[0, 0])], (X, repeated(2, 4), t(2, 5)), FOLDED),
    "scatter_reduce_bool": (lambda x, i, y: [torch.scatter_reduce(x, 1, i, y, r, include_self=s) for r in ("sum", "prod", "amax", "amin") for s in (True, False)], (X, repeated(2, 4), t(2, 5)), (torch.bool,)),
    "take_put": (lambda x, i: (x.take(i), x.t().take(i[0]), x.put(i, x[0, :3] * 2, True), x.put(torch.tensor([[-1, 4]]), x[:1, :2])), (X, idx(3)), F32 + (torch.int64,)),
    "masked_scatter": (lambda x, m, y: (x.masked_scatter(m, y), x.masked_scatter(m[0], y), x[0].masked_scatter(m, y)), (X, mask(3, 5), t(4, 5)), MOVED),
    "mask_put_rows": (lambda x, y: (x.index_put((x[:, 0] > 9,), y[:0]), x.index_put((y[0, 0] * 0 + x[:, 0] == x[:, 0],), y), x.index_put((x == x,), x.view(-1) * 2), x.index_put((x > 0,), x[0, 0], accumulate=True), x.index_put((x[:, 0] > 0,), y[:1])), (X, t(3, 5)), F32[:1]),
    "masked_index_put": (lambda x, i, m, v: aten._unsafe_masked_index_put_accumulate(x, m, [i, None], v), (X, repeated(4), mask(4, 1), t(4, 5)), F32),
    "max_pool_indices": (lambda x: [y for c in ((2,), (3, 2, 1), (3, 2, 1, 1, True), (2, 2, 0, 1, True), (2, 1, 0, 2)) for y in (*aten.max_pool2d_with_indices(x, c[0], *c[1:]), *aten.max_pool2d_with_indices(x[0], c[0], *c[1:]))] + list(F.max_pool1d(x[0], 3, 2, return_indices=True)) + list(F.max_pool2d(x * 0, 3, 2, 1, return_indices=True)), (img,), FLOATS + (torch.int64,)),
    "max_pool3d_indices": (lambda x: (*F.max_pool3d(x, 2, return_indices=True), *F.max_pool3d(x, 3, 2, 1, return_indices=True)), (t(2, 3, 4, 5, 6),), F32),
    "adaptive_max_pool": (lambda x, y: [z for o in (1, (3, 4), (4, 3), (9, 8), (7, 5)) for z in F.adaptive_max_pool2d(x, o, return_indices=True)] + [F.adaptive_max_pool2d(x[0], 2)] + list(F.adaptive_max_pool3d(y, (2, 5, 6), return_indices=True)) + list(F.adaptive_max_pool1d(x[0], 3, return_indices=True)), (img, t(2, 3, 4, 5, 6)), F32 + (torch.float64, torch.bfloat16)),
    "max_unpool": (lambda x, y: (F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), F.max_unpool3d(*F.max_pool3d(y, 2, return_indices=True), 2, output_size=(4, 5, 6)), F.max_unpool1d(*F.max_pool1d(x[0], 2, return_indices=True), 2)), (img, t(2, 3, 4, 5, 6)), F32 + (torch.float64,)),
    "convolution_gradients": (lambda x, w, g, v, h: [y for a, b, c, n, u in ((g, x, w, 2, False), (h, x, v, 1, True)) for y in aten.convolution_backward(a, b, c, [4], [2, 2], [1, 1], [1, 1], u, [int(u)] * 2, n, [True] * 3)]
                              + list(aten.convolution_backward(g, x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [False, True, False])[1:2]), (img, t(4, 3, 3, 3), t(2, 4, 5, 4), t(6, 4, 3, 3), t(2, 4, 18, 16)), F32 + (torch.float64,)),
    "avg_pool_gradients": (lambda x, y, g: (aten.avg_pool2d_backward(x[:, :, :4, :4] * 2, x, [2, 2], [2, 2], [0, 0], False, True, None), aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, False, None), aten.avg_pool3d_backward(y[:, :, :2, :2, :3] * 2, y, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, 3),
                                            aten._adaptive_avg_pool2d_backward(x[:, :, :3, :4] * 2, x), aten._adaptive_avg_pool3d_backward(y[:, :, :2, :1, :3] * 2, y)), (img, t(2, 3, 4, 5, 6), t(2, 6, 5, 4)), F32 + (torch.float64,)),
    "grid_gradients": (lambda x, g, y, h: [z for m in (0, 1) for p in (0, 1) for z in (*aten.grid_sampler_2d_backward(x[:, :, :5, :4] * 2, x, g, m, p, False, [True, True]), *aten.grid_sampler_3d_backward(y[:, :, :2, :4, :3] * 2, y, h, m, p, True, [True, True]))], (img, coordinates(2, 5, 4, 2), t(2, 3, 4, 5, 6), coordinates(2, 2, 4, 3, 3)), F32 + (torch.float64,)),
    "attention_gradients": (lambda q, k, v, g: [z for c in (False, True) for y in [aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, c)] for z in (*y, *aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, *y, 0.0, c))], (t(2, 3, 5, 8), t(2, 3, 5, 8), t(2, 3, 5, 8), t(2, 3, 5, 8)), F32 + (torch.float64,)),
    "bits_of_other_width": (lambda x: [x.view(d) for d in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.float32, torch.int64, torch.float64)] + [(x.view(torch.bfloat16) * 2), x[1:, 8:].view(torch.int8)],
                            (lambda d: torch.arange(3 * 64, dtype=torch.uint8).mul(37).reshape(3, 64).bitwise_and(0xBF).view(d),), (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)),
    "threshold_of_integers": (lambda x: (F.threshold(x, 0.5, -1.0), F.threshold(x, -2, 7)), (lambda d: torch.tensor([2 ** 53 + 1, 2 ** 63 - 1, 1, 0, -5]).to(d),), (torch.int64, torch.int32)),
    "fake_quantize": (lambda x, s, z: [y for k, p, l, h in ((0.1, 3, -8, 7), (0.5, 100, 0, 255)) for y in (*aten.fake_quantize_per_tensor_affine_cachemask(x, k, p, l, h), *aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s[:1], z[:1], torch.tensor([l + 8]), l, h), *aten.fake_quantize_per_channel_affine_cachemask(x, s, z, 1, l, h), *aten.fake_quantize_per_channel_affine_cachemask(x.t() * 3, s, s, 0, l, h))],
                      (X, lambda d: make((5,), d, 0.1, 2), lambda d: torch.arange(5, dtype=torch.int32)), F32),
    "nll": (lambda x, i, w, y, j: [z for r in (0, 1, 2) for c in (None, w) for z in (*aten.nll_loss_forward(x, i, c, r, 2), *aten.nll_loss_forward(x[0], i[1], c, r, 0), *aten.nll_loss2d_forward(y, j, None, r, 3))],
            (X, lambda d: torch.tensor([0, 4, 2]), lambda d: make((5,), d, 1, 3), img, lambda d: torch.randint(6, (2, 9, 8))), F32 + (torch.float64, torch.bfloat16)),
    "nll_gradients": (lambda x, i, w, g, y, j: [aten.nll_loss_backward(g if r == 0 else g[0], x, i, w, r, 2, aten.nll_loss_forward(x, i, w, r, 2)[1]) for r in (0, 1, 2)] + [aten.nll_loss2d_backward(y[:, 0] if r == 0 else g[0], y, j, None, r, -100, aten.nll_loss2d_forward(y, j, None, r, -100)[1]) for r in (0, 1)],
                      (X, lambda d: torch.tensor([0, 4, 2]), lambda d: make((5,), d, 1, 3), t(3), img, lambda d: torch.randint(6, (2, 9, 8))), F32 + (torch.float64,)),
    "embedding_gradients": (lambda g, i: [aten.embedding_dense_backward(g, i, 6, p, s) for p in (-1, 2) for s in (False, True)], (t(2, 3, 4), lambda d: torch.tensor([[0, 2, 2], [4, 0, 1]])), F32 + (torch.float64,)),
    "view_gradients": (lambda x: (aten.select_backward(x[:, 0] * 2, [3, 5], 1, -2), aten.slice_backward(x[:, :2] * 2, [3, 5], 1, 1, 5, 2), aten.slice_backward(x[:, :3] * 2, [3, 5], 1, -3, 2**63 - 1, 1), aten.slice_backward(x * 2, [8, 5], 0, 1, 8, 3)), (X,), FLOATS),
    "max_pool_gradients": (lambda x, y: [f(torch.sin(3 * v), x, *c, v_place) for x, pool, f, cs in ((x, F.max_pool2d, aten.max_pool2d_with_indices_backward, ((3, 2, 1), (2, 2, 0), (3, 3, 0), (2, 2, 0, 1, True), (2, 3, 0), (2, 1, 0, 2))), (y, F.max_pool3d, aten.max_pool3d_with_indices_backward, ((2, 2, 0), (2, 2, 0, 1, True)))) for k in cs for c in ([[n] * (x.dim() - 2) for n in (*k[:3], k[3] if len(k) > 3 else 1)] + [len(k) > 4],) for v, v_place in (pool(x, *c, return_indices=True),)], (img, t(2, 3, 4, 5, 6)), FLOATS),
    "padding_gradients": (lambda x, y: (aten.reflection_pad1d_backward(F.pad(x[0], (2, 1), mode="reflect") * 2, x[0], [2, 1]), aten.reflection_pad2d_backward(F.pad(x, (1, 2, 3, -1), mode="reflect") * x[0, 0, 0, 0], x, [1, 2, 3, -1]), aten.reflection_pad3d_backward(F.pad(y, (1, 2, 0, 1, 2, 0), mode="reflect") * 2, y, [1, 2, 0, 1, 2, 0]), aten.replication_pad1d_backward(F.pad(x[0], (2, 1), mode="replicate") * 2, x[0], [2, 1]), aten.replication_pad2d_backward(F.pad(x, (1, 2, 3, -1), mode="replicate") * x[0, 0, 0, 0], x, [1, 2, 3, -1]), aten.replication_pad3d_backward(F.pad(y, (1, 2, 0, 1, 2, 0), mode="replicate") * 2, y, [1, 2, 0, 1, 2, 0])), (img, t(2, 3, 4, 5, 6)), F32 + (torch.float64,)),
    "resize_gradients": (lambda x, y: [f(x, [9, 8], [2, 6, *n], *c, *k) for n in ((3, 4), (9, 8), (4, 11)) for k in ((None, None), (0.7, 1.9)) for f, c in [(aten.upsample_nearest2d_backward, ()), (aten._upsample_nearest_exact2d_backward, ())] + [(f, (a,)) for a in (True, False) for f in (aten.upsample_bilinear2d_backward, aten.upsample_bicubic2d_backward)]]
                         + [aten.upsample_nearest1d_backward(x[0], [8], [6, 9, 4], None), aten._upsample_nearest_exact1d_backward(x[0], [8], [6, 9, 3], None), aten.upsample_linear1d_backward(x[0], [8], [6, 9, 5], False, 1.5), aten.upsample_nearest3d_backward(y, [4, 5, 6], [2, 3, 2, 3, 4], None, None, 1.4), aten._upsample_nearest_exact3d_backward(y, [4, 5, 6], [2, 3, 2, 3, 4]), aten.upsample_trilinear3d_backward(y, [4, 5, 6], [2, 3, 2, 7, 1], False)], (img, t(2, 3, 4, 5, 6)), F32 + (torch.float64,)),
    "resize_antialiased_gradients": (lambda x: [f(x, [9, 8], [2, 6, *n], a) for n in ((3, 11), (20, 8)) for a in (True, False) for f in (aten._upsample_bilinear2d_aa_backward, aten._upsample_bicubic2d_aa_backward)] + [aten._upsample_lanczos2d_aa_backward(x, [9, 8], [2, 6, 5, 12], False)], (img,), F32),
    "adaptive_pool_gradients": (lambda x, y: (aten.adaptive_max_pool2d_backward(x[:, :, :4, :3] * 2, x, F.adaptive_max_pool2d(x, (4, 3), return_indices=True)[1]), aten.adaptive_max_pool3d_backward(y[:, :, :3, :2, :5] * 2, y, F.adaptive_max_pool3d(y, (3, 2, 5), return_indices=True)[1]), *(aten.fractional_max_pool2d_backward(x[:, :, :3, :4] * 2, x, [3, 2], [3, 4], aten.fractional_max_pool2d(x, [3, 2], [3, 4], x[:, :, 0, :2].sigmoid())[1]), aten.fractional_max_pool3d_backward(y[:, :, :2, :3, :4] * 2, y, [2, 2, 2], [2, 3, 4], aten.fractional_max_pool3d(y, [2, 2, 2], [2, 3, 4], y[:, :, 0, 0, :3].sigmoid())[1]))), (img, t(2, 3, 4, 5, 6)), F32 + (torch.float64,)),
    "distance_gradients": (lambda x, y, g, h: [aten._cdist_backward(g, x, y, p, torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist")) for p in (0, 0.5, 1, 1.5, 2, 3.5, math.inf)] + [aten._cdist_backward(g[:, :3].contiguous(), x, x, 2.0, torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")), aten._cdist_backward(g[:0], x[:0], y, 1.0, torch.cdist(x[:0], y, 1.0))]
                           + [aten._pdist_backward(h, torch.cat([x, y[:1], x[:1]]), p, F.pdist(torch.cat([x, y[:1], x[:1]]), p)) for p in (0.0, 1.0, 1.5, 2.0, 3.5, math.inf)], (X, t(4, 5), t(3, 4), t(10)), F32 + (torch.float64,)),
    "weight_norm_gradients": (lambda v, g: [y for d in (0, 1) for y in aten._weight_norm_interface_backward(v * 2, v, g[:3, None] if d == 0 else g[None], (v if v.dtype == torch.float64 else v.float()).norm(2, 1 - d, True), d)], (X, t(5)), FLOATS),
    "masked_scatter_gradients": (lambda x, m: (aten.masked_scatter_backward(x, m, [15]), aten.masked_scatter_backward(x, m[0], [4, 5]), aten.masked_scatter_backward(x[:0], m[:0], [2])), (X, mask(3, 5)), FLOATS),
    "segment_gradients": (lambda x, n: [aten._segment_reduce_backward(y * 2, y, x, r, axis=0, initial=i, **k) for r in ("sum", "mean", "max", "min", "prod") for i in (None, 2) for k in ({"lengths": n}, {"offsets": F.pad(n.cumsum(0), (1, 0))}) for y in [torch.segment_reduce(x, r, axis=0, initial=i, **k)]], (t(6, 5), lambda d: torch.tensor([2, 0, 3, 1])), F32 + (torch.float64,)),
    "bag_gradients": (lambda g, w, i, o, p, n, j: [aten._embedding_bag_backward(g, i, o, *aten._embedding_bag(w, i, o, False, m, False, q, False, k)[1:], 4, False, m, False, q, k) for m in (0, 1) for q in ((None, p) if m == 0 else (None,)) for k in (-1, 2)] + [aten._embedding_bag_backward(g, i, o, i, n, j, 4, s, 2, False, None) for s in (False, True)] + [aten._embedding_bag_per_sample_weights_backward(g, w, i, o, aten._embedding_bag(w, i, o, False, 0, False, p, False, k)[1], 0, k) for k in (-1, 2)],
                      (t(4, 6), t(4, 6), pos(6), lambda d: torch.tensor([0, 2, 2, 5]), t(6), lambda d: torch.tensor([2, 0, 3, 1]), lambda d: torch.randint(0, 4, (4, 6))), F32 + (torch.float64,)),
    "norms": (lambda x: [aten.norm.Scalar(x, p) for p in (2, 1, 0, math.inf, 3)] + [aten.norm.ScalarOpt_dim(x, None, [1], True), aten.norm.ScalarOpt_dtype(x, 2, dtype=torch.float64), aten.norm.ScalarOpt_dim_dtype(x, 1, [0], False, dtype=torch.float64), torch.dist(x, x * 2, 3), F.pairwise_distance(x, x * 2), F.triplet_margin_loss(x, x * 2, x - 1)], (X,), FLOATS),
    "renorm": (lambda x: [x.renorm(p, d, 5) for p in (1, 2, 3, math.inf) for d in (0, 1)] + [x.renorm(2, 0, 100)], (X,), FLOATS),
    "cdist": (lambda x, y, z: [torch.cdist(x, y, p) for p in (0, 1, 2, 3.5, math.inf)] + [torch.cdist(z, z + 1), torch.cdist(z, z + 1, compute_mode="donot_use_mm_for_euclid_dist"), torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), torch.cdist(x[:, :, :0], y[:, :0])], (t(2, 3, 5), t(4, 5), t(30, 4)), F32 + (torch.float64,)),
    "pdist": (lambda x: [F.pdist(x, p) for p in (0, 1, 2, 3.5, math.inf)] + [F.pdist(x[:1]), F.pdist(x[:2])], (t(70, 5),), F32 + (torch.float64,)),
    "cross": (lambda x, y: (torch.linalg.cross(x, y), torch.linalg.cross(x.t(), y[:1].t(), dim=0), torch.cross(x, y, dim=1)), (t(5, 3), t(5, 3)), FLOATS + (torch.int64,)),
    "prelu": (lambda x, w: (F.prelu(x, w), F.prelu(x[0], w[:1])), (img, t(6)), FLOATS),
    "inner_products": (lambda x, y: (torch.vdot(x[0], y), torch.linalg.vecdot(x, y), F.bilinear(x, x * 2, y.expand(2, 5, 5).contiguous(), y[:2])), (X, Y), F32 + (torch.float64,)),
    "trilinear": (lambda a, b, w: (aten._trilinear(a, w, b, [1, 3], [0], [1, 2], [2, 3]), aten._trilinear(a, b, w[:, 0, :3], [1, 3], [1, 2], [2, 3], [0]),
                                   aten._trilinear(w[:, 0, :3], w[:3], b, [2, 3], [0], [1, 2], [1, 3]), aten._trilinear(a, w[:1], b, [1, 3], [0], [1, 2], [2, 3]),
                                   aten._trilinear(a, w, b, [1, 3], [0], [1, 2], [2]), aten._trilinear(a, a, a, [], [], [], [1])),
                  (t(6, 4), t(6, 5), t(6, 4, 5)), F32 + (torch.float64,)),
    "nansum": (lambda x: (torch.nansum(torch.where(x > 2, math.nan, x)), x.nansum(1), x.nansum((0, 1), True), torch.nanmean(torch.where(x > 2, math.nan, x), 0), x.nansum(0, dtype=torch.float64)), (X,), FLOATS),
    "nansum_int": (lambda x: (x.nansum(), x.nansum(1)), (X,), (torch.int64, torch.int32, torch.bool)),
    "group_norm_results": (lambda x, w, b: aten.native_group_norm(x, w, b, 2, 6, 72, 3, 1e-5), (img, t(6), t(6)), F32 + (torch.float64,)),
    "grids": (lambda x, a: (F.affine_grid(a, (2, 6, 4, 5)), F.fold(x.view(2, 24, 18), (7, 4), 2)), (img, t(2, 2, 3, low=-1, high=1)), F32 + (torch.float64,)),
    "pool_ceil": (lambda x: [f for k, s, p in ((3, 2, 1), (2, 3, 1), (2, 3, 0)) for c in (True, False) for f in (F.avg_pool2d(x, k, s, p, True, c), F.avg_pool2d(x, k, s, p, True, c, 5), F.max_pool2d(x, k, s, p, 1, True))], (img,), FLOATS),
    "segments": (lambda x, n, o: [torch.segment_reduce(x, r, axis=a, initial=i, **({"lengths": n[:a + 1].squeeze(0) if a == 0 else n} if k else {"offsets": o[0] if a == 0 else o})) for r in ("sum", "mean", "prod", "max", "min") for i in (None, 2) for a in (0, 1) for k in (True, False)], (t(5, 5, 3), lambda d: torch.tensor([[2, 0, 3]] * 5), lambda d: torch.tensor([[0, 2, 2, 5]] * 5)), F32 + (torch.float64,)),
    "index_apart": (lambda x, i, j: (x[i, :, j], x[i[:, None], :, j], aten.index_put(x, [i[:1], None, j[:1]], x[0, :, 0] * 2), aten.index_put(x, [i, None, j], x[0, 0, 0], True)), (t(4, 5, 6), idx(3), idx(3)), F32 + (torch.int64,)),
    "triangular": (lambda a, b: [torch.linalg.solve_triangular(a, b, upper=u, unitriangular=v) for u in (True, False) for v in (True, False)] + [torch.linalg.solve_triangular(a[0], b.mT, upper=u, left=False) for u in (True, False)]
                   + [torch.linalg.solve_triangular(a, b.to(t), upper=True) for t in (torch.bfloat16, torch.float64)]
                   + [y for u in (True, False) for h in (True, False) for y in torch.triangular_solve(b[0], a, u, h, u)], (lambda d: make((2, 4, 4), d, 1, 2), t(2, 4, 3)), F32 + (torch.float64,)),
    "determinants": (lambda a, b: [f(x) for x in (a, a[0], a.mT, a[:, :1, :1], a[:, :0, :0], b, torch.zeros_like(b), b.new_tensor([[0.0, 2.0], [3.0, 0.0]])) for f in (torch.linalg.det, lambda x: tuple(torch.linalg.slogdet(x)), torch.logdet)], (t(3, 5, 5), t(2, 3, 3)), F32 + (torch.float64,)),
    "lu_unpack": (lambda a, p, b, q: [*torch.lu_unpack(a, p), *torch.lu_unpack(b, q), *torch.lu_unpack(b.mT.contiguous(), q.clamp(max=3)), torch.lu_unpack(a, p, unpack_pivots=False)[2], torch.lu_unpack(a, p, unpack_data=False)[0]], (t(2, 4, 4), lambda d: torch.tensor([[2, 4, 3, 4], [1, 2, 3, 4]], dtype=torch.int32), t(5, 3), lambda d: torch.tensor([5, 2, 5], dtype=torch.int32)), F32 + (torch.float64,)),
    "segments_of_numbers": (lambda x, n, o: [torch.segment_reduce(x, r, initial=i, **k) for r in ("sum", "mean", "prod", "max", "min") for i in (None, 2) for k in ({"lengths": n}, {"offsets": o})], (t(5), lambda d: torch.tensor([2, 0, 3]), lambda d: torch.tensor([0, 2, 2, 5])), F32 + (torch.float64,)),
    "grid_sample": (lambda x, g: [F.grid_sample(x, g, m, p, c) for m in ("bilinear", "nearest", "bicubic") for p in ("zeros", "border", "reflection") for c in (True, False)], (img, coordinates(2, 5, 4, 2)), F32 + (torch.float64,)),
    "grid_sample_3d": (lambda x, g: [F.grid_sample(x, g, m, p, c) for m in ("bilinear", "nearest") for p in ("zeros", "border", "reflection") for c in (True, False)], (t(2, 3, 4, 5, 6), coordinates(2, 2, 4, 3, 3)), F32 + (torch.float64,)),
    "embedding_bag": (lambda w, i, o, p: [F.embedding_bag(i, w, o, mode=m, padding_idx=k) for m in ("sum", "mean") for k in (None, 2)] + [F.embedding_bag(i.view(2, 3), w, mode=m, padding_idx=k) for m in ("sum", "mean") for k in (None, 2)]
                      + [F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p), F.embedding_bag(i.int(), w, o.int()), aten._embedding_bag(w, i, o)[0]], (t(4, 6), pos(6), lambda d: torch.tensor([0, 2, 2, 5]), t(6)), FLOATS),
    "histogram": (lambda x, w, b: (*torch.histogram(x, 7), *torch.histogram(x, 4, range=(-2.0, 3.0), weight=w, density=True), *torch.histogram(x, b), *torch.histogram(x[0, 0], 3), *torch.histogram(x.round(), 8, range=(-4, 4)), torch.histogramdd(x, (2, 3, 1, 2, 4))[0],
                                   *torch.histogramdd(x, (2, 3, 1, 2, 4), range=[-2.0, 2.0] * 5, density=True)[1]), (X, lambda d: make((3, 5), d, 0, 4), lambda d: make((6,), d).sort()[0]), F32 + (torch.float64,)),
    "linear_cross_entropy": (lambda x, w, y, b, c: [F.linear_cross_entropy(x, w, y, linear_bias=b, weight=k, reduction=r, ignore_index=i, options=CHUNKS) for r in ("mean", "sum", "none") for i in (-100, 2) for k in (None, c)], (t(9, 5), t(4, 5), lambda d: torch.tensor([0, 3, 2, -100, 1, 2, 3, 0, 1]).clamp(min=0), t(4), lambda d: make((4,), d, 0.5, 4)), F32 + (torch.float64,)),
}
LOOSE = {torch.float32: dict(rtol=2e-5, atol=2e-5), torch.float64: dict(rtol=1e-7, atol=1e-7), torch.bfloat16: dict(rtol=3e-2, atol=3e-2),
         torch.float16: dict(rtol=4e-3, atol=4e-3)}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    f, makers, dtypes = CASES[name]
    together(f, [[m(dtype) for m in makers] for dtype in dtypes], each=[LOOSE.get(dtype, {}) for dtype in dtypes])


@pytest.mark.parametrize("name", "conv2d conv_groups max_pool avg_pool adaptive_pool group_norm batch_norm activations softmax pad "
                                 "max_pool_indices adaptive_max_pool max_pool_gradients prelu group_norm_results".split())
def test_channels_last(name):
    f, makers, _ = CASES[name]
    args = [m(torch.float32) for m in makers]
    args = [a.contiguous(memory_format=torch.channels_last) if a.dim() == 4 else a for a in args]
    compare(f, args, **LOOSE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layer_norm_gradients_of_16_bits(dtype):
    """Compares with float64, because eager sums rows in fewer bits."""
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


def test_places_of_the_largest():
    """The index is that of the last NaN of a window, else of the first largest element, and never of the padding."""
    x = torch.randint(0, 3, (2, 3, 7, 8)).float()
    x[0, 0, 1, 2] = x[0, 0, 1, 3] = x[0, 1, 0, 0] = x[1, 0, 6, 7] = math.nan
    x[1, 1, :3] = -math.inf
    compare(lambda x: (*F.max_pool2d(x, 3, 2, 1, return_indices=True), *F.adaptive_max_pool2d(x, (4, 5), return_indices=True),
                       *F.adaptive_max_pool2d(x, 1, return_indices=True)), [x], exact=True)


def test_signs_of_zeros():
    """Between x and a number that are zeros of different sign, relu and clamp return x. Between two tensors eager has no fixed rule."""
    x = torch.tensor([-0.0, 0.0, -0.0, 1.0, -1.0])
    signs = lambda *y: [torch.copysign(torch.ones_like(v), v) for v in y]
    compare(lambda x: signs(x.relu(), x.clamp(min=0), x.clamp(max=0), x.clamp_min(0), x.clamp_max(-0.0), x.clamp(0, 1), F.relu6(x)), [x],
            exact=True)


def test_integer_division_signs():
    a, b = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
    compare(lambda a, b: (a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc"), a / b), [a, b], exact=True)


def test_orders_of_nan_and_zeros():
    """NaN is the largest; 0 and -0 are equal and keep their signs, which 1/x shows."""
    x = torch.tensor([0.0, math.nan, -0.0, 1.0, math.nan, -0.0, -math.inf, math.inf, 0.0]).repeat(40)
    for x in (x, x[:9].clone(), x[:9].double(), x[:9].bfloat16(), x[:9].half()):
        compare(lambda x: (*x.sort(stable=True), *x.sort(descending=True, stable=True), 1 / x.sort(stable=True)[0], x.topk(3)[0], x.median(),
                           x.nanmedian(), *x.median(0), x.kthvalue(4)[0]), [x], exact=True)
        compare(lambda x: (*x.cummax(0), *x.cummin(0), 1 / x.cummax(0)[0], x.cumprod(0)), [x], exact=True)
        for right in (False, True):
            compare(lambda x: torch.searchsorted(x.sort()[0], x, right=right), [x], exact=True)


def test_counts_within_what_is_not_finite():
    x = torch.tensor([1.0, math.nan])
    for f in (torch.histc, torch.compile(torch.histc, backend="tenon")):
        with pytest.raises(RuntimeError, match="not finite"):
            f(x)


@pytest.mark.parametrize("n", [63, 64, 65, 500, 5000])
def test_orders_of_long_rows(n):
    for dtype in (torch.float32, torch.float64, torch.int16, torch.int64, torch.bfloat16):
        x = make((3, n), dtype, -100, 100)
        compare(lambda x: (*x.sort(stable=True), *x.t().sort(dim=0, descending=True, stable=True), x.topk(10)[0], x.kthvalue(n // 2)[0],
                           x.median(1)[0], x.mode()[0]), [x], exact=True)


def test_orders_of_symbolic_sizes():
    f = torch.compile(lambda x, k: (*x.sort(0), x.topk(k.shape[0])[0], x.kthvalue(x.shape[1] - 1)[0], x.median(), *x.median(1),
                                    torch.searchsorted(x.sort()[0], x), *x.cummax(1)), backend="tenon", dynamic=True)
    tenon.reset_stats()
    for n, m, k in ((5, 7, 3), (6, 200, 4), (70, 9, 9)):
        x, k = torch.randn(n, m), torch.empty(k)
        with torch.no_grad():
            got = f(x, k)
        want = (*x.sort(0), x.topk(k.shape[0])[0], x.kthvalue(m - 1)[0], x.median(), *x.median(1), torch.searchsorted(x.sort()[0], x),
                *x.cummax(1))
        for g, w in zip(got, want):
            torch.testing.assert_close(g, w, rtol=0, atol=0)
    assert tenon.stats()["fallback_reasons"] == {}


@pytest.mark.parametrize("f", [lambda b: b.topk(1), lambda b: b.kthvalue(1), lambda b: b.median(), lambda b: torch.searchsorted(b, b),
                               lambda b: b.repeat(3000).float().cummax(0)[1],
                               lambda b: b.half().histc(3)])
def test_orders_left_to_pytorch(f):
    b = torch.tensor([True, False, True])
    try:
        want = f(b)
    except RuntimeError as e:
        with pytest.raises(RuntimeError, match=str(e).split(" ")[0]):
            torch.compile(f, backend="tenon")(b)
    else:
        compare(f, [b], native=False, exact=True)
        assert want is not None and tenon.stats()["fallback_reasons"]


class Lowered(BaseException):
    """Ends a compilation in place of a program, which a test of what is lowered does not need."""


def test_every_row_is_covered(monkeypatch):
    """Lowering a case marks its rows. A row that no case marks is untested."""
    from tenon.torch.lowering import node

    seen, original = set(), node.lower_node

    def spy(n, values, *others):
        result = original(n, values, *others)
        seen.add(str(n.target))
        return result

    def lowered(*_):
        raise Lowered

    def draw(x):  # tests/torch/test_random.py looks at the numbers
        in_place = ("uniform_", ()), ("normal_", ()), ("log_normal_", ()), ("exponential_", ()), ("cauchy_", ()), ("geometric_", (0.5,))
        return (torch.bernoulli(x, 0.5), torch.bernoulli(x), x.clone().bernoulli_(x), torch.randint(9, (3,)), torch.randint(1, 9, (3,)),
                torch.randint_like(x, 9), torch.randint_like(x, 1, 9), F.rrelu(x, training=True), torch.rand(3, 5), torch.rand_like(x), torch.randn(3), torch.randn_like(x), torch.normal(0.0, 1.0, (3,)),
                torch.normal(x, 1.0), torch.normal(0.0, x), torch.normal(x, x), *[getattr(x.clone(), name)(*given) for name, given in in_place])

    monkeypatch.setattr(node, "lower_node", spy)
    monkeypatch.setattr(_abi.Program, "__init__", lowered)
    calls = [joined(f, [[m(dtype) for m in makers] for dtype in dict.fromkeys((dtypes[0], dtypes[-1]))]) for f, makers, dtypes in CASES.values()]
    for f, args in [*calls, (draw, [torch.zeros(3, 5)])]:
        with pytest.raises(Lowered):
            direct.call(f, args, rng="fast")
    families = set(UNARY) | set(BINARY) | set("abs floor ceil trunc round sign relu neg square bitwise_not isnan isinf isfinite "
                                              "logical_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __lshift__ __rshift__".split())
    on_gpus = {f"aten._scaled_dot_product_{kind}_attention.default" for kind in ("flash", "efficient", "cudnn")}  # test_cuda.py
    elsewhere = {"transformers.grouped_mm_fallback.default", "transformers.grouped_mm_fallback_backward.default"}  # test_products.py
    elsewhere |= {name for name in ops.TABLE if name.startswith("tenon.")}  # test_recurrent.py
    missing = {name for name in ops.TABLE if name not in seen | on_gpus | elsewhere and name.split(".")[1] not in families
               and hasattr(getattr(torch.ops, name.split(".")[0]), name.split(".")[1])
               and name.split(".")[2] in getattr(getattr(torch.ops, name.split(".")[0]), name.split(".")[1]).overloads()}
    assert not missing, "rows of bindings/python/tenon/torch/ops/ without a case in this file: " + " ".join(sorted(missing))


@torch.no_grad()
def test_a_window_longer_than_the_image(library):
    """The image is not padded to the size of the window."""
    x = torch.randn(2, 3, 7, 9)
    for pool in (lambda x: F.avg_pool2d(x, 1280, ceil_mode=True), lambda x: F.avg_pool2d(x, (1280, 2), ceil_mode=True),
                 lambda x: F.avg_pool2d(x, 1280, ceil_mode=True, count_include_pad=False, divisor_override=5)):
        torch.testing.assert_close(direct.call(pool, (x,)), pool(x))
        assert "1280" not in library.texts[-1]


@torch.no_grad()
def test_averages_rounded_up_without_padding_leave_out_what_is_behind_the_image(library):
    """oneDNN computes them then: it cannot count the part of a window behind the padding."""
    x = torch.randn(2, 3, 7, 9)
    pool = lambda x: F.avg_pool2d(x, 2, ceil_mode=True)
    torch.testing.assert_close(direct.call(pool, (x,)), pool(x))
    assert "avg_pool(" in library.texts[-1] and "count_include_pad=true" not in library.texts[-1]


rounds_once = pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="PyTorch's kernel for plain x86-64 rounds twice")
wide_floats = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@rounds_once
@wide_floats
def test_linspace_has_the_bits_of_eager_mode(dtype):
    ends, counts = ((0, 1), (0, 255), (-1, 1), (0.1, 7.3), (3, -2.5), (-7, 1e6)), (1, 2, 3, 8, 15, 16, 31, 33, 64, 100, 255, 256, 1000)

    def f(x):
        return [torch.linspace(a, b, n, dtype=dtype) * x for a, b in ends for n in counts]

    x = torch.ones((), dtype=dtype)
    for got, want in zip(torch.compile(f, backend="tenon")(x), f(x)):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@rounds_once
@wide_floats
def test_linspace_between_tensors_with_symbolic_steps(dtype):
    f = lambda x, a, b: [torch.linspace(c, d, len(x), dtype=dtype) for c, d in ((a, b), (a, 3), (-0.7, b), (-2, 0.3))]
    call, a, b = torch.compile(f, backend="tenon", dynamic=True), torch.tensor(-1.3), torch.tensor(7.1)
    for n in (2, 3, 8, 37, 1001, 1):
        for got, want in zip(call(torch.empty(n), a, b), f(torch.empty(n), a, b)):
            torch.testing.assert_close(got, want, rtol=0, atol=0)


@rounds_once
@wide_floats
def test_edges_of_bins_have_the_bits_of_eager_mode(dtype):
    f = lambda x: [torch.histogram(x, 7), torch.histogram(x, 100), torch.histogram(x, 37, range=(-1.3, 2.9))]
    x = torch.randn(1000, dtype=dtype)
    for got, want in zip(torch.compile(f, backend="tenon")(x), f(x)):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_numbers_that_vmap_copies():
    """In nested vmaps a number becomes an operand of _to_copy."""
    vmap = torch.func.vmap
    f = lambda a, b: vmap(lambda x: vmap(lambda y: torch.dot(x, y) / (x.norm() + 1e-6))(b))(a)
    a, b = torch.randn(4, 6), torch.randn(3, 6)
    tenon.reset_stats()
    torch.testing.assert_close(torch.compile(f, backend="tenon")(a, b), f(a, b))
    assert not tenon.stats()["fallback_reasons"], tenon.stats()["fallback_reasons"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_deterministic_algorithms_fill_what_is_not_written(dtype):
    def made(x):
        return torch.empty(3, dtype=dtype), x.new_empty(2), torch.empty_like(x), torch.empty_strided((2, 2), (1, 2), dtype=dtype), x + x

    x = torch.ones(4, dtype=dtype)
    torch.use_deterministic_algorithms(True)
    try:
        got, want = torch.compile(made, backend="tenon")(x), made(x)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)
    assert tenon.stats()["fallback_reasons"] == {}

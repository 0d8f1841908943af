"""Rows of maps, activations, reductions and casts. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ...graph_text import FLOATS, HALVES, Unsupported, Value
from ..lowering import sizes
from ..lowering.emitter import CPU, Promotion
from ..lowering.operand import Operand
from .row import row


# --- map: unary -------------------------------------------------------------------------------------------------------
def _unary(names, kind):
    for name in names.split():
        head, _, target = name.partition(":")
        row(target or head)(lambda e, x, head=head: e.map(head, *e.promote(kind, x)))


_unary("exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh "
       "sqrt rsqrt reciprocal erfc:special_erfc expm1:special_expm1 exp2:special_exp2 sigmoid:special_expit",
       Promotion.INT_TO_FLOAT)
_unary("neg square bit_not:bitwise_not", Promotion.DEFAULT)


@row("abs", "floor", "ceil", "trunc", "round", "sign", "relu")
def _(e, x):
    head = e.target._opname
    if x.dtype == "bool" or (x.dtype not in FLOATS and head in ("floor", "ceil", "trunc", "round")):
        return x
    if head == "relu" and x.dtype not in FLOATS:
        return e.map("maximum", e.scalar_like(x, 0), x)
    return e.map(head, x)


@row("isnan", "isinf", "isfinite")
def _(e, x):
    head = e.target._opname
    return e.map(head, x) if x.dtype in FLOATS else e.full(head == "isfinite", "bool", x.shape)


@row("isposinf", "isneginf")
def _(e, x):
    if x.dtype not in FLOATS:
        return e.full(False, "bool", x.shape)
    return e.map("eq", x, e.scalar_like(x, math.inf if e.target._opname == "isposinf" else -math.inf))


@row("logical_not")
def _(e, x):
    return e.map("logical_not", x)


# --- map: binary ------------------------------------------------------------------------------------------------------
def _binary(names, kind, overloads):
    for name in names.split():
        head, _, target = name.partition(":")
        for overload in overloads.split():
            row(f"{target or head}.{overload}")(lambda e, a, b, head=head: e.map(head, *e.promote(kind, a, b)))


_TENSORS = "default Tensor"
_ANY = "default Tensor Scalar Scalar_Tensor Tensor_Scalar"
_binary("eq ne lt le gt ge", Promotion.DEFAULT, "Tensor Scalar")
_binary("logical_and logical_or logical_xor", Promotion.DEFAULT, "default")
_binary("bit_and:bitwise_and bit_or:bitwise_or bit_xor:bitwise_xor shift_left:bitwise_left_shift "
        "shift_right:bitwise_right_shift", Promotion.DEFAULT, _ANY)
_binary("shift_left:__lshift__ shift_right:__rshift__", Promotion.DEFAULT, "Tensor Scalar")
_binary("atan2", Promotion.INT_TO_FLOAT, "default")
_binary("fmod remainder", Promotion.DEFAULT, _ANY)


@row(*(f"floor_divide.{overload}" for overload in _ANY.split()))
def _(e, a, b):
    return e.map("floor_div", *e.promote(Promotion.DEFAULT, a, b, exact=True))


@row("maximum", "minimum")
def _(e, a, b):
    return _chosen(e, e.target._opname, *e.promote(Promotion.DEFAULT, a, b))


def _chosen(e, head, a, b):
    """maximum or minimum; of bool, logical_or or logical_and."""
    if a.dtype == "bool":
        head = {"maximum": "logical_or", "minimum": "logical_and"}[head]
    return e.map(head, a, b)


@row("fmax", "fmin")
def _(e, a, b):
    a, b = e.promote(Promotion.DEFAULT, a, b)
    result = _chosen(e, "maximum" if e.target._opname == "fmax" else "minimum", a, b)
    if a.dtype not in FLOATS:
        return result
    result = e.map("where", e.map("isnan", b), a, result)
    return e.map("where", e.map("isnan", a), b, result)


@row("prims.fma")
def _(e, a, b, c):
    """Dynamo decomposes addcmul_ and addcdiv_ of optimizers into fma."""
    return e.map("fma", *e.promote(Promotion.DEFAULT, a, b, c))


def number_is(x, value):
    """Whether x is this number. False for a symbolic size, even if it may have this value."""
    return isinstance(x, (int, float)) and x == value


def scaled(e, v, alpha):
    if number_is(alpha, 1):
        return v
    factor = alpha if isinstance(alpha, Value) else e.scalar_like(v, alpha)
    return e.map("logical_and" if v.dtype == "bool" else "mul", v, factor)


def _with_alpha(e, a, b, alpha):
    """The operands of a + alpha * b, and alpha. If alpha is not 1, 16-bit floats become f32, because PyTorch multiplies by alpha in f32.
    On a CPU, PyTorch first rounds numbers and alpha to 16 bits."""
    exact = e.device != CPU
    a, b = e.promote(Promotion.DEFAULT, a, b, exact=exact)
    if number_is(alpha, 1):
        return a, b, alpha
    if a.dtype in HALVES and not exact:
        alpha = e.full(alpha, a.dtype)
    return e.wide(a), e.wide(b), e.wide(alpha) if isinstance(alpha, Value) else alpha


@row("add.Tensor", "add.Scalar")
def _(e, a, b, alpha=1):
    a, b, alpha = _with_alpha(e, a, b, alpha)
    return e.map("logical_or" if a.dtype == "bool" else "add", a, scaled(e, b, alpha))


@row("sub.Tensor", "sub.Scalar")
def _(e, a, b, alpha=1):
    a, b, alpha = _with_alpha(e, a, b, alpha)
    return e.map("sub", a, scaled(e, b, alpha))


@row("rsub.Tensor", "rsub.Scalar")
def _(e, a, b, alpha=1):
    a, b, alpha = _with_alpha(e, a, b, alpha)
    return e.map("sub", b, scaled(e, a, alpha))


@row("mul.Tensor", "mul.Scalar")
def _(e, a, b):
    a, b = e.promote(Promotion.DEFAULT, a, b, exact=True)
    return e.map("logical_and" if a.dtype == "bool" else "mul", a, b)


@row("div.Tensor", "div.Scalar", "true_divide.Tensor")
def _(e, a, b):
    return e.map("div", *e.promote(Promotion.INT_TO_FLOAT, a, b, exact=True))


@row("div.Tensor_mode", "div.Scalar_mode")
def _(e, a, b, rounding_mode=None):
    kind = Promotion.INT_TO_FLOAT if rounding_mode is None else Promotion.DEFAULT
    return e.map({None: "div", "floor": "floor_div", "trunc": "trunc_div"}[rounding_mode],
                 *e.promote(kind, a, b, exact=True))


@row("pow.Tensor_Tensor", "pow.Scalar", "pow.Tensor_Scalar")
def _(e, a, b):
    x, y = e.promote(Promotion.BOOL_TO_LONG, a, b)
    if isinstance(b, (int, float)):
        if x.dtype not in FLOATS and b < 0:
            raise Unsupported("an integer to a negative power")
        powers = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}  # as PyTorch computes them
        if b in powers and (x.dtype in FLOATS or b == 2):
            return e.map(powers[b], x)
        if b == 3:
            return e.map("mul", e.map("square", x), x)
        if b == -2:
            return e.map("reciprocal", e.map("square", x))
    if x.dtype not in FLOATS and isinstance(b, sizes.sympy.Expr) and not sizes.at_least(b, 0):
        raise Unsupported("an integer to a power that may be negative")
    return e.map("pow", x, y)


@row("where.self")
def _(e, condition, a, b):
    return e.map("where", e.cast(condition, "bool"), *_same_dtype(e, a, b))


def _same_dtype(e, *operands):
    return [e.cast(v, e.dtype) if isinstance(v, Value) else e.full(v, e.dtype) for v in operands]


@row("masked_fill.Scalar", "masked_fill.Tensor")
def _(e, x, mask, value):
    value, x = _same_dtype(e, value, x)
    return e.map("where", mask, value, x)


@row("clamp", "clamp.Tensor")
def _(e, x, min=None, max=None):
    given = [b for b in (min, max) if b is not None]
    if any(isinstance(b, float) and math.isnan(b) for b in given):
        return e.full(math.nan, e.dtype, x.shape)
    if len(given) == 1:
        return _bounded(e, "maximum" if max is None else "minimum", x, *given)
    return e.map("clamp", *e.promote(Promotion.DEFAULT, x, *given))


@row("clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor")
def _(e, x, bound):
    return _bounded(e, "maximum" if e.target._opname == "clamp_min" else "minimum", x, bound)


def _bounded(e, head, x, bound):
    """maximum or minimum of x and a bound. Of two zeros with different signs Tenon takes the second operand; PyTorch takes x if the
    bound is a number."""
    number = not isinstance(bound, Value)
    x, bound = e.promote(Promotion.DEFAULT, x, bound)
    return e.map(head, bound, x) if number else e.map(head, x, bound)


# --- composite activations --------------------------------------------------------------------------------------------
def _activation(e, head, x, **attrs):
    if x.dtype not in FLOATS:
        raise Unsupported(f"{head} of integers")
    return e.op(head, [x], x.dtype, x.shape, **attrs)


@row("gelu")
def _(e, x, approximate="none"):
    return _activation(e, "gelu", x, approximate=approximate)


@row("silu", "mish", "hardswish", "hardsigmoid")
def _(e, x):
    return _activation(e, e.target._opname, x)


@row("leaky_relu")
def _(e, x, negative_slope=0.01):
    return _activation(e, "leaky_relu", x, slope=float(negative_slope))


@row("_prelu_kernel")
def _(e, x, weight):
    return e.map("where", e.map("gt", x, e.scalar_like(x, 0.0)), x, e.map("mul", weight, x))


@row("elu")
def _(e, x, alpha=1, scale=1, input_scale=1):
    if scale == 1 and input_scale == 1:
        return _activation(e, "elu", x, alpha=float(alpha))
    y = e.wide(x)
    zero, constant = e.scalar_like(y, 0.0), lambda c: e.scalar_like(y, float(c))
    low = e.map("mul", e.map("expm1", e.map("mul", y, constant(input_scale))), constant(alpha * scale))
    return e.map("where", e.map("gt", y, zero), e.map("mul", y, constant(scale)), low)


@row("softplus")
def _(e, x, beta=1, threshold=20):
    return _activation(e, "softplus", x, beta=float(beta), threshold=float(threshold))


@row("hardtanh")
def _(e, x, min_val=-1, max_val=1):
    if x.dtype not in FLOATS:
        return e.map("clamp", x, e.scalar_like(x, min_val), e.scalar_like(x, max_val))
    return _activation(e, "hardtanh", x, low=float(min_val), high=float(max_val))


@row("_softmax", "_log_softmax", "_safe_softmax")
def _(e, x, dim, half_to_float=False):
    x = e.cast(x, e.dtype)
    if x.rank == 0:
        x = e.reshape(x, [1])
        return e.reshape(e.op("log_softmax" if "log" in e.target._opname else "softmax", [x], x.dtype, [1], axis=0), [])
    axis = dim % x.rank
    y = e.op("log_softmax" if "log" in e.target._opname else "softmax", [x], x.dtype, x.shape, axis=axis)
    if e.target._opname == "_safe_softmax":
        lowest = e.map("eq", x, e.scalar_like(x, -math.inf))
        y = e.map("where", e.reduce("all", lowest, [axis], True), e.scalar_like(y, 0.0), y)
    return y


@row("logsumexp")
def _(e, x, dim, keepdim=False):
    return e.reduce("logsumexp", e.cast(x, e.dtype), dim, keepdim)


# --- reduce -----------------------------------------------------------------------------------------------------------
def axes_of(dim):
    return dim if isinstance(dim, (list, tuple)) or dim is None else [dim]


@row("sum", "sum.dim_IntList", "prod", "prod.dim_int")
def _(e, x, dim=None, keepdim=False, dtype=None):
    return e.reduce(e.target._opname, e.cast(x, e.dtype), axes_of(dim), keepdim)


@row("nansum")
def _(e, x, dim=None, keepdim=False, dtype=None):
    v = e.cast(x, e.dtype)
    if x.dtype in FLOATS:
        v = e.map("where", e.map("isnan", x), e.scalar_like(v, 0), v)
    return e.reduce("sum", v, axes_of(dim), keepdim)


@row("mean", "mean.dim")
def _(e, x, dim=None, keepdim=False, dtype=None):
    return e.reduce("mean", e.cast(x, e.dtype), axes_of(dim), keepdim)


@row("amax", "amin")
def _(e, x, dim=(), keepdim=False):
    return _extreme(e, "max" if e.target._opname == "amax" else "min", x, dim, keepdim)


@row("max", "min")
def _(e, x):
    return _extreme(e, e.target._opname, x, None, False)


def _extreme(e, head, x, dim, keepdim):
    if x.dtype == "bool":
        head = "any" if head == "max" else "all"
    return e.reduce(head, x, dim, keepdim)


@row("max.dim", "min.dim")
def _(e, x, dim, keepdim=False):
    head = e.target._opname
    values = _extreme(e, head, x, [dim], keepdim) if e.used(0) else None
    indices = _arg(e, "arg" + head, x, dim, keepdim) if e.used(1) else None
    return values, indices


@row("argmax", "argmin")
def _(e, x, dim=None, keepdim=False):
    head = e.target._opname
    if x.dtype == "bool":
        raise Unsupported(f"{head} of bools")  # PyTorch raises its error
    if dim is None:
        y = _arg(e, head, e.reshape(x, [sizes.product(x.shape)]), 0, False)
        return e.reshape(y, [1] * x.rank) if keepdim else y
    return _arg(e, head, x, dim, keepdim)


def _arg(e, head, x, dim, keepdim):
    if x.rank == 0:
        return e.full(0, "i64")
    if x.dtype == "bool":
        x = e.cast(x, "u8")
    axis = dim % x.rank
    shape = [1 if i == axis else n for i, n in enumerate(x.shape) if keepdim or i != axis]
    return e.op(head, [x], "i64", shape, axis=axis, keepdims=bool(keepdim))


@row("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def _(e, x, dim=None, keepdim=False):
    return e.reduce(e.target._opname, x, axes_of(dim), keepdim)


def _variance(e, x, dim, correction, keepdim):
    return e.reduce("var", x, axes_of(dim), keepdim, correction=1.0 if correction is None else float(correction))


@row("var.correction", "std.correction")
def _(e, x, dim=None, correction=None, keepdim=False):
    if e.target._opname == "std":
        return e.map("sqrt", _variance(e, e.wide(x), dim, correction, keepdim))
    return _variance(e, x, dim, correction, keepdim)


@row("var_mean.correction")
def _(e, x, dim=None, correction=None, keepdim=False):
    return _variance(e, x, dim, correction, keepdim), e.reduce("mean", x, axes_of(dim), keepdim)


@row("linalg_vector_norm")
def vector_norm(e, x, ord=2, dim=None, keepdim=False, dtype=None):
    return norm(e, e.cast(x, "f32" if e.dtype in HALVES else e.dtype), ord, dim, keepdim)


def norm(e, v, p, axes, keepdim):
    """The p-norm of v, of f32 or f64, over axes (None or []: all)."""
    if p == 2:
        return e.map("sqrt", e.reduce("sum", e.map("square", v), axes, keepdim))
    if p == 0:
        return e.reduce("sum", e.cast(e.map("ne", v, e.scalar_like(v, 0.0)), v.dtype), axes, keepdim)
    v = e.map("abs", v)
    if p == 1:
        return e.reduce("sum", v, axes, keepdim)
    if p in (math.inf, -math.inf):
        return e.reduce("max" if p > 0 else "min", v, axes, keepdim)
    total = e.reduce("sum", e.map("pow", v, e.scalar_like(v, float(p))), axes, keepdim)
    return e.map("pow", total, e.scalar_like(v, 1.0 / p))


@row("cumsum")
def _(e, x, dim, dtype=None):
    x = e.cast(x, e.dtype)
    return x if x.rank == 0 else e.scan("cumsum", x, dim % x.rank)


# --- same values ------------------------------------------------------------------------------------------------------
@row("threshold")
def _(e, x, threshold, value):
    """PyTorch compares 16-bit floats with the threshold in f32."""
    threshold, value = (n if x.dtype in FLOATS else int(n) for n in (threshold, value))
    wide = e.wide(x)
    return e.map("where", e.map("le", wide, e.scalar_like(wide, threshold)), e.scalar_like(x, value), x)


@row("clone", "lift_fresh_copy")
def _(e, x, memory_format=None):
    return x


@row("alias", "detach", view=True)
def _(e, x):
    return x


@row("prims.copy_strided")
def _(e, x, stride):
    """The lowering stores a result with the strides that PyTorch gives it."""
    return x


@row("_to_copy")
def _(e, x, **_):
    return e.cast(x, e.dtype) if isinstance(x, Operand) else e.full(x, e.dtype)  # torch.func.vmap copies numbers


@row("prims.convert_element_type")
def _(e, x, dtype):
    return e.cast(x, e.dtype)


@row("copy")
def _(e, x, source, non_blocking=False):
    return e.expand(e.cast(source, e.dtype), e.shape)


# --- fake quantization -------------------------------------------------------------------------------------------------
_EXACT_STEPS = 2 ** 24  # integers up to here are exact in f32


def _fake_quantized(e, x, scale, zero_point, low, high, rounds_sum=False):
    """(x rounded to one of the steps `low` to `high`, of `scale` each; where x lies between them). scale and zero_point: f32, they
    broadcast to x. rounds_sum: whether zero_point may lie between steps. Computes in the order of PyTorch's kernel."""
    if x.dtype != "f32":
        raise Unsupported(f"fake quantization of {x.dtype}")
    if max(abs(low), abs(high)) > _EXACT_STEPS:
        raise Unsupported("fake quantization in more than 2^24 steps")
    number = e.map("mul", x, e.map("reciprocal", scale))
    number = e.map("round", e.map("add", number, zero_point)) if rounds_sum else e.map("add", e.map("round", number), zero_point)
    low, high = e.full(low, "f32"), e.full(high, "f32")
    reached, kept = e.map("ge", number, low), e.map("le", number, high)
    number_within = e.map("where", e.map("gt", number, high), high, e.map("where", reached, number, low))  # low for NaN
    return e.map("mul", e.map("sub", number_within, zero_point), scale), e.map("logical_and", reached, kept)


@row("fake_quantize_per_tensor_affine_cachemask")
def _(e, x, scale, zero_point, quant_min, quant_max):
    if not quant_min <= zero_point <= quant_max:
        raise Unsupported("a zero point that is not between the steps")  # PyTorch raises its error
    return _fake_quantized(e, x, e.full(scale, "f32"), e.full(zero_point, "f32"), quant_min, quant_max)


@row("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def _(e, x, scale, zero_point, enabled, quant_min, quant_max):
    scale, zero_point, enabled = (e.reshape(v, ()) for v in (scale, zero_point, enabled))
    quantized, inside = _fake_quantized(e, x, e.cast(scale, "f32"), e.cast(zero_point, "f32"), quant_min, quant_max)
    off = e.map("eq", enabled, e.full(0, enabled.dtype))
    return e.map("where", off, x, quantized), e.map("logical_or", off, inside)


@row("fake_quantize_per_channel_affine_cachemask")
def _(e, x, scale, zero_point, axis, quant_min, quant_max):
    across = [n if i == axis % x.rank else 1 for i, n in enumerate(x.shape)]
    rounds_sum = zero_point.dtype != "i32"
    scale, zero_point = (e.reshape(e.cast(v, "f32"), across) for v in (scale, zero_point))
    return _fake_quantized(e, x, scale, zero_point, quant_min, quant_max, rounds_sum)

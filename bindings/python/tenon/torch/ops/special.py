"""Rows of special functions, and of functions of a float's bits. A function that is an op of src/ops/rows/special.def takes one
line here; the others are composed of simpler ops. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ...graph_text import FLOATS, HALVES, Raw, Unsupported
from ..lowering.emitter import Promotion
from .row import row


# --- one op -----------------------------------------------------------------------------------------------------------
def _special(names, *overloads):
    """Adds a row for each name. names: `op`, or `op:overload` if ATen has another name for it."""
    for name in names.split():
        head, _, target = name.partition(":")
        for overload in overloads or ("default",):
            row(f"{target or head}.{overload}")(lambda e, *x, head=head: e.map(head, *e.promote(Promotion.INT_TO_FLOAT, *x)))


_special("lgamma digamma erfinv i0 ndtri:special_ndtri i0e:special_i0e i1:special_i1 i1e:special_i1e igamma igammac "
         "i0:special_modified_bessel_i0 i1:special_modified_bessel_i1 k0:special_modified_bessel_k0 "
         "k1:special_modified_bessel_k1 k0e:special_scaled_modified_bessel_k0 k1e:special_scaled_modified_bessel_k1")
_special("zeta:special_zeta", "default", "self_scalar", "other_scalar")
_POLYNOMIALS = {"chebyshev_polynomial_t": "chebyshev_t", "chebyshev_polynomial_u": "chebyshev_u", "chebyshev_polynomial_v": "chebyshev_v",
                "chebyshev_polynomial_w": "chebyshev_w", "hermite_polynomial_h": "hermite_h", "hermite_polynomial_he": "hermite_he",
                "laguerre_polynomial_l": "laguerre_l", "legendre_polynomial_p": "legendre_p"}
_MOST_UNROLLED = 6  # the largest degree for which PyTorch too uses only the recurrence


def _polynomial(e, head, x, n):
    """An orthogonal polynomial of degree n. If n is a small constant, writes the steps of the recurrence of
    src/ops/special/polynomial.cc as ops, which run in vectors."""
    x, degree = e.promote(Promotion.INT_TO_FLOAT, x, n)
    if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= _MOST_UNROLLED:
        return e.map(head, x, degree)
    number = lambda v: e.scalar_like(x, float(v))
    add, sub, mul = (lambda a, b, op=op: e.map(op, a, b) for op in ("add", "sub", "mul"))
    twice = add(x, x)
    first, step = {
        "chebyshev_t": (lambda: x, lambda k, last, before: sub(mul(twice, last), before)),
        "chebyshev_u": (lambda: twice, lambda k, last, before: sub(mul(twice, last), before)),
        "chebyshev_v": (lambda: sub(twice, number(1)), lambda k, last, before: sub(mul(twice, last), before)),
        "chebyshev_w": (lambda: add(twice, number(1)), lambda k, last, before: sub(mul(twice, last), before)),
        "hermite_h": (lambda: twice, lambda k, last, before: sub(mul(twice, last), mul(number(2 * k), before))),
        "hermite_he": (lambda: x, lambda k, last, before: sub(mul(x, last), mul(number(k), before))),
        "laguerre_l": (lambda: sub(number(1), x), lambda k, last, before: e.map(
            "div", sub(mul(add(number(2 * k), sub(number(1), x)), last), mul(number(k), before)), number(k + 1))),
        "legendre_p": (lambda: x, lambda k, last, before: e.map(
            "div", sub(mul(mul(number(2 * k + 1), x), last), mul(number(k), before)), number(k + 1)))}[head]
    before, last = e.full(1.0, x.dtype, x.shape), first()
    for k in range(1, n):
        before, last = last, step(k, last, before)
    return last if n > 0 else before


for _target, _head in _POLYNOMIALS.items():
    row(*(f"special_{_target}.{overload}" for overload in ("default", "x_scalar", "n_scalar")))(
        lambda e, x, n, head=_head: _polynomial(e, head, x, n))


@row("special_airy_ai")
def _(e, x):
    x, = e.promote(Promotion.INT_TO_FLOAT, x)
    if x.dtype == "f64":
        raise Unsupported("airy_ai of f64: PyTorch's result has seven correct digits and would differ")
    return e.map("airy_ai", x)


@row("prims.erfcx")
def _(e, x):
    return e.map("erfcx", x)


@row(*(f"special_shifted_chebyshev_polynomial_{kind}.{overload}" for kind in "tuvw" for overload in ("default", "x_scalar", "n_scalar")))
def _(e, x, n):
    x, degree = e.promote(Promotion.INT_TO_FLOAT, x, n)
    shifted = e.map("sub", e.map("add", x, x), e.scalar_like(x, 1.0))
    return e.map("chebyshev_" + e.target._opname[-1], shifted, degree)


@row("polygamma")
def _(e, n, x):
    x, = e.promote(Promotion.INT_TO_FLOAT, x)
    return e.map("digamma", x) if n == 0 else e.map("polygamma", e.scalar_like(x, float(n)), x)


@row("gcd", "lcm")
def _(e, a, b):
    return e.map(e.target._opname, *e.promote(Promotion.DEFAULT, a, b))


# --- in simpler ops ---------------------------------------------------------------------------------------------------
@row("logaddexp", "logaddexp2")
def _(e, a, b):
    a, b = map(e.wide, e.promote(Promotion.INT_TO_FLOAT, a, b))
    decay = e.map("neg", e.map("abs", e.map("sub", a, b)))
    if e.target._opname == "logaddexp":
        more = e.map("log1p", e.map("exp", decay))
    else:
        more = e.map("mul", e.map("log1p", e.map("exp2", decay)), e.scalar_like(a, 1 / math.log(2)))
    same = e.map("logical_and", e.map("isinf", a), e.map("eq", a, b))
    return e.map("where", same, a, e.map("add", e.map("maximum", a, b), more))


@row("hypot")
def _(e, a, b):
    """sqrt(a^2 + b^2) without overflow or underflow of the squares: f32 is computed in f64, and f64 is scaled by a power of two."""
    a, b = e.promote(Promotion.DEFAULT, a, b)
    if a.dtype not in FLOATS:
        raise Unsupported("hypot of integers")
    infinite = e.map("logical_or", e.map("isinf", a), e.map("isinf", b))
    x, y = e.map("abs", e.cast(a, "f64")), e.map("abs", e.cast(b, "f64"))
    number = lambda v: e.scalar_like(x, v)
    scale = None
    if a.dtype == "f64":
        largest = e.map("maximum", x, y)
        scale = e.map("where", e.map("gt", largest, number(2.0**500)), number(2.0**-600),
                      e.map("where", e.map("lt", largest, number(2.0**-500)), number(2.0**600), number(1.0)))
        x, y = e.map("mul", x, scale), e.map("mul", y, scale)
    length = e.map("sqrt", e.map("fma", x, x, e.map("square", y)))
    if scale is not None:
        length = e.map("div", length, scale)
    return e.map("where", infinite, number(math.inf), length)


@row("ldexp.Tensor")
def _(e, x, exponent):
    """x * pow(2.0, exponent). Both operations round as in PyTorch."""
    power = e.map("pow", *e.promote(Promotion.DEFAULT, 2.0, exponent))
    if exponent.dtype in HALVES:
        power = e.cast(power, exponent.dtype)
    return e.map("mul", e.cast(x, e.dtype), e.cast(power, e.dtype))


@row("round.decimals")
def _(e, x, decimals=0):
    if x.dtype not in FLOATS:
        raise Unsupported("round to decimals of integers")
    x = e.wide(x)
    power = e.scalar_like(x, 10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf)
    first, second = ("div", "mul") if decimals < 0 else ("mul", "div")
    return e.map(second, e.map("round", e.map(first, x, power)), power)


@row("special_spherical_bessel_j0")
def _(e, x):
    x, = e.promote(Promotion.INT_TO_FLOAT, x)
    square = e.map("square", x)
    series = e.scalar_like(x, 1 / math.factorial(13))
    for k in range(5, -1, -1):  # sin(x) / x in powers of x^2
        series = e.map("fma", series, square, e.scalar_like(x, (-1) ** k / math.factorial(2 * k + 1)))
    near = e.map("lt", e.map("abs", x), e.scalar_like(x, 0.5))
    y = e.map("where", near, series, e.map("div", e.map("sin", x), x))
    return e.map("where", e.map("isinf", x), e.scalar_like(x, 0.0), y)


@row("angle")
def _(e, x):
    negative = e.map("lt", x, e.scalar_like(x, 0)) if x.dtype != "bool" else e.full(False, "bool", x.shape)
    y = e.map("where", negative, e.full(math.pi, e.dtype), e.full(0.0, e.dtype))
    return e.map("where", e.map("isnan", x), x, y) if x.dtype in FLOATS else y


@row("sgn")
def _(e, x):
    return x if x.dtype == "bool" else e.map("sign", x)


# --- bits of floats ---------------------------------------------------------------------------------------------------
_MANTISSA = {"f32": 23, "f64": 52}
_DROPPED = {"bf16": 16, "f16": 13, "f32": 0, "f64": 0}  # mantissa bits that the dtype lacks of the dtype it is computed in


def bits_of(e, x):
    """The bits of f32 or f64 as integers of the same size."""
    kind = "i64" if x.dtype == "f64" else "i32"
    return e.op("bitcast", [x], kind, x.shape, dtype=Raw(kind))


def from_bits(e, bits):
    """The f32 or f64 that have these bits."""
    kind = "f64" if bits.dtype == "i64" else "f32"
    return e.op("bitcast", [bits], kind, bits.shape, dtype=Raw(kind))


def _sign_bit(bits):
    return -(1 << (63 if bits.dtype == "i64" else 31))


_BYTES = {"u8": 1, "i8": 1, "i16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}
_INTEGER_OF = {"bf16": "i16", "f32": "i32", "f64": "i64"}  # the integers with the bits of a float


def _reinterpreted(e, x, dtype):
    """The elements' bits in another dtype of the same size. Kernels hold 16-bit floats as f32, whose upper half has the bits of
    bf16."""
    pair = {x.dtype, dtype}
    if len(pair) == 1:
        return x
    if pair == {"bf16", "i16"}:
        half = e.full(16, "i32")
        if x.dtype == "bf16":
            return e.cast(e.map("shift_right", bits_of(e, e.cast(x, "f32")), half), "i16")
        return e.cast(from_bits(e, e.map("shift_left", e.cast(x, "i32"), half)), "bf16")
    if pair == {"i8", "u8"}:
        return e.cast(x, dtype)
    if pair not in ({"f32", "i32"}, {"f64", "i64"}):
        raise Unsupported(f"the bits of {x.dtype} as {dtype}")
    return e.op("bitcast", [x], dtype, x.shape, dtype=Raw(dtype))


def _part(e, x, number, bits):
    """Bits `bits` * number and up of integers, with the sign of the uppermost one."""
    width = 8 * _BYTES[x.dtype]
    x = e.map("shift_left", x, e.full(width - bits * (number + 1), x.dtype))
    return e.map("shift_right", x, e.full(width - bits, x.dtype))


@row("view.dtype")
def _(e, x, dtype):
    """The bits of the last axis as elements of another dtype. The lowest bits come first in memory."""
    if x.dtype not in _BYTES or e.dtype not in _BYTES or _BYTES[x.dtype] == _BYTES[e.dtype]:
        return _reinterpreted(e, x, e.dtype)
    x, to = _reinterpreted(e, x, _INTEGER_OF.get(x.dtype, x.dtype)), _INTEGER_OF.get(e.dtype, e.dtype)
    wide = "i64" if "i64" in (x.dtype, to) else "i32"  # shifts that lose no bits
    least, most = sorted((_BYTES[x.dtype], _BYTES[to]))
    bits, count = 8 * least, most // least
    if _BYTES[to] < most:
        x = e.reshape(e.cast(x, wide), (*x.shape, 1))
        y = e.cast(e.concat([_part(e, x, i, bits) for i in range(count)], x.rank - 1), "i8" if to == "u8" else to)
        return _reinterpreted(e, _reinterpreted(e, e.reshape(y, e.shape), to), e.dtype)
    parts = e.cast(e.reshape(x, (*e.shape, count)), wide)
    y = None
    for i in range(count):
        part = e.reshape(e.slice(parts, len(e.shape), i, i + 1), e.shape)
        if i < count - 1:
            part = e.map("bit_and", part, e.full((1 << bits) - 1, wide))
        part = e.map("shift_left", part, e.full(bits * i, wide))
        y = part if y is None else e.map("bit_or", y, part)
    return _reinterpreted(e, e.cast(y, to), e.dtype)


@row("signbit")
def _(e, x):
    if x.dtype == "bool":
        return e.full(False, "bool", x.shape)
    if x.dtype in FLOATS:
        x = bits_of(e, e.wide(x))
    return e.map("lt", x, e.scalar_like(x, 0))


def _with_sign(e, x, of):
    bits, sign = bits_of(e, x), bits_of(e, of)
    mask = e.scalar_like(bits, _sign_bit(bits))
    return from_bits(e, e.map("bit_or", e.map("bit_and", bits, e.map("bit_not", mask)), e.map("bit_and", sign, mask)))


@row("copysign.Tensor", "copysign.Scalar")
def _(e, x, sign):
    return _with_sign(e, *map(e.wide, e.promote(Promotion.INT_TO_FLOAT, x, sign)))


@row("nextafter")
def _(e, x, toward):
    x, toward = e.promote(Promotion.DEFAULT, x, toward)
    if x.dtype not in FLOATS:
        raise Unsupported("nextafter of integers")
    step = 1 << _DROPPED[x.dtype]
    a, b = e.wide(x), e.wide(toward)
    bits = bits_of(e, a)
    zero, one = e.scalar_like(a, 0.0), e.scalar_like(bits, step)
    away = e.map("eq", e.map("lt", a, b), e.map("gt", a, zero))
    moved = from_bits(e, e.map("where", away, e.map("add", bits, one), e.map("sub", bits, one)))
    if x.dtype == "f16":  # numbers below 2^-14 have a spacing of 2^-24, and the next number after 65504 is infinity
        size, edge, unit = e.map("abs", a), e.scalar_like(a, 2.0**-14), e.scalar_like(a, 2.0**-24)
        below = e.map("where", away, e.map("lt", size, edge), e.map("le", size, edge))
        near = e.map("where", e.map("lt", a, b), e.map("add", a, unit), e.map("sub", a, unit))
        moved = e.map("where", below, near, e.map("clamp", moved, e.scalar_like(a, -65536.0), e.scalar_like(a, 65536.0)))
        moved = e.map("where", e.map("isinf", a), _with_sign(e, e.scalar_like(a, 65504.0), a), moved)
        least = _with_sign(e, unit, b)
    else:
        least = _with_sign(e, from_bits(e, one), b)
    y = e.map("where", e.map("eq", a, zero), least, moved)
    y = e.map("where", e.map("eq", a, b), b, y)
    unordered = e.map("logical_or", e.map("isnan", a), e.map("isnan", b))
    return e.map("where", unordered, e.map("add", a, b), y)


@row("frexp.Tensor")
def _(e, x):
    if x.dtype not in FLOATS:
        raise Unsupported("frexp of integers")
    a = e.wide(x)
    mantissa = _MANTISSA[a.dtype]
    bias, lift = (1022, 64) if a.dtype == "f64" else (126, 64)
    size = e.map("abs", a)
    tiny = e.map("lt", size, e.scalar_like(a, 2.0**-bias))
    bits = bits_of(e, e.map("where", tiny, e.map("mul", a, e.scalar_like(a, 2.0**lift)), a))
    number = lambda v: e.scalar_like(bits, v)
    mask = (0x7FF if a.dtype == "f64" else 0xFF) << mantissa
    exponent = e.map("sub", e.map("shift_right", e.map("bit_and", bits, number(mask)), number(mantissa)), number(bias))
    exponent = e.map("where", tiny, e.map("sub", exponent, number(lift)), exponent)
    fraction = from_bits(e, e.map("bit_or", e.map("bit_and", bits, number(~mask)), number(bias << mantissa)))
    plain = e.map("logical_and", e.map("isfinite", a), e.map("ne", a, e.scalar_like(a, 0.0)))
    fraction = e.cast(e.map("where", plain, fraction, a), x.dtype)
    return fraction, e.cast(e.map("where", plain, exponent, number(0)), "i32")

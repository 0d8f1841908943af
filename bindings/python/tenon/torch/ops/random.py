"""Rows that draw random numbers, with options={"rng": "fast"}, and dropout. How rows are written: row.py.

A number of another distribution is a function of one uniform number, an f32 of 24 random bits. So tails are cut off: a normal
number is within 5.5 standard deviations.

Tested by tests/torch/test_random.py.
"""

import math

from ...graph_text import FLOATS, Unsupported, Value
from ..lowering import sizes
from .row import row

DRAWING = set()  # overloads that always draw; rng.draws decides about native_dropout


def draws(*names):
    def add(emit):
        @row(*names)
        def checked(e, *args, generator=None, **named):
            if generator is not None:
                raise Unsupported("random numbers from a generator argument")
            return emit(e, *args, **named)

        DRAWING.update(f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names)
        return emit

    return add


def _masked(e, x, mask, scale):
    """x * mask * scale, rounded once. NaN and infinities become NaN where the mask is 0."""
    v = e.wide(x)
    return e.cast(e.map("mul", e.map("mul", v, e.cast(mask, v.dtype)), e.scalar_like(v, scale)), x.dtype)


@row("native_dropout")
def _(e, x, p, train=None):
    if train is False:
        return x, e.full(True, "bool", x.shape) if e.used(1) else None
    if not 0 < p < 1:
        raise Unsupported("dropout with a probability of 0 or 1")
    kept = e.map("lt", e.uniform(x.shape), e.full(1 - p, "f32"))
    return _masked(e, x, kept, 1 / (1 - p)), kept


@row("native_dropout_backward")
def _(e, gradient, mask, scale):
    return _masked(e, gradient, mask, scale)


@row("tenon.dropout_mask")
def _(e, seeds, index, size, stride, p):
    e.seed = (seeds, index)
    return e.map("lt", e.uniform(size), e.full(p, "f32"))


@row("tenon.mask_of_bits")
def _(e, bits, size, stride):
    count = bits.shape[0]
    octets = e.expand(e.reshape(bits, [count, 1]), [count, 8])
    flat = e.reshape(e.map("bit_and", e.map("shift_right", octets, e.iota([8], "u8")), e.full(1, "u8")), [count * 8])
    return e.cast(e.reshape(e.slice(flat, 0, 0, sizes.product(sizes.sizes(size))), size), "bool")


# --- numbers ----------------------------------------------------------------------------------------------------------
def _number(e, x):
    return e.wide(x) if isinstance(x, Value) else e.full(float(x), "f32")


def _uniform(e):
    if e.dtype != "f32":
        raise Unsupported(f"random numbers of {e.dtype}")
    return e.uniform(e.shape)


def _inside(e):
    """Random numbers of (0, 1) as f32, for results of f32 or fewer bits."""
    if e.dtype not in FLOATS or e.dtype == "f64":
        raise Unsupported(f"random numbers of {e.dtype}")
    return e.map("minimum", e.map("add", e.uniform(e.shape), e.full(2.0**-25, "f32")), e.full(1 - 2.0**-24, "f32"))


def _scaled(e, x, scale, offset):
    return e.map("add", e.map("mul", x, _number(e, scale)), _number(e, offset))


@draws("bernoulli.p")
def _(e, x, p=0.5):
    return e.map("lt", e.uniform(e.shape), e.full(float(p), "f32"))


@draws("bernoulli", "bernoulli.Tensor")
def _(e, x, p=None):
    return e.map("lt", e.uniform(e.shape), e.cast(x if p is None else p, "f32"))


def _whole(e, low, high):
    """Random integers of [low, high). Their probabilities are equal up to a relative error of (high - low) / 2^32."""
    if not all(isinstance(n, int) for n in (low, high)) or not 0 < high - low <= 1 << 31:
        raise Unsupported("random integers of a range that is symbolic or larger than 2^31")
    part = e.map("mul", e.random_words(e.shape), e.full(high - low, "i64"))
    return e.map("add", e.map("shift_right", part, e.full(32, "i64")), e.full(low, "i64"))


@draws("randint", "randint.low")
def _(e, *bounds_and_size, **_):
    *low, high, _ = bounds_and_size
    return _whole(e, low[0] if low else 0, high)


@draws("randint_like", "randint_like.low_dtype")
def _(e, x, *bounds, **_):
    *low, high = bounds
    return _whole(e, low[0] if low else 0, high)


@draws("rrelu_with_noise_functional")
def _(e, x, noise, lower=0.125, upper=1 / 3, training=False):
    if not training:
        v = e.wide(x)
        slope = e.map("mul", v, e.scalar_like(v, (lower + upper) / 2))
        return e.cast(e.map("where", e.map("gt", v, e.scalar_like(v, 0.0)), v, slope), x.dtype), noise
    if x.dtype == "f64":
        raise Unsupported("random numbers of f64")
    share = e.cast(_scaled(e, e.uniform(x.shape), upper - lower, lower), x.dtype)
    low = e.map("le", x, e.scalar_like(x, 0.0))
    return e.map("where", low, e.map("mul", x, share), x), e.map("where", low, share, e.scalar_like(x, 1.0))


@draws("rand", "rand_like")
def _(e, *_, **__):
    return _uniform(e)


@draws("uniform")
def _(e, x, low=0.0, high=1.0, **bounds):
    low, high = bounds.get("from", low), bounds.get("to", high)
    y = _scaled(e, _uniform(e), high - low, low)
    return e.map("where", e.map("lt", y, _number(e, high)), y, _number(e, low))  # the sum may be rounded up to `high`


@draws("randn", "randn_like")
def _(e, *_, **__):
    return e.map("ndtri", _inside(e))


@draws("normal_functional")
def _(e, x, mean=0.0, std=1.0):
    return _scaled(e, e.map("ndtri", _inside(e)), std, mean)


@draws("normal.float_float", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def _(e, mean=0.0, std=1.0, size=None, **_):
    return _scaled(e, e.map("ndtri", _inside(e)), std, mean)


@draws("log_normal")
def _(e, x, mean=1.0, std=2.0):
    return e.map("exp", _scaled(e, e.map("ndtri", _inside(e)), std, mean))


@draws("exponential")
def _(e, x, lambd=1.0):
    return _scaled(e, e.map("log", _inside(e)), -1 / lambd, 0.0)


@draws("cauchy")
def _(e, x, median=0.0, sigma=1.0):
    turned = e.map("mul", e.map("sub", _inside(e), e.full(0.5, "f32")), e.full(math.pi, "f32"))
    return _scaled(e, e.map("tan", turned), sigma, median)


@draws("geometric")
def _(e, x, p):
    """Geometric: how many trials until the first success, of probability p."""
    if not 0 < p < 1:
        raise Unsupported("geometric with a probability of 0 or 1")
    throws = e.map("ceil", e.map("mul", e.map("log", _inside(e)), e.full(1 / math.log1p(-p), "f32")))
    return e.map("maximum", throws, e.full(1.0, "f32"))

"""The op table in JAX's words: op -> spelling (spelling.py), for the rows that are frequent in graphs of inference. A graph with another row does
not run in JAX. Tested by tests/torch/test_peers.py.
"""

from .spelling import literal

JAX_DTYPES = {"f64": "jnp.float64", "f32": "jnp.float32", "f16": "jnp.float16", "bf16": "jnp.bfloat16", "i64": "jnp.int64", "i32": "jnp.int32",
              "i16": "jnp.int16", "i8": "jnp.int8", "u8": "jnp.uint8", "bool": "jnp.bool_", "f8e4m3fn": "jnp.float8_e4m3fn",
              "f8e5m2": "jnp.float8_e5m2"}

_SAME = """abs add ceil cos cosh exp exp2 expm1 floor fmod isfinite isinf isnan log log10 log1p log2 logical_and logical_not logical_or logical_xor
    maximum minimum reciprocal remainder round sign sin sinh sqrt square tan tanh trunc where""".split()
_OTHER = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh",
          "bit_and": "bitwise_and", "bit_not": "bitwise_not", "bit_or": "bitwise_or", "bit_xor": "bitwise_xor", "div": "true_divide",
          "eq": "equal", "floor_div": "floor_divide", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less", "mul": "multiply",
          "ne": "not_equal", "neg": "negative", "pow": "power", "sub": "subtract"}
_NN = "hard_sigmoid hard_swish mish relu silu".split()


def _reduce(function, more=""):
    return lambda n: f"jnp.{function}({n.operands[0]}, axis={n.axes_or_all()}, keepdims={n.keepdims}{more.format(n=n)})"


def _normalized(n, center, axes):
    """x without its mean (if center), over the root of its variance, in f32."""
    f32 = f"{n.operands[0]}.astype(jnp.float32)" if n.node.dtype in ("f16", "bf16") else n.operands[0]
    mean = f"jnp.mean({{x}}, axis={axes}, keepdims=True)"
    centered = f"(x - {mean.format(x='x')})" if center else "x"
    return (f"(lambda x: (lambda d: d * lax.rsqrt({mean.format(x='jnp.square(d)')} + {n.eps}))({centered}))({f32})")


def _last(center):
    def spelled(n):
        text = _normalized(n, center, tuple(range(n.rank - n.axes_count, n.rank)))
        text += f" * {n.operands[1]}" if n.operands[1] != "None" else ""
        text += f" + {n.operands[2]}" if len(n.operands) > 2 and n.operands[2] != "None" else ""
        return f"({text}).astype({n.dtype})"
    return spelled


def _per_channel(n, weight, bias, text):
    """The text with a weight and a bias for each element of axis 1."""
    shape = (-1, *[1] * (n.rank - 2))
    text += f" * {weight}.reshape{shape}" if weight != "None" else ""
    text += f" + {bias}.reshape{shape}" if bias != "None" else ""
    return f"({text}).astype({n.dtype})"


def _batch_norm(n):
    if n.axis % n.rank != 1 or n.node.dtype in ("f16", "bf16"):
        n.refuse("the axis or the dtype")
    x, mean, var, weight, bias = n.operands
    shape = (-1, *[1] * (n.rank - 2))
    return _per_channel(n, weight, bias, f"({x} - {mean}.reshape{shape}) * lax.rsqrt({var}.reshape{shape} + {n.eps})")


def _group_norm(n):
    if n.layout != "channels_first" or n.node.dtype in ("f16", "bf16"):
        n.refuse("the layout or the dtype")
    x, weight, bias = n.operands
    grouped = (n.shape[0], n.groups, n.shape[1] // n.groups, *n.shape[2:])
    inner = tuple(range(2, n.rank + 1))
    centered = f"(lambda x: x - jnp.mean(x, axis={inner}, keepdims=True))({x}.reshape{grouped})"
    normal = f"(lambda d: d * lax.rsqrt(jnp.mean(jnp.square(d), axis={inner}, keepdims=True) + {n.eps}))({centered})"
    return _per_channel(n, weight, bias, f"{normal}.reshape{tuple(n.shape)}")


def _sort_order(n):
    order = f"jnp.argsort({n.operands[0]}, axis={n.axis}, stable=True, descending={n.descending})"
    return f"{order}[{':, ' * (n.axis % n.rank)}{n.start}:{n.end}]"


def _slice(n):
    return f"{n.operands[0]}[{':, ' * (n.axis % n.rank)}{n.start}:{n.end}:{n.step}]"


def _gather(n):
    return f"jnp.take({n.operands[0]}, {n.operands[1]}, axis={n.axis})"


def _convolution(n):
    if n.transposed or n.layout != "channels_first":
        n.refuse("transposed, or with the channels last")
    x, w, bias = n.operands
    text = (f"lax.conv_general_dilated({x}, {w}, {tuple(n.strides)}, {tuple(zip(n.padding, n.padding_high))}, "
            f"rhs_dilation={tuple(n.dilations)}, feature_group_count={n.groups})")
    return text if bias == "None" else f"{text} + {bias}.reshape(-1{', 1' * len(n.strides)})"


def _pad(n):
    if min([0, *n.low, *n.high]) < 0:
        n.refuse("negative amounts")
    return f"jnp.pad({n.operands[0]}, {tuple(zip(n.low, n.high))}, constant_values={literal(n.value)})"


ROWS = {
    **{name: f"jnp.{name}({{all}})" for name in _SAME},
    **{name: f"jnp.{other}({{all}})" for name, other in _OTHER.items()},
    **{name.replace("_", ""): f"jax.nn.{name}({{0}})" for name in _NN},
    "rsqrt": "lax.rsqrt({0})",
    "erf": "lax.erf({0})",
    "erfc": "lax.erfc({0})",
    "sigmoid": "jax.nn.sigmoid({0})",
    "clamp": "jnp.clip({0}, {1}, {2})",
    "fma": "({0} * {1} + {2})",
    "cast": "{0}.astype({dtype})",
    "full": "jnp.full({shape}, {value}, dtype={dtype})",
    "dim": "jnp.full((), {value}, dtype={dtype})",
    "sum": _reduce("sum", ", dtype={n.dtype}"),
    "prod": _reduce("prod", ", dtype={n.dtype}"),
    "max": _reduce("max"),
    "min": _reduce("min"),
    "any": _reduce("any"),
    "all": _reduce("all"),
    "mean": _reduce("mean"),
    "var": _reduce("var", ", ddof={n.correction}"),
    "argmax": "jnp.argmax({0}, {axis}, keepdims={keepdims})",
    "argmin": "jnp.argmin({0}, {axis}, keepdims={keepdims})",
    "cumsum": "jnp.cumsum({0}, {axis}, dtype={dtype})",
    "cumprod": "jnp.cumprod({0}, {axis}, dtype={dtype})",
    "reshape": "{0}.reshape({shape})",
    "transpose": "{0}.transpose({perm})",
    "expand": "jnp.broadcast_to({0}, {shape})",
    "slice": _slice,
    "flip": lambda n: f"jnp.flip({n.operands[0]}, {n.axes_or_all()})",
    "concat": "jnp.concatenate(({all},), {axis})",
    "pad": _pad,
    "gather": _gather,
    "take_along": "jnp.take_along_axis({0}, {1}, {axis})",
    "matmul": "jnp.matmul({0}, {1})",
    "linear": lambda n: f"jnp.matmul({n.operands[0]}, {n.operands[1]}.T)" + (f" + {n.operands[2]}" if n.operands[2] != "None" else ""),
    "convolution": _convolution,
    "sort_order": _sort_order,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "layer_norm": _last(True),
    "rms_norm": _last(False),
    "leaky_relu": "jax.nn.leaky_relu({0}, {slope})",
    "elu": "jax.nn.elu({0}, {alpha})",
    "gelu": lambda n: f"jax.nn.gelu({n.operands[0]}, approximate={n.approximate == 'tanh'})",
    "hardtanh": "jnp.clip({0}, {low}, {high})",
    "softmax": "jax.nn.softmax({0}, {axis})",
    "log_softmax": "jax.nn.log_softmax({0}, {axis})",
    "logsumexp": lambda n: f"jax.nn.logsumexp({n.operands[0]}, axis={n.axes_or_all()}, keepdims={n.keepdims})",
    "stop_gradient": "lax.stop_gradient({0})",
}

"""The op table in PyTorch's words: op -> spelling (spelling.py). A row that is missing has no counterpart in PyTorch.

Tested by tests/torch/test_peers.py, which samples every entry against Tenon.
"""

from ..lowering.tensors import DTYPES
from .spelling import literal

TORCH_DTYPES = {name: str(dtype) for dtype, name in DTYPES.items()}

_SAME = """abs acos acosh add asin asinh atan atan2 atanh ceil clamp cos cosh digamma div eq erf erfc erfinv exp exp2 expm1 floor fmod gcd ge gt
    i0 igamma igammac isfinite isinf isnan lcm le lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor lt maximum minimum mul ne neg pow
    reciprocal remainder round rsqrt sigmoid sign sin sinh sqrt square sub tan tanh trunc where""".split()
_SPECIAL = "airy_ai erfcx i0e i1 i1e ndtri zeta".split()
_FUNCTIONAL = "relu silu mish hardswish hardsigmoid".split()


def _reduce(function, more=""):
    return lambda n: f"torch.{function}({n.operands[0]}, {n.axes_or_all()}, keepdim={n.keepdims}{more.format(n=n)})"


def _prod(n):
    text = n.operands[0]
    for axis in sorted(n.axes_or_all(), reverse=True):
        text = f"torch.prod({text}, {axis}, keepdim={n.keepdims}, dtype={n.dtype})"
    return text


def _slice(n):
    axis = n.axis % n.rank
    return f"{n.operands[0]}[{':, ' * axis}{n.start}:{n.end}:{n.step}]"


def _windows(n):
    text = n.operands[0]
    for axis, size, stride, dilation in zip(n.axes, n.sizes, n.strides, n.dilations):
        if dilation != 1:
            n.refuse("dilations")
        text += f".unfold({axis}, {size}, {stride})"
    return text


def _iota(n):
    axis = n.axis % max(n.rank, 1)
    line = tuple(size if i == axis else 1 for i, size in enumerate(n.shape))
    count = n.shape[axis] if n.rank else 1
    return f"(torch.arange({count}, dtype={n.dtype}) * {literal(n.step)} + {literal(n.start)}).reshape({line}).expand({n.shape})"


def _pad(n):
    amounts = [amount for low, high in reversed(list(zip(n.low, n.high))) for amount in (low, high)]
    return f"F.pad({n.operands[0]}, {amounts}, value={literal(n.value)})"


def _gather(n):
    x, indices = n.operands[:2]
    axis = n.axis % len(n.inputs[0].shape)
    if axis == 0 and n.inputs[0].dtype[0] in "fb" and len(n.inputs[0].shape) == 2 and not n.wrap:
        return f"F.embedding({indices}, {x})"
    return f"{x}[{':, ' * axis}{indices}]"


def _scatter(n):
    modes = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    x, indices, updates = n.operands
    if n.mode == "set":
        return f"torch.scatter({x}, {n.axis}, {indices}.long(), {updates})"
    return f"torch.scatter_reduce({x}, {n.axis}, {indices}.long(), {updates}, '{modes[n.mode]}')"


def _index_put(n):
    if n.axis % n.rank != 0 or n.mode not in ("set", "add"):
        n.refuse(f"axis {n.axis}, mode {n.mode}")
    x, indices, updates = n.operands
    return f"torch.index_put({x}, ({indices}.long(),), {updates}, accumulate={n.mode == 'add'})"


def _first(rank):
    """The permutation that moves the channels from the end to axis 1, and the one that moves them back."""
    return (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)


def _spatial(n, call):
    """call(x): the text for channels in axis 1."""
    to, back = _first(n.rank)
    if n.layout == "channels_first":
        return call(n.operands[0])
    return call(f"{n.operands[0]}.permute{to}") + f".permute{back}"


def _padded(n, x, value):
    """x, padded where the two sides differ, and the padding that is left to the operation."""
    if list(n.padding) == list(n.padding_high):
        return x, tuple(n.padding)
    amounts = [a for low, high in reversed(list(zip(n.padding, n.padding_high))) for a in (low, high)]
    return f"F.pad({x}, {amounts}, value={value})", (0,) * len(n.padding)


def _convolution(n):
    if n.transposed and list(n.padding) != list(n.padding_high):
        n.refuse("transposed, with different paddings")

    def call(x):
        x, padding = _padded(n, x, 0)
        output = tuple(n.node.attrs.get("output_padding") or (0,) * len(padding))
        return (f"torch.convolution({x}, {n.operands[1]}, {n.operands[2]}, {tuple(n.strides)}, {padding}, {tuple(n.dilations)}, "
                f"{n.transposed}, {output}, {n.groups})")
    return _spatial(n, call)


def _max_pool(n):
    dilations = tuple(n.node.attrs.get("dilations") or (1,) * len(n.kernel))

    def call(x):
        x, padding = _padded(n, x, "float('-inf')")
        return f"F.max_pool{len(padding)}d({x}, {tuple(n.kernel)}, {tuple(n.strides)}, {padding}, {dilations})"
    return _spatial(n, call)


def _avg_pool(n):
    if list(n.padding) != list(n.padding_high):
        n.refuse("different paddings")
    divisor = f", divisor_override={n.divisor}" if n.divisor else ""
    return _spatial(n, lambda x: f"F.avg_pool{len(n.kernel)}d({x}, {tuple(n.kernel)}, {tuple(n.strides)}, {tuple(n.padding)}, "
                                 f"count_include_pad={n.count_include_pad}{divisor})")


def _attention(n):
    q, k, v, mask, kept = n.operands
    if kept != "None" or n.dropout:
        n.refuse("dropout")
    if n.causal and mask != "None":
        n.refuse("causal, with a mask")
    grouped = n.layout == "heads_first" and n.inputs[0].shape[1] != n.inputs[1].shape[1] or \
        n.layout == "heads_last" and n.inputs[0].shape[2] != n.inputs[1].shape[2]
    turn = ".transpose(1, 2)" if n.layout == "heads_last" else ""
    return (f"F.scaled_dot_product_attention({q}{turn}, {k}{turn}, {v}{turn}, attn_mask={mask}, is_causal={n.causal}, "
            f"scale={literal(n.scale)}{', enable_gqa=True' if grouped else ''}){turn}")


def _last(function):
    def spelled(n):
        shape = n.shape[n.rank - n.axes_count:]
        return f"F.{function}({n.operands[0]}, {shape}, {', '.join(n.operands[1:])}, {n.eps})"
    return spelled


def _batch_norm(n):
    if n.axis % n.rank != 1:
        n.refuse(f"axis {n.axis}")
    x, mean, var, weight, bias = n.operands
    return f"F.batch_norm({x}, {mean}, {var}, {weight}, {bias}, eps={n.eps})"


ROWS = {
    **{name: f"torch.{name}({{all}})" for name in _SAME},
    **{name: f"torch.special.{name}({{all}})" for name in _SPECIAL},
    **{name: f"F.{name}({{0}})" for name in _FUNCTIONAL},
    "floor_div": "torch.floor_divide({0}, {1})",
    "trunc_div": "torch.div({0}, {1}, rounding_mode='trunc')",
    "fma": "torch.addcmul({2}, {0}, {1})",
    "bit_and": "torch.bitwise_and({0}, {1})",
    "bit_or": "torch.bitwise_or({0}, {1})",
    "bit_xor": "torch.bitwise_xor({0}, {1})",
    "bit_not": "torch.bitwise_not({0})",
    "shift_left": "torch.bitwise_left_shift({0}, {1})",
    "shift_right": "torch.bitwise_right_shift({0}, {1})",
    "k0": "torch.special.modified_bessel_k0({0})",
    "k1": "torch.special.modified_bessel_k1({0})",
    "k0e": "torch.special.scaled_modified_bessel_k0({0})",
    "k1e": "torch.special.scaled_modified_bessel_k1({0})",
    "j0": "torch.special.bessel_j0({0})",
    "j1": "torch.special.bessel_j1({0})",
    "y0": "torch.special.bessel_y0({0})",
    "y1": "torch.special.bessel_y1({0})",
    "cast": "{0}.to({dtype})",
    "bitcast": "{0}.view({dtype})",
    "full": "torch.full({shape}, {value}, dtype={dtype})",
    "dim": "torch.full((), {value}, dtype={dtype})",
    "iota": _iota,
    "sum": _reduce("sum", ", dtype={n.dtype}"),
    "prod": _prod,
    "max": _reduce("amax"),
    "min": _reduce("amin"),
    "any": _reduce("any"),
    "all": _reduce("all"),
    "mean": _reduce("mean"),
    "var": _reduce("var", ", correction={n.correction}"),
    "logsumexp": _reduce("logsumexp"),
    "argmax": "torch.argmax({0}, {axis}, keepdim={keepdims})",
    "argmin": "torch.argmin({0}, {axis}, keepdim={keepdims})",
    "cumsum": "torch.cumsum({0}, {axis}, dtype={dtype})",
    "cumprod": "torch.cumprod({0}, {axis}, dtype={dtype})",
    "cummax": "torch.cummax({0}, {axis}).values",
    "cummin": "torch.cummin({0}, {axis}).values",
    "sort_order": lambda n: f"torch.sort({n.operands[0]}, stable=True, dim={n.axis}, descending={n.descending}).indices"
                            f".narrow({n.axis}, {n.start}, {n.end - n.start})",
    "search": "torch.searchsorted({0}, {1}, right={right})",
    "reshape": "{0}.reshape({shape})",
    "transpose": "{0}.permute({perm})",
    "expand": "{0}.expand({shape})",
    "slice": _slice,
    "windows": _windows,
    "flip": lambda n: f"torch.flip({n.operands[0]}, {n.axes_or_all()})",
    "concat": "torch.cat(({all},), {axis})",
    "pad": _pad,
    "gather": _gather,
    "take_along": "torch.take_along_dim({0}, {1}.long(), {axis})",
    "scatter": _scatter,
    "index_put": _index_put,
    "matmul": "torch.matmul({0}, {1})",
    "linear": "F.linear({all})",
    "convolution": _convolution,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": lambda n: _spatial(n, lambda x: f"F.adaptive_avg_pool{len(n.output)}d({x}, {tuple(n.output)})"),
    "attention": _attention,
    "layer_norm": _last("layer_norm"),
    "rms_norm": _last("rms_norm"),
    "group_norm": lambda n: _spatial(n, lambda x: f"F.group_norm({x}, {n.groups}, {n.operands[1]}, {n.operands[2]}, {n.eps})"),
    "instance_norm": "F.instance_norm({0}, weight={1}, bias={2}, eps={eps})",
    "batch_norm": _batch_norm,
    "leaky_relu": "F.leaky_relu({0}, {slope})",
    "elu": "F.elu({0}, {alpha})",
    "gelu": "F.gelu({0}, approximate={approximate})",
    "softplus": "F.softplus({0}, {beta}, {threshold})",
    "hardtanh": "F.hardtanh({0}, {low}, {high})",
    "softmax": "torch.softmax({0}, {axis})",
    "log_softmax": "torch.log_softmax({0}, {axis})",
    "stop_gradient": "{0}.detach()",
}

"""The op table of the PyTorch backend: ATen overload -> how to write it in graph text. One row per overload.

A row is a function of an Emitter (lower.py) and the node's arguments in ATen's order: tensors arrive as Values, sizes
as ints or sympy expressions. It returns a Value, or a tuple for ops with several results (None: not available). Dtype
and shape of the result are checked against PyTorch's afterwards, and the last cast is added by lower.finish.
`view` marks ops whose result is a view in PyTorch. Raise Unsupported with a sentence to leave a node to PyTorch.
A new op is one row here and one line in tests/torch/test_lower.py.
"""

import math
from typing import Callable, NamedTuple

import torch

from . import symexpr
from .lower import FLOATS, HALVES, Promotion, Raw, Value, broadcast, dtype_of, floor_div, same_shape
from .symexpr import Unsupported, size


class Row(NamedTuple):
    emit: Callable
    view: bool


TABLE = {}


def row(*names, view=False):
    def add(emit):
        for name in names:
            name = name if name.startswith("prims.") else "aten." + name
            TABLE[name if name.count(".") == 2 else name + ".default"] = Row(emit, view)
        return emit

    return add


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
    head = e.node.target._opname
    if x.dtype == "bool" or (x.dtype not in FLOATS and head in ("floor", "ceil", "trunc", "round")):
        return x
    if head == "relu" and x.dtype not in FLOATS:
        return e.map("maximum", x, e.scalar_like(x, 0))
    return e.map(head, x)


@row("isnan", "isinf", "isfinite")
def _(e, x):
    head = e.node.target._opname
    return e.map(head, x) if x.dtype in FLOATS else e.full(head == "isfinite", "bool", x.shape)


@row("isposinf", "isneginf")
def _(e, x):
    if x.dtype not in FLOATS:
        return e.full(False, "bool", x.shape)
    return e.map("eq", x, e.scalar_like(x, math.inf if e.node.target._opname == "isposinf" else -math.inf))


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
_binary("atan2", Promotion.INT_TO_FLOAT, "default")
_binary("fmod remainder", Promotion.DEFAULT, _ANY)
_binary("floor_div:floor_divide", Promotion.DEFAULT, _ANY)


@row("maximum", "minimum")
def _(e, a, b):
    a, b = e.promote(Promotion.DEFAULT, a, b)
    head = e.node.target._opname
    if a.dtype == "bool":
        head = "logical_or" if head == "maximum" else "logical_and"
    return e.map(head, a, b)


@row("fmax", "fmin")
def _(e, a, b):
    a, b = e.promote(Promotion.DEFAULT, a, b)
    if a.dtype not in FLOATS:
        raise Unsupported("fmax and fmin of integers")
    result = e.map("maximum" if e.node.target._opname == "fmax" else "minimum", a, b)
    result = e.map("where", e.map("isnan", b), a, result)
    return e.map("where", e.map("isnan", a), b, result)


def _scaled(e, v, alpha):
    if isinstance(alpha, (int, float)) and alpha == 1:
        return v
    return e.map("logical_and" if v.dtype == "bool" else "mul", v, e.scalar_like(v, alpha))


def _alpha_kind(e, a, b, alpha):
    """Operands of a + alpha * b. A factor that is not 1 is a number that takes part in f32 for 16-bit floats."""
    a, b = e.promote(Promotion.DEFAULT, a, b)
    if a.dtype in HALVES and not (isinstance(alpha, (int, float)) and alpha == 1):
        a, b = e.cast(a, "f32"), e.cast(b, "f32")
    return a, b


@row("add.Tensor", "add.Scalar")
def _(e, a, b, alpha=1):
    a, b = _alpha_kind(e, a, b, alpha)
    return e.map("logical_or" if a.dtype == "bool" else "add", a, _scaled(e, b, alpha))


@row("sub.Tensor", "sub.Scalar")
def _(e, a, b, alpha=1):
    a, b = _alpha_kind(e, a, b, alpha)
    return e.map("sub", a, _scaled(e, b, alpha))


@row("rsub.Tensor", "rsub.Scalar")
def _(e, a, b, alpha=1):
    a, b = _alpha_kind(e, a, b, alpha)
    return e.map("sub", b, _scaled(e, a, alpha))


@row("mul.Tensor", "mul.Scalar")
def _(e, a, b):
    a, b = e.promote(Promotion.DEFAULT, a, b)
    return e.map("logical_and" if a.dtype == "bool" else "mul", a, b)


@row("div.Tensor", "div.Scalar")
def _(e, a, b):
    return e.map("div", *e.promote(Promotion.INT_TO_FLOAT, a, b))


@row("div.Tensor_mode", "div.Scalar_mode")
def _(e, a, b, rounding_mode=None):
    kind = Promotion.INT_TO_FLOAT if rounding_mode is None else Promotion.DEFAULT
    return e.map({None: "div", "floor": "floor_div", "trunc": "trunc_div"}[rounding_mode], *e.promote(kind, a, b))


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
        raise Unsupported("clamp with a NaN bound")
    x, *bounds = e.promote(Promotion.DEFAULT, x, *given)
    if len(bounds) == 2:
        return e.map("clamp", x, *bounds)
    return e.map("maximum" if max is None else "minimum", x, *bounds)


@row("clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor")
def _(e, x, bound):
    head = "maximum" if e.node.target._opname == "clamp_min" else "minimum"
    return e.map(head, *e.promote(Promotion.DEFAULT, x, bound))


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
    return _activation(e, e.node.target._opname, x)


@row("leaky_relu")
def _(e, x, negative_slope=0.01):
    return _activation(e, "leaky_relu", x, slope=float(negative_slope))


@row("elu")
def _(e, x, alpha=1, scale=1, input_scale=1):
    if scale == 1 and input_scale == 1:
        return _activation(e, "elu", x, alpha=float(alpha))
    y = e.cast(x, "f32") if x.dtype in HALVES else x
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
        return e.reshape(e.op("log_softmax" if "log" in e.node.target._opname else "softmax", [x], x.dtype, [1], axis=0), [])
    axis = dim % x.rank
    y = e.op("log_softmax" if "log" in e.node.target._opname else "softmax", [x], x.dtype, x.shape, axis=axis)
    if e.node.target._opname == "_safe_softmax":
        lowest = e.map("eq", x, e.scalar_like(x, -math.inf))
        y = e.map("where", e.reduce("all", lowest, [axis], True), e.scalar_like(y, 0.0), y)
    return y


@row("logsumexp")
def _(e, x, dim, keepdim=False):
    return e.reduce("logsumexp", e.cast(x, e.dtype), dim, keepdim)


# --- reduce -----------------------------------------------------------------------------------------------------------
def _axes(dim):
    return dim if isinstance(dim, (list, tuple)) or dim is None else [dim]


@row("sum", "sum.dim_IntList", "prod", "prod.dim_int")
def _(e, x, dim=None, keepdim=False, dtype=None):
    return e.reduce(e.node.target._opname, e.cast(x, e.dtype), _axes(dim), keepdim)


@row("mean", "mean.dim")
def _(e, x, dim=None, keepdim=False, dtype=None):
    return e.reduce("mean", e.cast(x, e.dtype), _axes(dim), keepdim)


@row("amax", "amin")
def _(e, x, dim=(), keepdim=False):
    return _extreme(e, "max" if e.node.target._opname == "amax" else "min", x, dim, keepdim)


@row("max", "min")
def _(e, x):
    return _extreme(e, e.node.target._opname, x, None, False)


def _extreme(e, head, x, dim, keepdim):
    if x.dtype == "bool":
        head = "any" if head == "max" else "all"
    return e.reduce(head, x, dim, keepdim)


@row("max.dim", "min.dim")
def _(e, x, dim, keepdim=False):
    head = e.node.target._opname
    values = _extreme(e, head, x, [dim], keepdim) if e.used(0) else None
    indices = _arg(e, "arg" + head, x, dim, keepdim) if e.used(1) else None
    return values, indices


@row("argmax", "argmin")
def _(e, x, dim=None, keepdim=False):
    head = e.node.target._opname
    if dim is None:
        y = _arg(e, head, e.reshape(x, [symexpr.product(x.shape)]), 0, False)
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
    return e.reduce(e.node.target._opname, x, _axes(dim), keepdim)


def _variance(e, x, dim, correction, keepdim):
    return e.reduce("var", x, _axes(dim), keepdim, correction=1.0 if correction is None else float(correction))


@row("var.correction", "std.correction")
def _(e, x, dim=None, correction=None, keepdim=False):
    if e.node.target._opname == "std":
        wide = e.cast(x, "f32") if x.dtype in HALVES else x
        return e.map("sqrt", _variance(e, wide, dim, correction, keepdim))
    return _variance(e, x, dim, correction, keepdim)


@row("var_mean.correction")
def _(e, x, dim=None, correction=None, keepdim=False):
    return _variance(e, x, dim, correction, keepdim), e.reduce("mean", x, _axes(dim), keepdim)


@row("linalg_vector_norm")
def _(e, x, ord=2, dim=None, keepdim=False, dtype=None):
    x = e.cast(x, "f32" if e.dtype in HALVES else e.dtype)
    if ord == 2:
        return e.map("sqrt", e.reduce("sum", e.map("square", x), dim, keepdim))
    x = e.map("abs", x)
    if ord == 1:
        return e.reduce("sum", x, dim, keepdim)
    if ord in (math.inf, -math.inf):
        return e.reduce("max" if ord > 0 else "min", x, dim, keepdim)
    if ord == 0:
        return e.reduce("sum", e.cast(e.map("ne", x, e.scalar_like(x, 0.0)), x.dtype), dim, keepdim)
    powers = e.map("pow", x, e.scalar_like(x, float(ord)))
    return e.map("pow", e.reduce("sum", powers, dim, keepdim), e.scalar_like(x, 1.0 / ord))


@row("cumsum")
def _(e, x, dim, dtype=None):
    x = e.cast(x, e.dtype)
    return x if x.rank == 0 else e.op("cumsum", [x], x.dtype, x.shape, axis=dim % x.rank)


# --- same values ------------------------------------------------------------------------------------------------------
@row("clone", "lift_fresh_copy")
def _(e, x, memory_format=None):
    return x


@row("alias", "detach", view=True)
def _(e, x):
    return x


@row("_to_copy")
def _(e, x, **_):
    return e.cast(x, e.dtype)


@row("prims.convert_element_type")
def _(e, x, dtype):
    return e.cast(x, e.dtype)


@row("native_dropout")
def _(e, x, p, train=None):
    if train:
        raise Unsupported("dropout draws random numbers")
    return x, e.full(True, "bool", x.shape) if e.used(1) else None


@row("copy")
def _(e, x, source, non_blocking=False):
    return e.expand(e.cast(source, e.dtype), e.shape)


# --- views ------------------------------------------------------------------------------------------------------------
@row("view", view=True)
def _(e, x, shape):
    return e.reshape(x, e.shape)


@row("_unsafe_view")
def _(e, x, shape):
    return e.reshape(x, e.shape)


@row("unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", view=True)
def _(e, x, dim=None):
    return e.reshape(x, e.shape)


@row("t", view=True)
def _(e, x):
    return e.transpose(x, range(x.rank)[::-1])


@row("transpose.int", view=True)
def _(e, x, a, b):
    return e.swap(x, a, b) if x.rank else x


@row("permute", view=True)
def _(e, x, dims):
    return e.transpose(x, dims)


@row("expand", view=True)
def _(e, x, shape, implicit=False):
    return e.expand(x, e.shape)


@row("select.int", view=True)
def _(e, x, dim, index):
    return _select(e, x, dim, index)


def _select(e, x, dim, index):
    axis = dim % x.rank
    start = index if not isinstance(index, int) or index >= 0 else index + x.shape[axis]
    y = e.slice(x, axis, start, size(start + 1))
    return e.reshape(y, x.shape[:axis] + x.shape[axis + 1:])


def _bound(bound, extent, default):
    """A slice bound as PyTorch clamps it."""
    if bound is None:
        return default
    if isinstance(bound, int):
        if bound < 0:
            bound = size(bound + extent)
        if isinstance(bound, int) and isinstance(extent, int):
            return min(max(bound, 0), extent)
        if isinstance(bound, int) and bound >= 2**62:
            return extent
        if isinstance(bound, int) and bound == 0:
            return 0
    return bound


def _range(e, x, dim, start, end, step, length=None):
    """Normalised bounds of x[start:end:step], trusting the length PyTorch found where sizes are symbolic."""
    extent = x.shape[dim]
    start, end = _bound(start, extent, 0), _bound(end, extent, extent)
    if isinstance(start, int) and isinstance(end, int):
        end = max(end, start)
    elif length is not None:
        if not isinstance(start, int):
            raise Unsupported("a slice that starts at a symbolic position")
        end = size(start + length) if step == 1 else end
    return start, end


@row("slice.Tensor", view=True)
def _(e, x, dim=0, start=None, end=None, step=1):
    axis = dim % x.rank
    start, end = _range(e, x, axis, start, end, step, e.shape[axis])
    y = e.slice(x, axis, start, end, step)
    if not isinstance(end, int) and step != 1 and not same_shape(y.shape, e.shape):
        raise Unsupported("a slice with a step over a symbolic size")
    return y


@row("as_strided", view=True)
def _(e, x, shape, stride, storage_offset=None):
    """Only what changes nothing but the strides of axes of size 1, as average pooling does for channels-last."""
    strides = symexpr.sizes(x.fake.stride())
    if not same_shape(x.shape, e.shape) or not symexpr.same(storage_offset or 0, size(x.fake.storage_offset())) or not same_shape(
            symexpr.normal_strides(e.shape, strides), symexpr.normal_strides(e.shape, symexpr.sizes(stride))):
        raise Unsupported("as_strided that rearranges elements")
    return x


@row("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unsafe_split_with_sizes", view=True)
def _(e, x, sizes, dim=0):
    axis, start, parts = dim % x.rank, 0, []
    for i, fake in enumerate(e.fake):
        length = size(fake.shape[axis])
        parts.append(e.slice(x, axis, start, size(start + length)) if e.used(i) else None)
        start = size(start + length)
    return tuple(parts)


@row("unbind.int", view=True)
def _(e, x, dim=0):
    return tuple(_select(e, x, dim, i) if e.used(i) else None for i in range(len(e.fake)))


@row("diagonal", view=True)
def _(e, x, offset=0, dim1=0, dim2=1):
    a, b = dim1 % x.rank, dim2 % x.rank
    length = e.shape[-1]
    if not all(isinstance(n, int) for n in (x.shape[a], x.shape[b], length)):
        raise Unsupported("the diagonal of a symbolic size")
    x = e.transpose(x, [i for i in range(x.rank) if i not in (a, b)] + [a, b])
    rows, columns = x.shape[-2:]
    flat = e.reshape(x, x.shape[:-2] + (rows * columns,))
    start = offset if offset >= 0 else -offset * columns
    if length == 0:
        return e.slice(flat, -1, 0, 0)
    return e.slice(flat, -1, start, start + (length - 1) * (columns + 1) + 1, columns + 1)


@row("unfold", view=True)
def _(e, x, dimension, size, step):
    if x.rank == 0:
        raise Unsupported("unfold of a scalar")
    return e.op("windows", [x], x.dtype, e.shape, axes=[dimension % x.rank], sizes=[size], strides=[step], dilations=[1])


@row("flip")
def _(e, x, dims):
    axes = sorted(d % x.rank for d in dims) if x.rank else []
    return e.op("flip", [x], x.dtype, x.shape, axes=axes) if axes else x


@row("roll")
def _(e, x, shifts, dims=()):
    shape = x.shape
    if not dims:
        x, dims = e.reshape(x, [symexpr.product(shape)]), [0]
    for shift, dim in zip(shifts, dims):
        extent = x.shape[dim]
        if not isinstance(extent, int) or not isinstance(shift, int):
            raise Unsupported("roll over a symbolic size")
        if extent and shift % extent:
            cut = extent - shift % extent
            x = e.concat([e.slice(x, dim, cut, extent), e.slice(x, dim, 0, cut)], dim)
    return e.reshape(x, shape)


@row("repeat")
def _(e, x, repeats):
    x = e.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
    apart = [n for extent in x.shape for n in (1, extent)]
    wide = [n for times, extent in zip(repeats, x.shape) for n in (times, extent)]
    return e.reshape(e.expand(e.reshape(x, apart), wide), e.shape)


@row("cat")
def _(e, tensors, dim=0):
    tensors = [t for t in tensors if not (t.rank == 1 and isinstance(t.shape[0], int) and t.shape[0] == 0)] or tensors[:1]
    return e.concat([e.cast(t, e.dtype) for t in tensors], dim)


@row("stack")
def _(e, tensors, dim=0):
    axis = dim % (tensors[0].rank + 1)
    return e.concat([e.reshape(e.cast(t, e.dtype), t.shape[:axis] + (1,) + t.shape[axis:]) for t in tensors], axis)


@row("constant_pad_nd")
def _(e, x, pad, value=0):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if e.dtype not in FLOATS:
        value = int(value)
    return e.op("pad", [x], x.dtype, e.shape, low=low, high=high, value=Raw(repr(value)))


@row("slice_scatter")
def _(e, x, source, dim=0, start=None, end=None, step=1):
    axis = dim % x.rank
    start, end = _range(e, x, axis, start, end, step, source.shape[axis])
    source = e.cast(source, x.dtype)
    if step != 1:
        if not isinstance(start, int):
            raise Unsupported("slice_scatter with a step from a symbolic position")
        indices = e.iota([source.shape[axis]], start=start, step=step)
        return e.op("index_put", [x, indices, source], x.dtype, x.shape, axis=axis)
    return _overwrite(e, x, source, axis, start, end)


@row("select_scatter")
def _(e, x, source, dim, index):
    axis = dim % x.rank
    start = index if not isinstance(index, int) or index >= 0 else size(index + x.shape[axis])
    source = e.reshape(e.cast(source, x.dtype), x.shape[:axis] + (1,) + x.shape[axis + 1:])
    return _overwrite(e, x, source, axis, start, size(start + 1))


def _overwrite(e, x, source, axis, start, end):
    extent = x.shape[axis]
    parts = [] if symexpr.same(start, 0) else [e.slice(x, axis, 0, start)]
    parts.append(source)
    if not symexpr.same(end, extent):
        parts.append(e.slice(x, axis, end, extent))
    return e.concat(parts, axis)


# --- created tensors --------------------------------------------------------------------------------------------------
@row("full", "full_like", "new_full", "scalar_tensor", "fill.Scalar")
def _(e, *args, fill_value=None, **_):
    value = args[-1] if fill_value is None else fill_value
    return e.full(value, e.dtype, e.shape)


@row("fill.Tensor")
def _(e, x, value):
    return e.expand(e.cast(value, e.dtype), e.shape)


@row("zeros", "zeros_like", "new_zeros", "zero", "empty.memory_format", "empty_like", "new_empty", "new_empty_strided",
     "empty_strided", "empty_permuted")
def _(e, *_, **__):
    return e.full(0, e.dtype, e.shape)  # any value is right for the empty ones


@row("ones", "ones_like", "new_ones")
def _(e, *_, **__):
    return e.full(1, e.dtype, e.shape)


@row("arange", "arange.start", "arange.start_step")
def _(e, *args, **_):
    start = args[0] if len(args) > 1 else 0
    step = args[2] if len(args) > 2 else 1
    if not all(isinstance(n, (int, float)) for n in (start, step)):
        if not isinstance(step, int):
            raise Unsupported("arange with a symbolic step")
        return e.map("add", e.iota(e.shape, e.dtype, step=step), e.full(start, e.dtype))
    if e.dtype in HALVES:
        return e.iota(e.shape, "f32", start=start, step=step)
    return e.iota(e.shape, e.dtype, start=start, step=step)


@row("eye", "eye.m")
def _(e, *_, **__):
    return e.cast(e.map("eq", e.iota(e.shape, axis=0), e.iota(e.shape, axis=1)), e.dtype)


@row("tril", "triu")
def _(e, x, diagonal=0):
    shape = x.shape[-2:]
    rows, columns = e.iota(shape, axis=0), e.iota(shape, axis=1)
    if not (isinstance(diagonal, int) and diagonal == 0):
        rows = e.map("add", rows, e.full(diagonal, "i64"))
    kept = e.map("le" if e.node.target._opname == "tril" else "ge", columns, rows)
    return e.map("where", kept, x, e.scalar_like(x, 0))


# --- gather and scatter -----------------------------------------------------------------------------------------------
def _index(e, indices):
    if indices.dtype not in ("i64", "i32"):
        indices = e.cast(indices, "i64")
    return indices


@row("embedding")
def _(e, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return e.gather(weight, _index(e, indices))


@row("index_select")
def _(e, x, dim, indices):
    if x.rank == 0:
        return x
    if indices.rank == 0:
        indices = e.reshape(indices, [1])
    return e.gather(x, _index(e, indices), dim)


@row("gather")
def _(e, x, dim, indices, sparse_grad=False):
    return e.op("take_along", [_fit(e, x, indices, dim), indices], x.dtype, indices.shape, axis=dim % x.rank)


def _fit(e, x, indices, dim):
    """x cut to the extents of the indices on the other axes, where PyTorch allows fewer."""
    if x.rank == 0 or indices.rank != x.rank:
        raise Unsupported("gather or scatter of a scalar")
    for axis in range(x.rank):
        if axis != dim % x.rank:
            x = e.slice(x, axis, 0, indices.shape[axis])
    return x


@row("scatter.src", "scatter.value", "scatter_add")
def _(e, x, dim, indices, source):
    if isinstance(source, Value):
        source = e.cast(source, x.dtype)
        for axis in range(x.rank):
            source = e.slice(source, axis, 0, indices.shape[axis])
    else:
        source = e.full(source, x.dtype, indices.shape)
    if x.rank == 0 or indices.rank != x.rank:
        raise Unsupported("scatter into a scalar")
    if any(not symexpr.same(x.shape[i], indices.shape[i]) for i in range(x.rank) if i != dim % x.rank):
        raise Unsupported("scatter with fewer indices than positions on another axis")
    mode = "add" if e.node.target._opname == "scatter_add" else "set"
    return e.op("scatter", [x, indices, source], x.dtype, x.shape, axis=dim % x.rank, mode=mode)


def _positions(e, x, indices):
    """x[..., i, j, ...] with adjacent integer indices as (x with those axes merged, one index tensor, axis)."""
    axes = [i for i, index in enumerate(indices) if index is not None]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise Unsupported("index tensors on axes that are not adjacent")
    given = [_index(e, e.cast(indices[i], "i64")) if len(axes) > 1 else _index(e, indices[i]) for i in axes]
    extents = [x.shape[i] for i in axes]
    flat = given[0]
    if len(axes) > 1:
        given = [_wrap(e, g, n) for g, n in zip(given, extents)]
        flat = given[0]
        for g, n in zip(given[1:], extents[1:]):
            flat = e.map("add", e.map("mul", flat, e.full(n, "i64")), g)
        x = e.reshape(x, x.shape[:axes[0]] + (symexpr.product(extents),) + x.shape[axes[-1] + 1:])
    return x, flat, axes[0]


def _wrap(e, index, extent):
    return e.map("where", e.map("lt", index, e.full(0, "i64")), e.map("add", index, e.full(extent, "i64")), index)


@row("index.Tensor", "_unsafe_index.Tensor")
def _(e, x, indices):
    if any(index is not None and index.dtype in ("bool", "u8") for index in indices):
        raise Unsupported("indexing by a mask: the size of the result depends on values")
    axes = [i for i, index in enumerate(indices) if index is not None]
    outer = _outer(indices, axes)
    if len(axes) > 1 and outer:  # each index varies along its own axis of the result: one gather each
        for i in axes:
            x = e.gather(x, e.reshape(_index(e, indices[i]), [symexpr.product(indices[i].shape)]), i)
        return e.reshape(x, e.shape)
    return e.gather(*_positions(e, x, indices))


def _outer(indices, axes):
    if axes != list(range(axes[0], axes[0] + len(axes))) or broadcast(*(indices[i].shape for i in axes)) == ():
        return False
    rank = max(indices[i].rank for i in axes)
    last = -1
    for i in axes:
        shape = (1,) * (rank - indices[i].rank) + indices[i].shape
        own = [a for a, n in enumerate(shape) if not (isinstance(n, int) and n == 1)]
        if len(own) != 1 or own[0] <= last:
            return False
        last = own[0]
    return True


@row("index_put", "_unsafe_index_put")
def _(e, x, indices, values, accumulate=False):
    values = e.cast(values, x.dtype)
    if len(indices) >= 1 and any(index is not None and index.dtype in ("bool", "u8") for index in indices):
        mask = indices[0]
        if len(indices) != 1 or accumulate or symexpr.product(values.shape) != 1:
            raise Unsupported("writing more than one value through a mask")
        mask = e.reshape(e.cast(mask, "bool"), mask.shape + (1,) * (x.rank - mask.rank))
        return e.map("where", mask, e.reshape(values, []), x)
    shape = x.shape
    x, flat, axis = _positions(e, x, indices)
    values = e.expand(values, x.shape[:axis] + flat.shape + x.shape[axis + 1:])
    y = e.op("index_put", [x, flat, values], x.dtype, x.shape, axis=axis, mode="add" if accumulate else "set")
    return e.reshape(y, shape)


# --- contract ---------------------------------------------------------------------------------------------------------
@row("mm", "bmm", "mv", "dot")
def _(e, a, b):
    return e.matmul(a, b)


@row("addmm", "baddbmm", "addmv", "addbmm")
def _(e, bias, a, b, beta=1, alpha=1):
    product = e.matmul(a, b)
    if e.node.target._opname == "addbmm":
        product = e.reduce("sum", product, [0])
    scaled = _number_is(beta, 0) or (_number_is(beta, 1) and _number_is(alpha, 1))
    if product.dtype in HALVES and not scaled:
        product, bias = e.cast(product, "f32"), e.cast(bias, "f32")
    product = _scaled(e, product, alpha)
    return product if _number_is(beta, 0) else e.map("add", product, _scaled(e, bias, beta))


def _number_is(x, value):
    return isinstance(x, (int, float)) and x == value


@row("convolution")
def _(e, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    spatial = x.rank - 2
    stride, padding, dilation, output_padding = (_each(n, spatial) for n in (stride, padding, dilation, output_padding))
    return e.op("convolution", [x, w, bias], e.dtype, e.shape, strides=stride, padding=padding, padding_high=padding,
                dilations=dilation, groups=groups, transposed=bool(transposed), output_padding=output_padding)


def _each(values, count):
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * count if len(values) == 1 else values


def _batched(e, x, spatial):
    return x if x.rank == spatial + 2 else e.reshape(x, (1,) + x.shape)


def _high_padding(x, shape, kernel, stride, padding, dilation, ceil_mode):
    """What to pad at the end so that exactly the windows PyTorch takes fit."""
    if not ceil_mode:
        return list(padding)
    extents, result = list(x.shape)[-len(kernel):], list(shape)[-len(kernel):]
    needed = [(o - 1) * s + d * (k - 1) + 1 - n - p
              for o, s, d, k, n, p in zip(result, stride, dilation, kernel, extents, padding)]
    if not all(isinstance(n, int) for n in needed):
        raise Unsupported("ceil_mode over a symbolic size")
    return needed


@row("max_pool2d_with_indices", "max_pool3d_with_indices")
def _(e, x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    if e.used(1):
        raise Unsupported("the indices of max pooling")
    spatial = 2 if "2d" in e.node.target._opname else 3
    kernel, padding, dilation = _each(kernel_size, spatial), _each(padding, spatial), _each(dilation, spatial)
    stride = _each(stride, spatial) if stride else kernel
    fake = symexpr.sizes(e.fake[0].shape)
    batched = _batched(e, x, spatial)
    high = _high_padding(x, fake, kernel, stride, padding, dilation, ceil_mode)
    y = e.op("max_pool", [batched], x.dtype, batched.shape[:2] + fake[-spatial:], kernel=kernel, strides=stride,
             padding=padding, padding_high=high, dilations=dilation)
    return e.reshape(y, fake), None


@row("avg_pool2d", "avg_pool3d")
def _(e, x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    spatial = int(e.node.target._opname[-2])
    kernel, padding = _each(kernel_size, spatial), _each(padding, spatial)
    stride = _each(stride, spatial) if stride else kernel
    high = _high_padding(x, e.shape, kernel, stride, padding, [1] * spatial, ceil_mode)
    if ceil_mode and count_include_pad and any(h > p for h, p in zip(high, padding)) and not divisor_override:
        if any(padding):
            raise Unsupported("average pooling with ceil_mode and counted padding")
        count_include_pad = False  # what hangs over the end is never counted
    batched = _batched(e, x, spatial)
    y = e.op("avg_pool", [batched], x.dtype, batched.shape[:2] + e.shape[-spatial:], kernel=kernel, strides=stride,
             padding=padding, padding_high=high, count_include_pad=bool(count_include_pad),
             divisor=divisor_override or None)
    return e.reshape(y, e.shape)


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _(e, x, output_size):
    spatial = int(e.node.target._opname[-2])
    batched = _batched(e, x, spatial)
    output = list(e.shape[-spatial:])
    y = e.op("adaptive_avg_pool", [batched], x.dtype, batched.shape[:2] + tuple(output), output=output)
    return e.reshape(y, e.shape)


# --- norms and attention ----------------------------------------------------------------------------------------------
def _parameters(e, x, weight, bias, extent):
    """Norm parameters in x's dtype or f32; a missing weight before a bias is a full of ones."""
    fit = lambda v: v if v is None or v.dtype == x.dtype or v.dtype == "f32" else e.cast(v, x.dtype)
    weight, bias = fit(weight), fit(bias)
    if weight is None and bias is not None:
        weight = e.full(1, bias.dtype, [extent])
    if weight is not None and bias is not None and weight.dtype != bias.dtype:
        weight, bias = e.cast(weight, "f32"), e.cast(bias, "f32")
    return [weight, bias]


@row("native_layer_norm")
def _(e, x, normalized_shape, weight, bias, eps):
    count = len(normalized_shape)
    weight, bias = _parameters(e, x, weight, bias, 1)
    if weight is not None and weight.rank == 1 and count > 1:
        weight = e.expand(e.reshape(weight, [1] * count), normalized_shape)
    elif weight is not None and not same_shape(weight.shape, symexpr.sizes(normalized_shape)):
        weight = e.expand(weight, normalized_shape)
    y = e.op("layer_norm", [x, weight, bias], x.dtype, x.shape, axes_count=count, eps=float(eps))
    mean = rstd = None
    if e.used(1) or e.used(2):
        axes, wide = list(range(x.rank - count, x.rank)), e.cast(x, "f32") if x.dtype in HALVES else x
        mean = e.cast(e.reduce("mean", wide, axes, True), dtype_of(e.fake[1].dtype))
        variance = e.reduce("var", wide, axes, True, correction=0.0)
        rstd = e.map("rsqrt", e.map("add", variance, e.scalar_like(variance, float(eps))))
        rstd = e.cast(rstd, dtype_of(e.fake[2].dtype))
    return y, mean, rstd


@row("native_group_norm")
def _(e, x, weight, bias, n, c, hxw, group, eps):
    weight, bias = _parameters(e, x, weight, bias, x.shape[1])
    return e.op("group_norm", [x, weight, bias], x.dtype, x.shape, groups=group, eps=float(eps)), None, None


@row("_native_batch_norm_legit_no_training")
def _(e, x, weight, bias, mean, var, momentum, eps):
    extent = x.shape[1]
    weight, bias = _parameters(e, x, weight, bias, extent)
    parameters = [mean, var] + [v for v in (weight, bias) if v is not None]
    if any(v.dtype != parameters[0].dtype for v in parameters):
        parameters = [e.cast(v, "f32") for v in parameters]
    y = e.op("batch_norm", [x, *parameters], x.dtype, x.shape, eps=float(eps))
    empty = [e.full(0, dtype_of(f.dtype), f.shape) if e.used(i) else None for i, f in enumerate(e.fake) if i > 0]
    return (y, *empty)


@row("_scaled_dot_product_flash_attention_for_cpu")
def _(e, q, k, v, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    if dropout_p:
        raise Unsupported("attention with dropout draws random numbers")
    if e.used(1):
        raise Unsupported("the log-sum-exp of attention")
    if scale is None:
        if not isinstance(q.shape[-1], int):
            raise Unsupported("attention over a symbolic head size")
        scale = 1.0 / math.sqrt(q.shape[-1])
    if attn_mask is not None and attn_mask.dtype != q.dtype:
        attn_mask = e.cast(attn_mask, q.dtype)
    y = e.op("attention", [q, k, v, attn_mask], q.dtype, symexpr.sizes(e.fake[0].shape), causal=bool(is_causal),
             scale=float(scale))
    return y, None

"""Rows of matrix products, convolutions, pooling, norms, attention and recurrent layers. How rows are written: row.py.

Tested by tests/torch/test_lower.py and test_recurrent.py.
"""

import torch

from ...graph_text import Unsupported
from ..lowering import sizes
from ..lowering.scores import attention_and_logsumexp, depends_on_sizes, for_attention
from ..lowering.sizes import same_shape
from ..lowering.tensors import CPU, dtype_of
from .backward import group_norm_statistics
from .index import neutral
from .map import number_is, scaled
from .pool import max_pool_with_indices
from .row import row


# --- contract ---------------------------------------------------------------------------------------------------------
@row("mm", "bmm", "mv", "dot")
def _(e, a, b):
    return e.matmul(a, b)


@row("_int_mm")
def _(e, a, b):
    if e.device != CPU:
        raise Unsupported("an integer matrix product on a GPU, for which PyTorch calls a library")
    if sizes.is_one(a.shape[0]) or sizes.is_one(b.shape[1]):
        raise Unsupported("an integer matrix product with one row or column, which PyTorch computes faster")
    return e.op("int_matmul", [a, b], "i32", (a.shape[0], b.shape[1]))


@row("_weight_int8pack_mm")
def _(e, x, w, scales):
    """w: weights of 8 bits, with a scale for each row. A 16-bit float represents such a weight exactly."""
    if x.dtype == "f16":  # sums may overflow f16
        x = e.wide(x)
    return e.map("mul", e.matmul(x, e.swap(e.cast(w, x.dtype), 0, 1)), e.cast(scales, x.dtype))


def _grouped(e, name, a, ends, b):
    if e.device != CPU:
        raise Unsupported("a grouped matrix product on a GPU, for which PyTorch calls a library")
    if a.dtype not in ("f32", "bf16", "f16"):
        raise Unsupported(f"a grouped matrix product in {a.dtype}, for which PyTorch calls a library")
    shape = (a.shape[0], b.shape[2]) if name == "grouped_matmul" else (ends.shape[0], a.shape[1], b.shape[1])
    return e.op(name, [a, ends, b], a.dtype, shape)


@row("_grouped_mm")
def _(e, a, b, offs=None, bias=None, out_dtype=None):
    """The groups divide the rows of a (b has one matrix per group), the columns of b (a has one per group), or, if both are matrices,
    the axis that is summed over."""
    if bias is not None:
        raise Unsupported("a grouped matrix product with a bias")
    if a.rank == 3 and b.rank == 3:
        return e.matmul(a, b)
    if a.rank == 2 and b.rank == 2:
        return _grouped(e, "grouped_outer", e.swap(a, 0, 1), offs, b)
    if a.rank == 2:
        return _grouped(e, "grouped_matmul", a, offs, b)
    return e.swap(_grouped(e, "grouped_matmul", e.swap(b, 0, 1), offs, e.swap(a, 1, 2)), 0, 1)


@row("transformers.grouped_mm_fallback")
def _(e, a, b, offs):
    return _grouped(e, "grouped_matmul", a, offs, b)


@row("transformers.grouped_mm_fallback_backward")
def _(e, a, b, offs, dy):
    return _grouped(e, "grouped_matmul", dy, offs, e.swap(b, 1, 2)), _grouped(e, "grouped_outer", a, offs, dy)


@row("addmm", "baddbmm", "addmv", "addbmm")
def _(e, bias, a, b, beta=1, alpha=1):
    product = e.matmul(a, b)
    if e.target._opname == "addbmm":
        product = e.reduce("sum", product, [0])
    if not number_is(beta, 0) and not (number_is(beta, 1) and number_is(alpha, 1)):
        product, bias = e.wide(product), e.wide(bias)
    product = scaled(e, product, alpha)
    return product if number_is(beta, 0) else e.map("add", product, scaled(e, bias, beta))


_LONG_SUM, _FEW_FILTERS = 64, 8


def not_long_sums_of_f64(e, x, w):
    """Raises Unsupported for a convolution of f64 that PyTorch computes as a matrix product. Loops take up to 2.2 times as long."""
    if x.dtype != "f64" or e.device != CPU:
        return
    limits = (sizes.product(w.shape[1:]), _LONG_SUM), (w.shape[0], _FEW_FILTERS)
    if not any(isinstance(n, int) and n < least for n, least in limits):
        raise Unsupported("a convolution of f64 over many channels, which PyTorch computes faster")


@row("convolution")
def _(e, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    spatial = x.rank - 2
    not_long_sums_of_f64(e, x, w)
    stride, padding, dilation, output_padding = (_each(n, spatial) for n in (stride, padding, dilation, output_padding))
    return e.op("convolution", [x, w, bias], e.dtype, e.shape, strides=stride, padding=padding, padding_high=padding,
                dilations=dilation, groups=groups, transposed=bool(transposed), output_padding=output_padding,
                tf32=e.tf32(x, torch.backends.cudnn.conv))


def _each(values, count):
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * count if len(values) == 1 else values


def _batched(e, x, spatial):
    return x if x.rank == spatial + 2 else e.reshape(x, (1,) + x.shape)


def _high_padding(x, shape, kernel, stride, padding, dilation, ceil_mode):
    """How much to pad at the end of each axis, so that there are exactly as many windows as in PyTorch."""
    if not ceil_mode:
        return list(padding)
    extents, result = list(x.shape)[-len(kernel):], list(shape)[-len(kernel):]
    needed = [(o - 1) * s + d * (k - 1) + 1 - n - p
              for o, s, d, k, n, p in zip(result, stride, dilation, kernel, extents, padding)]
    return [sizes.size(n) for n in needed]


def _are_attributes(amounts):
    """Whether these amounts of padding can be attributes of a pooling. An amount is negative if no window reaches the last
    elements."""
    return all(isinstance(n, int) and n >= 0 for n in amounts)


@row("max_pool2d_with_indices", "max_pool3d_with_indices")
def _(e, x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    spatial = 2 if "2d" in e.target._opname else 3
    kernel, padding, dilation = _each(kernel_size, spatial), _each(padding, spatial), _each(dilation, spatial)
    stride = _each(stride, spatial) if stride else kernel
    fake = sizes.sizes(e.fake[0].shape)
    batched = _batched(e, x, spatial)
    high = _high_padding(x, fake, kernel, stride, padding, dilation, ceil_mode)
    if e.used(1):
        y, places = max_pool_with_indices(e, batched, kernel, stride, padding, high, dilation)
        return e.reshape(y, fake), e.reshape(places, fake)
    if not _are_attributes(high):  # an op before the pooling pads or crops
        batched = e.pad(batched, [0, 0, *padding], [0, 0, *high], neutral("max", x.dtype))
        padding = high = [0] * spatial
    y = e.op("max_pool", [batched], x.dtype, batched.shape[:2] + fake[-spatial:], kernel=kernel, strides=stride,
             padding=padding, padding_high=high, dilations=dilation)
    return e.reshape(y, fake), None


@row("avg_pool2d", "avg_pool3d")
def _(e, x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    spatial = int(e.target._opname[-2])
    kernel, padding = _each(kernel_size, spatial), _each(padding, spatial)
    stride = _each(stride, spatial) if stride else list(kernel)
    for i, (n, windows) in enumerate(zip(x.shape[-spatial:], e.shape[-spatial:])):
        # A single window that is longer than the image averages all of it: elements behind the padding do not count.
        if padding[i] == 0 and all(isinstance(size, int) for size in (n, windows, kernel[i])) and windows == 1 and kernel[i] > n:
            kernel[i] = stride[i] = n
    high = _high_padding(x, e.shape, kernel, stride, padding, [1] * spatial, ceil_mode)
    count_include_pad = bool(count_include_pad) and any(padding)  # elements behind the padding never count
    batched = _batched(e, x, spatial)
    if not _are_attributes(high):
        return _averages_of_padded(e, batched, kernel, stride, padding, high, count_include_pad, divisor_override)
    y = e.op("avg_pool", [batched], x.dtype, batched.shape[:2] + e.shape[-spatial:], kernel=kernel, strides=stride,
             padding=padding, padding_high=high, count_include_pad=count_include_pad,
             divisor=divisor_override or None)
    return e.reshape(y, e.shape)


def _averages_of_padded(e, x, kernel, stride, padding, high, count_include_pad, divisor):
    """Average pooling whose padding cannot be an attribute: an op before it pads or crops, and the divisor of each window is
    computed."""
    rank, number = len(kernel), lambda n: e.full(n, "i64")
    y = e.pad(e.wide(x), [0, 0, *padding], [0, 0, *high])
    output, none = e.shape[-rank:], [0] * rank
    y = e.op("avg_pool", [y], y.dtype, x.shape[:2] + output, kernel=kernel, strides=stride, padding=none, padding_high=none,
             divisor=1)
    count = number(divisor) if divisor else None
    for axis in range(rank if not divisor else 0):
        begin = e.map("sub", e.map("mul", e.iota([output[axis]]), number(stride[axis])), number(padding[axis]))
        end = e.map("add", begin, number(kernel[axis]))
        low, top = (-padding[axis], padding[axis]) if count_include_pad else (0, 0)
        end = e.map("minimum", end, number(sizes.size(x.shape[2 + axis] + top)))
        length = e.map("sub", end, e.map("maximum", begin, number(low)))
        length = e.reshape(length, (output[axis],) + (1,) * (rank - axis - 1))
        count = length if count is None else e.map("mul", count, length)
    return e.reshape(e.cast(e.map("div", y, e.cast(count, y.dtype)), x.dtype), e.shape)


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _(e, x, output_size):
    spatial = int(e.target._opname[-2])
    batched = _batched(e, x, spatial)
    output = list(e.shape[-spatial:])
    if sizes.is_empty(output):
        raise Unsupported("adaptive pooling to no elements")
    y = e.op("adaptive_avg_pool", [batched], x.dtype, batched.shape[:2] + tuple(output), output=output)
    return e.reshape(y, e.shape)


# --- norms and attention ----------------------------------------------------------------------------------------------
def _parameters(e, x, weight, bias, extent):
    """(weight, bias) of a norm, in x's dtype or f32. If there is a bias but no weight, the weight is ones."""
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
    elif weight is not None and not same_shape(weight.shape, sizes.sizes(normalized_shape)):
        weight = e.expand(weight, normalized_shape)
    y = e.op("layer_norm", [x, weight, bias], x.dtype, x.shape, axes_count=count, eps=float(eps))
    mean = rstd = None
    if e.used(1) or e.used(2):
        mean, rstd = _mean_and_rstd(e, e.wide(x), list(range(x.rank - count, x.rank)), eps)
    return y, mean, rstd


def _mean_and_rstd(e, v, axes, eps):
    """Results 1 and 2 of a norm over these axes, which keep size 1: the mean and 1 / sqrt(variance + eps)."""
    mean = e.reduce("mean", v, axes, True)
    variance = e.reduce("var", v, axes, True, correction=0.0)
    rstd = e.map("rsqrt", e.map("add", variance, e.scalar_like(variance, float(eps))))
    return mean, rstd


@row("native_group_norm")
def _(e, x, weight, bias, n, c, hxw, group, eps):
    weight, bias = _parameters(e, x, weight, bias, x.shape[1])
    y = e.op("group_norm", [x, weight, bias], x.dtype, x.shape, groups=group, eps=float(eps))
    if e.used(1) or e.used(2):
        return y, *group_norm_statistics(e, x, group, eps, False)
    return y, None, None


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


def _first_of_attention(e, q, k, v, dropout_p, is_causal, mask, scale, whole):
    """The first result of an attention op. The others are log-sum-exps and seeds for a backward pass; a node is refused if any node
    reads them."""
    results = len(e.fake)
    if dropout_p:
        raise Unsupported("attention with dropout, which draws random numbers")
    if any(e.used(i) for i in range(1, results)):
        raise Unsupported("a result of attention other than the first (log-sum-exp, seeds)")
    return (_attention(e, q, k, v, mask, is_causal, scale, whole=whole),) + (None,) * (results - 1)


@row("tenon.attention")
def _attention(e, q, k, v, mask, is_causal, scale, kept=None, dropout=0.0, whole=None):
    dtype = q.dtype
    if whole and depends_on_sizes(q, scale):
        raise Unsupported("attention by a library with a scale that depends on sizes")
    (q, k, v), scale, _ = for_attention(e, (q, k, v), scale)
    if mask is not None and mask.dtype != q.dtype:
        mask = e.cast(mask, q.dtype)
    y = e.op("attention", [q, k, v, mask, kept], q.dtype, (*q.shape[:3], v.shape[3]), causal=bool(is_causal), **scale, whole=whole,
             dropout=dropout or None)
    return e.cast(y, dtype)


@row("_scaled_dot_product_flash_attention_for_cpu")
def _(e, q, k, v, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    if e.used(1) and not dropout_p:
        return attention_and_logsumexp(e, q, k, v, is_causal, attn_mask, scale)
    return _first_of_attention(e, q, k, v, dropout_p, is_causal, attn_mask, scale, None)


# On a GPU, PyTorch's attention stores no scores. Tenon takes it if a library can compute it without storing them too.
@row("_scaled_dot_product_flash_attention")
def _(e, q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    return _first_of_attention(e, q, k, v, dropout_p, is_causal, None, scale, True)


@row("_scaled_dot_product_efficient_attention")
def _(e, q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, scale=None):
    return _first_of_attention(e, q, k, v, dropout_p, is_causal, attn_bias, scale, True)


@row("_scaled_dot_product_cudnn_attention")
def _(e, q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    return _first_of_attention(e, q, k, v, dropout_p, is_causal, attn_bias, scale, True)


# --- recurrent layers, which ../whole/recurrent.py composes -----------------------------------------------------------
@row("tenon.recurrent")
def _(e, x, h, w, b, c, p, mode, reverse):
    shape = (*x.shape[:2], h.shape[1])
    operands = [x, h, w, b, c, p]
    if not e.used(1):
        return e.op("recurrent", operands, "f32", shape, mode=mode, reverse=reverse), None
    if mode != "lstm":
        raise Unsupported("the cell of a recurrent layer that has none")
    states, cell = _parts(e, "recurrent", operands, (shape, c.shape), mode=mode, reverse=reverse, cell=True)
    return states, cell


@row("tenon.recurrent_gradient")
def _(e, dy, dcell, y, h, w, x, s, c, mode, reverse):
    gates = (*y.shape[:2], w.shape[0])
    shapes = {"lstm": (gates, h.shape, c and c.shape), "gru": (gates, gates, h.shape)}.get(mode, (gates, h.shape))
    operands = [y, dy, h, w] + ([x, s] if x else []) + ([c, dcell] if c else [])
    dx, *more = _parts(e, "recurrent_gradient", operands, shapes, mode=mode, reverse=reverse)
    ds = more.pop(0) if mode == "gru" else None
    return dx, ds, more[0], more[1] if mode == "lstm" else None


def _parts(e, op, operands, shapes, **attrs):
    """Values of the shapes, which lie one after the other in the vector that an op returns."""
    counts = [sizes.product(shape) for shape in shapes]
    vector = e.op(op, operands, "f32", (sizes.size(sum(counts)),), **attrs)
    starts = [sizes.size(sum(counts[:i])) for i in range(len(counts) + 1)]
    return [e.reshape(e.slice(vector, 0, start, end), shape) for start, end, shape in zip(starts, starts[1:], shapes)]


@row(*(f"tenon.whole_{mode}" for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu")))
def _(e, x, *rest):
    """Refuses the layers that ../whole/recurrent.py leaves to PyTorch, and says why."""
    raise Unsupported("a recurrent layer " + ("on a GPU" if e.device.type != "cpu" else f"of {x.dtype}" if x.dtype != "f32" else "of no elements or inside a transform of torch.func"))

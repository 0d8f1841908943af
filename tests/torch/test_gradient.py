"""Gradient graphs of Tenon, run as programs, against torch.autograd: activations, norms, products, convolutions, poolings,
attention, indexing, reductions and scans; where a function has no derivative; batches of 2 and 3, odd sizes, symbolic and constant.
Compiled functions against finite differences."""

import ctypes
from ctypes import POINTER, c_int32, c_void_p

import pytest
import torch
import torch.nn.functional as F

import tenon
from tenon import _abi

from sample import in_turn

NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool", torch.bfloat16: "bf16"}
CODES = {torch.float32: (2, 32), torch.float64: (2, 64), torch.int64: (0, 64), torch.bool: (6, 8), torch.bfloat16: (4, 16)}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", POINTER(ctypes.c_int64)), ("strides", c_void_p),
                ("offset", ctypes.c_uint64)]


def gradient(text):
    """The text of the graph with the outputs and the gradients by all float inputs, one head per output."""
    return _abi.gradient(text, keep_outputs=True)


def run(text, inputs, outputs):
    """Runs the graph on contiguous tensors."""
    program = _abi.Program(text)

    def pointers(tensors):
        made = []
        for t in tensors:
            assert t.is_contiguous()
            shape = (ctypes.c_int64 * max(t.dim(), 1))(*t.shape)
            made.append(Tensor(t.data_ptr(), 1, 0, t.dim(), *CODES[t.dtype], 1, shape, None, 0))
        return (c_void_p * len(made))(*map(ctypes.addressof, made)), made

    (ins, keep_in), (outs, keep_out) = pointers(inputs), pointers(outputs)
    _abi.check(_abi.library().tenon_program_run_on(program.handle, ins, len(inputs), outs, len(outputs), None))
    return program, keep_in, keep_out


def compare(body, function, tensors, tolerance, shapes=None):
    """body: lines that compute %y from %a, %b, ...; T stands for the dtype of the floats. function: the same in PyTorch, which
    computes in f64. shapes: how the graph declares the tensors, if not by their sizes."""
    tensors = [t.contiguous() for t in tensors]
    dtype = next(t.dtype for t in tensors if t.is_floating_point())
    exact = [t.double().requires_grad_() if t.is_floating_point() else t for t in tensors]
    y = function(*exact)
    head = torch.randn(y.shape, dtype=torch.float64).to(dtype)
    floats = [t for t in exact if t.requires_grad]
    want = torch.autograd.grad(y, floats, head.to(y.dtype), allow_unused=True)
    shapes = shapes or [t.shape for t in tensors]
    types = [f"%{name}: {NAMES[t.dtype]}[{','.join(map(str, shape))}]" for name, t, shape in zip("abcdef", tensors, shapes)]
    text = gradient(f"graph @g({', '.join(types)}) {{\n{body.replace('T', NAMES[dtype])}\nreturn %y\n}}")
    got = [torch.full(y.shape, float("nan"), dtype=dtype)] + [torch.full(t.shape, float("nan"), dtype=dtype) for t in floats]
    run(text, [*tensors, head], got)
    for result, right in zip(got, [y.detach()] + [torch.zeros_like(t) if g is None else g for t, g in zip(floats, want)]):
        torch.testing.assert_close(result.double(), right.double(), rtol=tolerance, atol=tolerance * 8, equal_nan=True)


def randn(*shape):
    return torch.randn(shape, dtype=torch.float64)


def positive(*shape):
    return torch.rand(shape, dtype=torch.float64) * 3 + 0.1


def inside(*shape):
    return torch.rand(shape, dtype=torch.float64) * 1.8 - 0.9


def index(high, *shape):
    return torch.randint(high, shape)


def corners(*shape):
    """Small whole numbers, so that functions are at their corners and elements are equal."""
    return torch.randint(-3, 4, shape).double()


MAPS = {"neg abs square exp exp2 expm1 sigmoid tanh erf erfc sin cos atan sinh cosh asinh": randn,
        "reciprocal sqrt rsqrt log log2 log10 log1p tan lgamma digamma": positive, "asin acos atanh": inside}
SPECIAL = {"erfinv": inside, "i0": randn, "i0e": randn, "i1": randn, "i1e": randn, "ndtri": lambda *s: positive(*s) / 4, "erfcx": randn}
BINARY = {"add": randn, "sub": randn, "mul": randn, "div": positive, "atan2": randn, "pow": positive, "maximum": corners, "minimum": corners,
          "remainder": positive, "fmod": positive}
ACTIVATIONS = {"relu": F.relu, "leaky_relu": F.leaky_relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu, "mish": F.mish, "softplus": F.softplus,
               "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "hardtanh": F.hardtanh}

CASES = {}
for words, make in MAPS.items():
    for name in words.split():
        CASES[name] = (f"%y = {name}(%a)", getattr(torch, name), lambda n, make=make: [make(n, 7)])
for name, make in SPECIAL.items():
    function = getattr(torch.special, name)
    CASES[name] = (f"%y = {name}(%a)", function, lambda n, make=make: [make(n, 5)])
for name, make in BINARY.items():
    CASES[name] = (f"%y = {name}(%a, %b)", getattr(torch, name), lambda n, make=make: [make(n, 7), make(7)])
for name, function in ACTIVATIONS.items():
    CASES[name] = (f"%y = {name}(%a)", function, lambda n: [randn(n, 37) * 3])
    CASES[f"{name}_corner"] = (f"%y = {name}(%a)", function, lambda n: [corners(n, 37)])


def bn(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


def heads(n, q, k, g, last=False):
    return [randn(n, q, 4, 8), randn(n, k, g, 8), randn(n, k, g, 8)] if last else [randn(n, 4, q, 8), randn(n, g, k, 8), randn(n, g, k, 8)]


CONV = "{{strides={0}, padding={1}, padding_high={1}, dilations={2}, groups={3}}}"
POOL = "{{kernel={0}, strides={1}, padding={2}, padding_high={2}}}"
CASES |= {
    "gelu_tanh": ('%y = gelu(%a){approximate="tanh"}', lambda a: F.gelu(a, approximate="tanh"), lambda n: [randn(n, 7)]),
    "pow_number": ("%e = full{value=3, shape=[], dtype=T}\n%y = pow(%a, %e)", lambda a: a**3, lambda n: [corners(n, 5)]),
    "pow_zero": ("%y = pow(%a, %b)", torch.pow, lambda n: [torch.tensor([0.0, 0, 1, 2]).double().expand(n, 4), torch.tensor([0.0, 2, 0, 3]).double()]),
    "clamp": ("%y = clamp(%a, %b, %c)", torch.clamp, lambda n: [corners(n, 9), corners(9), corners(9)]),
    "where": ("%y = where(%c, %a, %b)", lambda a, b, c: torch.where(c, a, b), lambda n: [randn(n, 5), randn(5), index(2, n, 5).bool()]),
    "sum": ("%y = sum(%a){axes=[0,2]}", lambda a: a.sum([0, 2]), lambda n: [randn(n, 3, 5)]),
    "mean": ("%y = mean(%a){axes=[1]}", lambda a: a.mean(1), lambda n: [randn(n, 3, 5)]),
    "var": ("%y = var(%a){axes=[1,2]}", lambda a: a.var([1, 2]), lambda n: [randn(n, 3, 5)]),
    "max": ("%y = max(%a){axes=[1]}", lambda a: a.amax(1), lambda n: [corners(n, 7, 5)]),
    "min": ("%y = min(%a){axes=[0,2], keepdims=true}", lambda a: a.amin([0, 2], keepdim=True), lambda n: [corners(n, 7, 5)]),
    "prod": ("%y = prod(%a){axes=[1]}", lambda a: a.prod(1), lambda n: [corners(n, 4, 5)]),
    "cumsum": ("%y = cumsum(%a){axis=1}", lambda a: a.cumsum(1), lambda n: [randn(n, 9)]),
    "cumprod": ("%y = cumprod(%a){axis=1}", lambda a: a.cumprod(1), lambda n: [corners(n, 9)]),
    "cummax": ("%y = cummax(%a){axis=1}", lambda a: a.cummax(1)[0], lambda n: [corners(n, 9)]),
    "cummin": ("%y = cummin(%a){axis=0}", lambda a: a.cummin(0)[0], lambda n: [corners(n, 9)]),
    "softmax": ("%y = softmax(%a){axis=1}", lambda a: a.softmax(1), lambda n: [randn(n, 11)]),
    "log_softmax": ("%y = log_softmax(%a){axis=-1}", lambda a: a.log_softmax(-1), lambda n: [randn(n, 3, 11)]),
    "logsumexp": ("%y = logsumexp(%a){axes=[1]}", lambda a: a.logsumexp(1), lambda n: [randn(n, 11)]),
    "layer_norm": ("%y = layer_norm(%a, %b, %c){axes_count=2, eps=1e-5}", lambda a, b, c: F.layer_norm(a, (5, 7), b, c),
                   lambda n: [randn(n, 5, 7), randn(5, 7), randn(5, 7)]),
    "rms_norm": ("%y = rms_norm(%a, %b){axes_count=1, eps=1e-5}", lambda a, b: F.rms_norm(a, (7,), b, 1e-5), lambda n: [randn(n, 5, 7), randn(7)]),
    "group_norm": ("%y = group_norm(%a, %b, %c){groups=3, eps=1e-5}", lambda a, b, c: F.group_norm(a, 3, b, c),
                   lambda n: [randn(n, 6, 5), randn(6), randn(6)]),
    "instance_norm": ("%y = instance_norm(%a){eps=1e-5}", F.instance_norm, lambda n: [randn(n, 6, 5, 3)]),
    "batch_norm": ("%m = mean(%a){axes=[0,2]}\n%v = var(%a){axes=[0,2], correction=0}\n%y = batch_norm(%a, %m, %v, %b, %c){eps=1e-5}", bn,
                   lambda n: [randn(n, 6, 5), randn(6), randn(6)]),
    "matmul": ("%y = matmul(%a, %b)", torch.matmul, lambda n: [randn(n, 5, 7), randn(7, 3)]),
    "matmul_batches": ("%y = matmul(%a, %b)", torch.matmul, lambda n: [randn(n, 1, 5, 7), randn(2, 7, 3)]),
    "matmul_vectors": ("%v = matmul(%a, %b)\n%y = matmul(%c, %v)", lambda a, b, c: c @ (a @ b), lambda n: [randn(n, 7), randn(7), randn(4, n)]),
    "linear": ("%y = linear(%a, %b, %c)", F.linear, lambda n: [randn(n, 5, 7), randn(3, 7), randn(3)]),
    "convolution": ("%y = convolution(%a, %b, %c)" + CONV.format("[1,1]", "[1,1]", "[1,1]", 1), lambda a, b, c: F.conv2d(a, b, c, padding=1),
                    lambda n: [randn(n, 3, 7, 6), randn(4, 3, 3, 3), randn(4)]),
    "convolution_strided": ("%y = convolution(%a, %b)" + CONV.format("[2,3]", "[1,0]", "[2,1]", 2),
                            lambda a, b: F.conv2d(a, b, stride=(2, 3), padding=(1, 0), dilation=(2, 1), groups=2),
                            lambda n: [randn(n, 4, 9, 8), randn(6, 2, 3, 2)]),
    "convolution_transposed": ("%y = convolution(%a, %b, %c){strides=[2], padding=[1], padding_high=[1], dilations=[1], transposed=true, "
                               "output_padding=[1], groups=2}",
                               lambda a, b, c: F.conv_transpose1d(a, b, c, 2, 1, 1, 2), lambda n: [randn(n, 4, 5), randn(4, 3, 3), randn(6)]),
    "convolution_3d": ("%y = convolution(%a, %b)" + CONV.format("[1,2,1]", "[0,1,1]", "[1,1,1]", 1),
                       lambda a, b: F.conv3d(a, b, stride=(1, 2, 1), padding=(0, 1, 1)), lambda n: [randn(n, 2, 4, 5, 3), randn(3, 2, 2, 3, 3)]),
    "max_pool": ("%y = max_pool(%a)" + POOL.format("[3,2]", "[2,1]", "[1,0]"), lambda a: F.max_pool2d(a, (3, 2), (2, 1), (1, 0)),
                 lambda n: [corners(n, 3, 7, 6)]),
    "max_pool_apart": ("%y = max_pool(%a)" + POOL.format("[2,2]", "[2,2]", "[0,0]"), lambda a: F.max_pool2d(a, 2), lambda n: [corners(n, 3, 7, 6)]),
    "avg_pool": ("%y = avg_pool(%a)" + POOL.format("[3,3]", "[2,2]", "[1,1]"), lambda a: F.avg_pool2d(a, 3, 2, 1), lambda n: [randn(n, 3, 7, 6)]),
    "avg_pool_of_neighbours": ("%y = avg_pool(%a)" + POOL.format("[2,5]", "[1,1]", "[1,2]"),
                               lambda a: F.avg_pool2d(F.pad(a, (2, 2, 1, 1)), (2, 5), 1), lambda n: [randn(n, 3, 7, 6)]),
    "adaptive_avg_pool_to_more": ('%y = adaptive_avg_pool(%a){output=[3,8], layout="channels_last"}',
                                  lambda a: F.adaptive_avg_pool2d(a.permute(0, 3, 1, 2), (3, 8)).permute(0, 2, 3, 1),
                                  lambda n: [randn(n, 6, 5, 3)]),
    "adaptive_avg_pool": ("%y = adaptive_avg_pool(%a){output=[3,2]}", lambda a: F.adaptive_avg_pool2d(a, (3, 2)), lambda n: [randn(n, 3, 7, 6)]),
    "attention": ("%y = attention(%a, %b, %c, %d){scale=0.4}", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.4),
                  lambda n: [*heads(n, 5, 7, 4), randn(5, 7)]),
    "attention_causal": ("%y = attention(%a, %b, %c){scale=0.4, causal=true}",
                         lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4, enable_gqa=True),
                         lambda n: heads(n, 6, 6, 2)),
    "attention_last": ('%y = attention(%a, %b, %c){scale=0.4, layout="heads_last"}',
                       lambda q, k, v: F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), scale=0.4).transpose(1, 2),
                       lambda n: heads(n, 5, 7, 4, last=True)),
    "gather": ("%y = gather(%a, %b){axis=1}", lambda a, b: a[:, b], lambda n: [randn(n, 7, 3), index(7, 4, 5)]),
    "embedding": ("%y = gather(%b, %a){axis=0}", lambda a, b: F.embedding(a, b), lambda n: [index(9, n, 6), randn(9, 5)]),
    "take_along": ("%y = take_along(%a, %b){axis=1}", lambda a, b: a.gather(1, b), lambda n: [randn(n, 7), index(7, n, 9)]),
    "scatter_add": ('%y = scatter(%a, %b, %c){axis=1, mode="add"}', lambda a, b, c: a.scatter_add(1, b, c),
                    lambda n: [randn(n, 7), index(7, n, 5), randn(n, 5)]),
    "scatter_max": ('%y = scatter(%a, %b, %c){axis=1, mode="max"}', lambda a, b, c: a.scatter_reduce(1, b, c, "amax"),
                    lambda n: [corners(n, 7), index(7, n, 9), corners(n, 9)]),
    "scatter_mul": ('%y = scatter(%a, %b, %c){axis=1, mode="mul"}', lambda a, b, c: a.scatter_reduce(1, b, c, "prod"),
                    lambda n: [randn(n, 7), index(7, n, 9), randn(n, 9)]),
    "index_put": ("%y = index_put(%a, %b, %c){axis=1}", lambda a, b, c: a.index_copy(1, b, c), lambda n: [randn(n, 7, 2), torch.tensor([4, 1, 6]), randn(n, 3, 2)]),
    "views": ("%t = transpose(%a){perm=[1,0,2]}\n%f = flip(%t){axes=[0]}\n%s = slice(%f){axis=0, start=1, end=6, step=2}\n%y = pad(%s){low=[1,0,-1], high=[0,0,2]}",
              lambda a: F.pad(a.transpose(0, 1).flip(0)[1:6:2], (-1, 2, 0, 0, 1, 0)), lambda n: [randn(n, 6, 4)]),
    "concat": ("%y = concat(%a, %b, %a){axis=1}", lambda a, b: torch.cat([a, b, a], 1), lambda n: [randn(n, 3), randn(n, 4)]),
    "split": ("%p = slice(%a){axis=1, end=3}\n%q = slice(%a){axis=1, start=3, end=8}\n%s = sin(%q)\n%t = sum(%s){axes=[1], keepdims=true}\n%y = mul(%p, %t)",
              lambda a: a[:, :3] * a[:, 3:].sin().sum(1, keepdim=True), lambda n: [randn(n, 8)]),
}
HERE_ONLY = {"lgamma", "digamma", "erfinv", "ndtri", "hardsigmoid", "hardsigmoid_corner"}  # PyTorch's f64 functions are less exact


WAYS = [(torch.float64, 2), (torch.float32, 2), (torch.float32, 3), (torch.float64, 3)]  # two of them, two apart, have both dtypes and both batches


@pytest.mark.parametrize("name, way", in_turn(CASES, WAYS, count=2), ids=lambda x: x if isinstance(x, str) else f"{NAMES[x[0]]}-{x[1]}")
def test_a_gradient_is_pytorchs(name, way):
    (body, function, make), (dtype, batch) = CASES[name], way
    tensors = [t.to(dtype) if t.is_floating_point() else t for t in make(batch)]
    # For a batch of 3 the sizes that depend on the batch are symbolic.
    shapes = [["N" if size != other else size for size, other in zip(t.shape, u.shape)] for t, u in zip(tensors, make(2))]
    exact = 1e-7 if name in HERE_ONLY else 1e-10
    compare(body, function, tensors, exact if dtype == torch.float64 else 2e-5, shapes)


def test_a_transformer_block():
    body = """%h = layer_norm(%a, %b){axes_count=1, eps=1e-5}
%q = matmul(%h, %c)
%r = reshape(%q){shape=[3,9,4,8]}
%t = attention(%r, %r, %r){scale=0.35, layout="heads_last", causal=true}
%u = reshape(%t){shape=[3,9,32]}
%x = add(%u, %a)
%v = linear(%x, %d)
%g = gelu(%v)
%w = matmul(%g, %d)
%y = add(%w, %x)"""

    def block(a, b, c, d):
        r = (F.layer_norm(a, (32,), b) @ c).view(3, 9, 4, 8).transpose(1, 2)
        x = F.scaled_dot_product_attention(r, r, r, is_causal=True, scale=0.35).transpose(1, 2).reshape(3, 9, 32) + a
        return F.gelu(F.linear(x, d)) @ d + x

    tensors = [randn(3, 9, 32), randn(32), randn(32, 32) / 6, randn(48, 32) / 6]
    compare(body, block, tensors, 1e-9)
    compare(body, block, [t.float() for t in tensors], 1e-4)
    compare(body, block, [t.bfloat16() for t in tensors], 0.05)


def test_many_convolutions():
    """A residual network of a few layers with batch statistics: values with several uses, strides, pooling."""
    layer = """%c{0} = convolution({1}, %b){{strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]}}
%m{0} = mean(%c{0}){{axes=[0,2,3]}}
%v{0} = var(%c{0}){{axes=[0,2,3], correction=0}}
%n{0} = batch_norm(%c{0}, %m{0}, %v{0}){{eps=1e-5}}
%r{0} = relu(%n{0})
%s{0} = add(%r{0}, {1})"""
    body = "\n".join(layer.format(i, "%a" if i == 0 else f"%s{i - 1}") for i in range(4))
    body += "\n%p = max_pool(%s3)" + POOL.format("[2,2]", "[2,2]", "[0,0]") + "\n%y = adaptive_avg_pool(%p){output=[1,1]}"

    def network(a, b):
        for _ in range(4):
            a = F.relu(F.batch_norm(F.conv2d(a, b, padding=1), None, None, training=True)) + a
        return F.adaptive_avg_pool2d(F.max_pool2d(a, 2), 1)

    compare(body, network, [randn(2, 8, 9, 9), randn(8, 8, 3, 3) / 8], 1e-8)
    compare(body, network, [randn(2, 8, 9, 9).float(), (randn(8, 8, 3, 3) / 8).float()], 2e-4)


def images(*shape):
    """Images whose elements differ by far more than a finite difference."""
    return torch.randperm(torch.Size(shape).numel()).view(shape).double() / 8


IDS, CLASSES = torch.tensor([[3, 0, 3], [1, 3, 4]]), torch.tensor([2, -100, 0, 2])
COMPILED = {
    "attention": (F.scaled_dot_product_attention, lambda: heads(2, 3, 5, 4)),
    "attention_causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), lambda: heads(1, 4, 4, 2)),
    "attention_mask": (F.scaled_dot_product_attention, lambda: [*heads(2, 3, 4, 4), randn(3, 4)]),
    "cross_entropy": (lambda x: F.cross_entropy(x.sin(), CLASSES, torch.arange(5.0, dtype=x.dtype), label_smoothing=0.1), lambda: [randn(4, 5)]),
    "cross_entropy_of_classes": (lambda x: F.cross_entropy(x, CLASSES), lambda: [randn(4, 5)]),
    "nll_loss": (lambda x: F.nll_loss(x.sin(), CLASSES, reduction="sum"), lambda: [randn(4, 5)]),
    "embedding": (lambda w: F.embedding(IDS, w.sin()).exp(), lambda: [randn(5, 3)]),
    "select": (lambda x: x.select(1, -2).sin() * x[:, 0], lambda: [randn(3, 4, 2)]),
    "slice": (lambda x: x[:, 1:6:2].sin() * x[:, 3:] + x[1:].sum(), lambda: [randn(3, 6)]),
    "max_pool": (lambda x: F.max_pool2d(x.sinh(), 3, 2, 1), lambda: [images(2, 1, 6, 5) / 8]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x.sin(), (5,), w, b), lambda: [randn(3, 5), randn(5), randn(5)]),
    "softmax": (lambda x: x.softmax(1) * x.log_softmax(0), lambda: [randn(3, 5)]),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, 2, 1, groups=2).sin(), lambda: [randn(2, 4, 5, 4), randn(6, 2, 3, 3), randn(6)]),
    "convolution_transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1).sin(), lambda: [randn(1, 3, 4, 3), randn(3, 2, 3, 3)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True).sin(), lambda: [randn(3, 2, 4), randn(2), randn(2)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b).sin(), lambda: [randn(2, 4, 3), randn(4), randn(4)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w).sin(), lambda: [randn(3, 5), randn(5)]),
    "embedding_bag": (lambda w, a: F.embedding_bag(IDS, w.sin(), mode="sum", per_sample_weights=a), lambda: [randn(5, 3), randn(2, 3)]),
    "activations": (lambda x: F.gelu(x) * F.silu(x) + F.elu(x) * F.softplus(x) - F.mish(x) * F.gelu(x, approximate="tanh"), lambda: [randn(3, 5)]),
    "padding": (lambda x: F.pad(x, (1, 2, 2, 0), mode="reflect").sin() * F.pad(x, (2, 1, 0, 2)).cos(), lambda: [randn(1, 2, 4, 5)]),
    "resizing": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear").sin(), lambda: [randn(1, 2, 3, 4)]),
    "losses": (lambda x, y: F.huber_loss(x, y, delta=0.7) + F.kl_div(x.log_softmax(1), y.softmax(1), reduction="sum") + F.cosine_similarity(x, y).sum(),
               lambda: [randn(3, 5), randn(3, 5)]),
}


@pytest.mark.parametrize("name", COMPILED)
def test_finite_differences(name):
    function, make = COMPILED[name]
    assert torch.autograd.gradcheck(torch.compile(function, backend="tenon"), [t.requires_grad_() for t in make()], rtol=1e-6, atol=1e-7)
    assert tenon.stats()["fallbacks"] == 0 and tenon.stats()["calls"] > 2

"""The kernels of `./dev bench kernels`, at any size. Tested by tests/torch/test_bench.py."""

import math

import torch
import torch.nn.functional as F

COLS = 1024         # of a row
CHANNELS = 256      # of an image
HEADS, DEPTH = 16, 64
TABLES, WIDTH = 26, 64

aten = torch.ops.aten


def chain10(x, y):
    h = torch.sigmoid(x * 2 + y)
    h = (h - 0.5) * y
    h = torch.tanh(h).abs() + x
    return torch.clamp(h * h, max=4.0)


def rms_norm(x, w):
    return w * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


def rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


def embeddings(indices, *tables):
    return torch.stack([F.embedding(i, t) for i, t in zip(indices, tables)], 1)


def norm_backward(dy, x, mean, rstd, w, b):
    return aten.native_layer_norm_backward(dy, x, [COLS], mean, rstd, w, b, [True, True, True])


def kernels(size):
    """{name: (function, arguments)}. size: bytes of an operand that has all elements, in f32; at least 16 KiB."""
    torch.manual_seed(0)
    count = size // 4
    rows = count // COLS
    x, y, z = (torch.randn(rows, COLS) for _ in range(3))
    w, b = torch.rand(COLS) + 0.5, torch.randn(COLS)
    mask = torch.rand(rows, COLS) > 0.25
    side = min(64, math.isqrt(count // CHANNELS))
    images, gain, bias = torch.randn(count // (CHANNELS * side * side), CHANNELS, side, side), torch.rand(CHANNELS) + 0.5, torch.randn(CHANNELS)
    mean, var = torch.randn(CHANNELS), torch.rand(CHANNELS) + 0.5
    length = count // (HEADS * DEPTH)
    heads, angle = torch.randn(1, HEADS, length, DEPTH), torch.rand(length, DEPTH) * 6.28
    bytes_, scales = torch.randint(-128, 128, (rows, COLS), dtype=torch.int8), torch.rand(rows, 1)
    batch = max(1, count // (TABLES * WIDTH))
    tables = [torch.randn(1000, WIDTH) for _ in range(TABLES)]
    return {
        "softmax": (lambda x: F.softmax(x, -1), (x,)),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (COLS,), w, b), (x, w, b)),
        "add_layernorm": (lambda x, y, w, b: F.layer_norm(x + y, (COLS,), w, b), (x, y, w, b)),
        "bias_gelu": (lambda x, b: F.gelu(x + b), (x, b)),
        "rmsnorm": (rms_norm, (x, w)),
        "swiglu": (lambda x, y: F.silu(x) * y, (x, y)),
        "chain10": (chain10, (x, y)),
        "masked_softmax": (lambda x, m: F.softmax(torch.where(m, x * 0.125, -math.inf), -1), (x, mask)),
        "groupnorm_silu": (lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)), (images, gain, bias)),
        "bn_relu": (lambda x, *norm: F.relu(F.batch_norm(x, *norm)), (images, mean, var, gain, bias)),
        "sum_rows": (lambda x: x.sum(1), (x,)),
        "sum_cols": (lambda x: x.sum(0), (x,)),
        "transpose_add": (lambda x, y: x + y.t(), (x, y.view(COLS, rows))),
        "where_mask": (lambda m, x, y, z: torch.where(m, x + y, z), (mask, x, y, z)),
        "rotary": (rotary, (heads, angle.cos(), angle.sin())),
        "log_softmax": (lambda x: F.log_softmax(x, -1), (x,)),
        "cross_entropy": (F.cross_entropy, (x, torch.randint(COLS, (rows,)))),
        "dequantise_add": (lambda q, s, x: q * s + x, (bytes_, scales, x)),
        "norm_backward": (norm_backward, (y, x, x.mean(-1, keepdim=True), (x.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt(), w, b)),
        "softmax_backward": (lambda dy, y: aten._softmax_backward_data(dy, y, -1, dy.dtype), (x, F.softmax(y, -1))),
        "embeddings_26": (embeddings, (torch.randint(1000, (TABLES, batch)), *tables)),
        "cumsum": (lambda x: x.cumsum(-1), (x,)),
        "argmax": (lambda x: x.argmax(-1), (x,)),
        "topk": (lambda x: x.topk(8, -1).values, (x,)),
    }

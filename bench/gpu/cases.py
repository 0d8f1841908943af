"""The cases that `./dev gpu` checks and measures: fused kernels by schedule, with sizes and the bandwidth they should reach.

A case is a function of tensors. `size` is for the tables; `odd` is for correctness: aligned, odd, 1, prime and empty sizes.
`target` is the bandwidth to reach on an H200 (4.8 TB/s) in TB/s; other devices scale it. Products of matrices have no target:
their size is (rows, columns, terms), and their tables show arithmetic per second.
"""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable
    make: Callable              # (size, dtype, device) -> arguments
    size: tuple                 # for the table
    target: float
    odd: tuple = ((64, 256), (37, 129), (1, 1), (13, 1031), (3, 40000), (0, 8))     # none: another case has the function
    draws: bool = False         # draws random numbers, so its results cannot be compared


def rows(size, dtype, device, count=1):
    return tuple(torch.randn(size, device=device).to(dtype) for _ in range(count))


def with_vector(count):
    def make(size, dtype, device):
        weight = (torch.rand(size[-1], device=device) + 0.5).to(dtype)
        return (*rows(size, dtype, device, count), weight)
    return make


def pair(size, dtype, device):
    return rows(size, dtype, device, 2)


def swapped(size, dtype, device):
    return rows((*size[:-2], size[-1], size[-2]), dtype, device)


def labels(size, dtype, device):
    return (*rows(size, dtype, device), torch.randint(max(size[-1], 1), size[:1], device=device))


def wide(x):
    """x in the type in which sums are computed: f32, or f64 for the exact result."""
    return x if x.dtype == torch.float64 else x.float()


def rms_norm(x, w):
    y = wide(x)
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def add_rms_norm(x, r, w):
    s = x + r
    return rms_norm(s, w), s


def rms_norm_backward(x, d, w):
    y, g = wide(x), wide(d) * w
    r = torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
    h = y * r
    return ((g - h * (g * h).mean(-1, keepdim=True)) * r).to(x.dtype), (d * h).sum(0).to(w.dtype)


def layer_norm_backward(x, d, w):
    y, e = wide(x), wide(d)
    g, m = e * w, y.mean(-1, keepdim=True)
    r = torch.rsqrt((y - m).square().mean(-1, keepdim=True) + 1e-5)
    h = (y - m) * r
    dx = (g - g.mean(-1, keepdim=True) - h * (g * h).mean(-1, keepdim=True)) * r
    return dx.to(x.dtype), (e * h).sum(0).to(w.dtype), e.sum(0).to(w.dtype)


def cross_entropy_and_gradient(x, t):
    y = F.log_softmax(wide(x), -1)
    hit = torch.arange(x.shape[-1], device=x.device) == t[:, None]
    return -y.gather(1, t[:, None])[:, 0], (y.exp() - hit.to(y.dtype)).to(x.dtype)


def in_f32(size, dtype, device):
    return rows(size, torch.float32, device)


LABELLED = ((64, 256), (37, 129), (1, 1), (13, 1031), (3, 40000))

CASES = [
    Case("relu", lambda x: F.relu(x), rows, (8192, 8192), 3.9),
    Case("silu", lambda x: F.silu(x), rows, (8192, 8192), 3.9),
    Case("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), rows, (8192, 8192), 3.9),
    Case("gelu erf", lambda x: F.gelu(x), rows, (8192, 8192), 3.8),
    Case("gelu tanh + bias + residual", lambda x, r, b: F.gelu(x + b, approximate="tanh") + r, with_vector(2), (8192, 8192), 3.95),
    Case("gelu tanh + dropout", lambda x: F.dropout(F.gelu(x, approximate="tanh"), 0.1, True), rows, (8192, 8192), 3.6, (), True),
    Case("gelu erf + dropout", lambda x: F.dropout(F.gelu(x), 0.1, True), rows, (8192, 8192), 3.1, (), True),
    Case("bias + dropout + residual", lambda x, r, b: F.dropout(x + b, 0.1, True) + r, with_vector(2), (8192, 8192), 3.9, (), True),
    Case("add + bias", lambda x, y, b: x + y + b, with_vector(2), (8192, 8192), 3.95),
    Case("swiglu", lambda x, y: F.silu(x) * y, pair, (8192, 8192), 3.95),
    Case("softmax 1024", lambda x: F.softmax(x, -1), rows, (16384, 1024), 3.5),
    Case("softmax 4096", lambda x: F.softmax(x, -1), rows, (16384, 4096), 3.9),
    Case("softmax 8192", lambda x: F.softmax(x, -1), rows, (16384, 8192), 4.0),
    Case("softmax 128", lambda x: F.softmax(x, -1), rows, (131072, 128), 3.2, ()),
    Case("softmax 256", lambda x: F.softmax(x, -1), rows, (131072, 256), 3.2, ()),
    Case("softmax 65536", lambda x: F.softmax(x, -1), rows, (8192, 65536), 3.8, ()),
    Case("softmax 262144", lambda x: F.softmax(x, -1), rows, (2048, 262144), 3.8, ()),
    Case("layer_norm", lambda x, w: F.layer_norm(x, x.shape[-1:], w), with_vector(1), (16384, 4096), 3.8),
    Case("rms_norm", rms_norm, with_vector(1), (8192, 8192), 4.0),
    Case("add + rms_norm", add_rms_norm, with_vector(2), (8192, 8192), 4.0),
    Case("rms_norm backward", rms_norm_backward, with_vector(2), (8192, 8192), 3.4),
    Case("layer_norm backward", layer_norm_backward, with_vector(2), (16384, 4096), 3.4),
    Case("cross_entropy", lambda x, t: F.cross_entropy(wide(x), t, reduction="none"), labels, (8192, 32768), 3.9,
         LABELLED),
    Case("cross_entropy 131072", lambda x, t: F.cross_entropy(wide(x), t, reduction="none"), labels, (8192, 131072), 3.9, ()),
    Case("cross_entropy + gradient", cross_entropy_and_gradient, labels, (4096, 131072), 3.7, LABELLED),
    Case("sum", lambda x: wide(x).sum(), rows, (16384, 8192), 4.1),
    Case("sum f32", lambda x: x.sum(), in_f32, (16384, 16384), 4.1, ()),
    Case("sum of columns", lambda x: x.sum(0), rows, (16384, 4096), 3.8),
    Case("variance of columns", lambda x: wide(x).var(0), rows, (16384, 4096), 3.8, ((64, 256), (37, 129), (13, 1031))),
    Case("transpose", lambda x: x.transpose(-1, -2).contiguous(), swapped, (8192, 8192), 3.5),
    Case("transpose f32", lambda x: x.transpose(-1, -2).contiguous(), lambda size, _, device: swapped(size, torch.float32, device),
         (8192, 8192), 3.5, ()),
    Case("transpose + add", lambda x: (x.transpose(-1, -2) + 1).contiguous(), swapped, (8192, 8192), 3.5),
    Case("0213", lambda x: x.transpose(1, 2).contiguous(), rows, (32, 2048, 16, 64), 3.5,
         ((2, 3, 4, 5), (1, 17, 8, 64), (5, 1, 1, 1))),
    # The target of each is 3 us on an H200, given as a bandwidth.
    Case("small relu", lambda x: F.relu(x), rows, (256, 512), 2 * 2**18 / 3e6, ()),
    Case("small chain", lambda x, y, w: F.silu(x * w + y) * torch.tanh(x), with_vector(2), (256, 512), 3 * 2**18 / 3e6, ()),
]


def filtered(outer, groups=1, kernel=3, transposed=False):
    """An image, filters and a bias."""
    def make(size, dtype, device):
        channels = size[1] // groups
        weights = (size[1], outer // groups) if transposed else (outer, channels)
        w = torch.randn((*weights, *[kernel] * (len(size) - 2)), device=device) / math.sqrt(channels * kernel ** 2)
        return (*rows(size, dtype, device), w.to(dtype), torch.randn(outer, device=device).to(dtype))
    return make


IMAGES = ((2, 16, 28, 28), (1, 16, 7, 13), (3, 16, 1, 1), (5, 16, 31, 17))

# Nodes that libraries run, and poolings; for correctness only.
LIBRARIES = [
    Case("conv2d + relu", lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), filtered(24), (), 0, IMAGES),
    Case("conv2d by 2", lambda x, w, b: F.conv2d(x, w, b, 2, 1) + 1, filtered(24), (), 0, IMAGES),
    Case("conv2d 1x1", lambda x, w, b: F.conv2d(x, w, b), filtered(32, kernel=1), (), 0, IMAGES),
    Case("conv2d of groups", lambda x, w, b: F.conv2d(x, w, b, 1, 2, 2, groups=4), filtered(24, 4), (), 0, IMAGES),
    Case("conv2d per channel", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=16), filtered(16, 16), (), 0, IMAGES),
    Case("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1), filtered(24), (), 0, ((2, 16, 100), (1, 16, 1), (3, 16, 31))),
    Case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), filtered(24, transposed=True), (), 0, IMAGES),
    Case("pooling", lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 1, 1), F.adaptive_avg_pool2d(x, 1)), rows, (), 0, IMAGES),
]


def operands(*more):
    """Makes x [rows, terms], weight [columns, terms], then tensors of the shapes that `more` returns."""
    def make(size, dtype, device):
        m, n, k = size
        shapes = [(m, k), (n, k), *(shape(m, n) for shape in more)]
        return tuple((torch.randn(shape, device=device) / (math.sqrt(k) if i == 1 and k else 1)).to(dtype)
                     for i, shape in enumerate(shapes))
    return make


BIAS, RESIDUAL = (lambda m, n: (n,)), (lambda m, n: (m, n))
ODD_PRODUCTS = ((64, 256, 128), (37, 129, 65), (1, 1, 1), (13, 1031, 7), (0, 8, 8), (8, 8, 0))
PRODUCTS = [
    Case(name, function, make, size, math.nan, ODD_PRODUCTS)
    for name, function, make, size in [
        ("linear", F.linear, operands(BIAS), (8192, 4096, 4096)),
        ("linear + gelu tanh", lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), operands(BIAS), (8192, 16384, 4096)),
        ("linear + gelu erf", lambda x, w, b: F.gelu(F.linear(x, w, b)), operands(BIAS), (8192, 16384, 4096)),
        ("linear + relu", lambda x, w, b: F.relu(F.linear(x, w, b)), operands(BIAS), (8192, 16384, 4096)),
        ("linear + residual", lambda x, w, b, r: F.linear(x, w, b) + r, operands(BIAS, RESIDUAL), (8192, 4096, 16384)),
        ("one row", F.linear, operands(BIAS), (1, 16384, 4096)),
    ]
]


# TF32 rounds each factor by up to 2^-10 of itself; sums of random products with results near 1 stay within this tolerance.
TOLERANCES = {"f32": 2e-5, "tf32": 1e-2, "bf16": 2e-2, "f16": 2e-3}


def moved(arguments, results):
    """The bytes that must move: every argument read once, every result written once."""
    results = results if isinstance(results, tuple) else (results,)
    return sum(t.numel() * t.element_size() for t in (*arguments, *results))


def close(got, want, name):
    """The largest distance as a share of the tolerance; NaN if a value is NaN or a shape differs. name: the type's name."""
    worst = 0.0
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
        if g.shape != w.shape:
            return math.nan
        if g.numel():
            share = (g.double() - w.double()).abs() / (TOLERANCES[name] * w.double().abs().clamp(min=1))
            worst = max(worst, share.max().item()) if not torch.isnan(share).any() else math.nan
    return worst

"""More cases for `./dev gpu`: sizes that reach every form that a kernel has on an H100 (jit/schedule/cuda_schedule.h).

`form` is a pattern for the description of the schedule that a case should reach (describe() of the schedule). The exact result
is computed on the GPU in float64, in parts of whole rows if the result of a row depends on that row alone.
Tested by tests/torch/test_gpu_forms.py with the mock driver.
"""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F

from bench.gpu.cases import labels, pair, rms_norm_backward, rows, swapped, wide, with_vector

PART = 1 << 26      # most elements that are computed in float64 at once


@dataclass(frozen=True)
class Big:
    name: str
    form: str
    function: Callable
    make: Callable          # (size, dtype, device) -> arguments
    sizes: tuple            # the smallest first
    types: tuple = ("f32", "bf16")
    join: Callable = None   # joins the results of parts of rows; None: the exact result is computed at once
    dynamic: bool = True    # one program for all sizes


def filled(size, dtype, device):
    """Random numbers that are drawn in `dtype`, since f32 would take twice the memory."""
    return (torch.empty(size, dtype=dtype, device=device).normal_(),)


def unaligned(size, dtype, device):
    return tuple(rows((math.prod(size) + 1,), dtype, device)[0][1:].view(size) for _ in range(2))


def of_channels(size, dtype, device):
    return (*rows(size, dtype, device), *rows((size[1], 1, 1), dtype, device))


def softmax(x):
    return F.softmax(x, -1)


def total(parts):
    return torch.stack(parts).sum(0)


BIG = [
    Big("transpose", "tiled", lambda x: x.transpose(-1, -2).contiguous(), swapped, ((512, 512), (1100, 1031), (4096, 4096))),
    Big("transpose + add", "tiled", lambda x, y: x.transpose(-1, -2) * 2 + y,
        lambda size, dtype, device: (*swapped(size, dtype, device), *rows(size, dtype, device)), ((512, 512), (1100, 1031))),
    Big("0213", "row", lambda x: x.transpose(1, 2).contiguous(), rows, ((4, 128, 8, 64), (8, 512, 16, 64), (3, 301, 13, 65))),
    Big("transpose of a short axis", "tiled", lambda x: x.transpose(-1, -2).contiguous(), swapped, ((1 << 14, 16), (1 << 18, 24))),
    Big("rows of a cluster", "cluster", softmax, rows, ((4, 65536), (64, 65536), (131, 131072)), join=torch.cat),
    Big("rows of small blocks of a cluster", "resident 4 cluster 8", softmax, rows, ((140, 65536), (1000, 65528)), ("bf16", "f16"), torch.cat),
    Big("rows of a block beside another", "resident 2 registers", softmax, rows, ((64, 16384), (1000, 16384)), ("bf16", "f16"), torch.cat),
    Big("rows that are only folded", "join_online_reductions", lambda x, t: F.cross_entropy(wide(x), t, reduction="none"), labels,
        ((64, 32768), (600, 32768), (1100, 32771))),
    Big("rows of a cluster, one by one", "cluster", softmax, rows, ((2, 131071), (7, 99991)), join=torch.cat),
    Big("rows of a cluster, shared memory", r"cluster \d shared", softmax, rows,
        ((1, 400000), (16, 400000), (5, (1 << 18) - 1)), ("bf16", "f16"), torch.cat),
    Big("layer_norm of a cluster", "cluster", lambda x, w: F.layer_norm(x, x.shape[-1:], w), with_vector(1),
        ((2, 131072), (33, 150001))),
    Big("rows that nothing keeps", "join_online_reductions", softmax, rows, ((1, 1 << 20), (16, 1 << 20), (150, (1 << 20) + 1)), ("f32",), torch.cat),
    Big("norms of rows that nothing keeps", "join_online_reductions", lambda x, w: F.layer_norm(x, x.shape[-1:], w), with_vector(1),
        ((1, 1 << 20), (150, (1 << 20) + 3)), ("f32",)),
    Big("a softmax in parts", "row", softmax, rows, ((2, 1 << 19), (16, 1 << 20), (5, (1 << 20) + 1)), ("f32",), torch.cat, dynamic=False),
    Big("a bias kept along rows", "outer", lambda x, b: F.silu(x + b), with_vector(1), ((8200, 8192), (16411, 4096)), join=torch.cat),
    Big("a bias of channels kept along images", "outer", lambda x, b: F.relu(x + b), of_channels, ((64, 256, 56, 56), (67, 255, 57, 56)),
        join=torch.cat),
    Big("vectors in flight", r"flat .*ahead", lambda x: wide(F.silu(x)), rows, ((8192, 8192), (8191, 8193)), ("bf16", "f16"),
        torch.cat),
    Big("maps of many waves", "flat", lambda x, y: F.silu(x) * y, pair, ((8192, 8192), (4099, 16411)), join=torch.cat),
    Big("pointers aligned to one element", "vector 1", lambda x, y: x * y + 1, unaligned, ((64, 1024), (4096, 4099)),
        join=torch.cat),
    Big("a split sum", "row", lambda x: wide(x).sum(), rows, ((1 << 18,), (1 << 26,), ((1 << 24) + 3,))),
    Big("split sums of few rows", "row", lambda x: wide(x).mean(-1), rows, ((2, 1 << 17), (3, (1 << 23) + 1))),
    # Divided by 256, so that the tolerance of a number below 1 covers the rounding of terms and no sum that cancels them.
    Big("columns that threads share", "rows", lambda x: wide(x).sum(0) / 256, rows, ((2048, 128), (100000, 33), (16384, 1024))),
    Big("columns of a norm's backward", "row", rms_norm_backward, with_vector(2), ((512, 512), (8192, 2048))),
    Big("64-bit indices", "wide", lambda x: F.relu(x) + 1, filled, (((1 << 31) + 7,),), ("bf16",), torch.cat),
    Big("64-bit indices, rows", "wide", softmax, filled, ((32771, 65536),), ("bf16",), torch.cat),
    Big("64-bit indices, a sum", "wide", lambda x: wide(x).sum(), filled, (((1 << 31) + 7,),), ("bf16",), total),
]


def bytes_of(case, size, dtype):
    """An estimate of the memory of a check: arguments, results of eager and of Tenon, and as much again for eager's
    intermediates."""
    return 8 * math.prod(size) * dtype.itemsize


def parts(case, arguments):
    """Yields the arguments of each part, and the index of the part's result in the whole result."""
    first = arguments[0]
    if case.join is None:
        yield arguments, ...
        return
    step = max(1, PART // max(1, first[0].numel()))
    for start in range(0, len(first), step):
        here = slice(start, start + step)
        yield tuple(a[here] if a.shape[:1] == first.shape[:1] else a for a in arguments), here


def compare(case, arguments, got, close):
    """The largest distances of Tenon's result and of eager's from the exact result, by close(result, exact)."""
    worst, own, exacts = 0.0, 0.0, []
    for here, at in parts(case, arguments):
        exact = case.function(*(a.double() if a.is_floating_point() else a for a in here))
        if case.join is total:
            exacts.append(exact)
            continue
        of_part = got[at] if isinstance(got, torch.Tensor) else got
        worst, own = (larger(a, b) for a, b in
                      ((worst, close(of_part, exact)), (own, close(case.function(*here), exact))))
    return (close(got, total(exacts)), 0.0) if exacts else (worst, own)


def larger(a, b):
    """The maximum; NaN if an argument is NaN."""
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)

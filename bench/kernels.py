#!/usr/bin/env python3
"""`./dev bench kernels`: fused kernels on 4096x1024 f32, against eager and a copy of the same bytes.

A kernel's bytes are each input read once and each output written once. A floor moves as many bytes (half read, half written)
with the same threads, in the same rounds. There are two floors, since fresh pages for the output cost more than many kernels:
- `clone`, for calls that get new output memory from PyTorch: eager, and all contenders under torch.compile;
- `copy_` between buffers that are kept, for Tenon's kernel alone, which runs again on the memory of one call.
Every answer is checked against eager first. `--peers` adds Inductor (needs g++). `--symbolic` adds Tenon with symbols for all
sizes.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                          # noqa: E402
import torch.nn.functional as F       # noqa: E402

from bench.contenders import compiled, contender, missing_for_peers, on_kept_outputs     # noqa: E402
from bench.models import accuracy                            # noqa: E402
from bench.table import Progress, aligned                    # noqa: E402
from bench.timing import describe_machine, interleave, speedup      # noqa: E402

ROWS, COLS = 4096, 1024
TOLERANCE = 1e-5


def chain10(x, y):
    h = torch.sigmoid(x * 2 + y)
    h = (h - 0.5) * y
    h = torch.tanh(h).abs() + x
    return torch.clamp(h * h, max=4.0)


def rmsnorm(x, w):
    return w * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


def rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


def kernels():
    """{name: (function, arguments)}. All big tensors hold ROWS x COLS elements."""
    torch.manual_seed(0)
    x, y, z = (torch.randn(ROWS, COLS) for _ in range(3))
    w, b = torch.rand(COLS) + 0.5, torch.randn(COLS)
    mask = torch.rand(ROWS, COLS) > 0.25
    images, gain, bias = torch.randn(4, 256, 64, 64), torch.rand(256) + 0.5, torch.randn(256)
    mean, var = torch.randn(256), torch.rand(256) + 0.5
    heads, angle = torch.randn(1, 16, 4096, 64), torch.rand(4096, 64) * 6.28
    return {
        "softmax": (lambda x: F.softmax(x, -1), (x,)),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (COLS,), w, b), (x, w, b)),
        "add_layernorm": (lambda x, y, w, b: F.layer_norm(x + y, (COLS,), w, b), (x, y, w, b)),
        "bias_gelu": (lambda x, b: F.gelu(x + b), (x, b)),
        "rmsnorm": (rmsnorm, (x, w)),
        "swiglu": (lambda x, y: F.silu(x) * y, (x, y)),
        "chain10": (chain10, (x, y)),
        "masked_softmax": (lambda x, m: F.softmax(torch.where(m, x * 0.125, -math.inf), -1), (x, mask)),
        "groupnorm_silu": (lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)), (images, gain, bias)),
        "bn_relu": (lambda x, *norm: F.relu(F.batch_norm(x, *norm)), (images, mean, var, gain, bias)),
        "sum_rows": (lambda x: x.sum(1), (x,)),
        "sum_cols": (lambda x: x.sum(0), (x,)),
        "transpose_add": (lambda x, y: x + y.t(), (x, y.view(COLS, ROWS))),
        "where_mask": (lambda m, x, y, z: torch.where(m, x + y, z), (mask, x, y, z)),
        "rotary": (rotary, (heads, angle.cos(), angle.sin())),
        "log_softmax": (lambda x: F.log_softmax(x, -1), (x,)),
        "cross_entropy": (F.cross_entropy, (x, torch.randint(COLS, (ROWS,)))),
    }


def measure(function, args, contenders, rounds):
    """(seconds per call by name, problems by name) of one kernel; "copy" and "clone" are the floors, "kept" is Tenon's
    kernel alone."""
    torch._dynamo.reset()
    reference = function(*args)
    exact = function(*(a.double() if a.is_floating_point() else a for a in args))
    calls, problems = {"eager": lambda: function(*args)}, {}
    for name in contenders:
        try:
            fast = compiled(function, name, fullgraph=True)
            problems[name] = accuracy.check(reference, fast(*args), exact, TOLERANCE).problems
            calls[name] = lambda fast=fast: fast(*args)
        except Exception as error:      # the other kernels are still measured
            problems[name] = [f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    floats = sum(t.numel() * t.element_size() for t in (*args, reference)) // 4
    source, target = torch.ones(floats // 2), torch.ones(floats // 2)
    calls["copy"] = lambda: target.copy_(source)
    calls["clone"] = source.clone
    if "tenon" in calls:
        torch._dynamo.reset()
        if kept := on_kept_outputs(function, args):
            calls["kept"] = kept
    return interleave(calls, rounds, round_s=0.02), problems


def over(floor, times, who):
    best = min(times[who]) / min(times[floor])
    return f"{1 / speedup(times[floor], times[who]):.2f} ({best:.2f})"


def cells(times, who, floor):
    return [1e3 * statistics.median(times[who]), over(floor, times, who)] if who in times else [None, None]


def main():
    options = parse()
    contenders = [options.backend, *(["inductor"] if options.peers else []),
                  *(["tenon_symbolic"] if options.symbolic else [])]
    if options.peers and missing_for_peers():
        sys.exit(f"bench kernels: {missing_for_peers()}")
    machine = describe_machine()
    torch.set_num_threads(options.threads)
    rows, wrong, gains = [], [], {name: [] for name in contenders}
    table = kernels()
    unknown = set(options.kernels) - set(table)
    if unknown:
        sys.exit(f"bench kernels: no kernel {', '.join(sorted(unknown))}; there are {', '.join(table)}")
    for name in options.kernels or table:
        with Progress(name), torch.no_grad():
            times, problems = measure(*table[name], contenders, options.rounds)
        wrong += [f"{name} with {who}: {text}" for who, texts in problems.items() for text in texts]
        row = [name, *(1e3 * statistics.median(times[floor]) for floor in ("copy", "clone"))]
        row += cells(times, "kept", "copy")
        for who in ["eager", *contenders]:
            row += cells(times, who, "clone")
            if who in times and who != "eager":
                gains[who].append(speedup(times["eager"], times[who]))
        rows.append(row + [f"{gains[c][-1]:.2f}x" if c in times else None for c in contenders])
    header = ["kernel", "copy ms", "clone ms", "kept ms", "/copy (best)"]
    header += [h for c in ["eager", *contenders] for h in (f"{c} ms", "/clone (best)")]
    print(aligned(header + [f"{c} vs eager" for c in contenders], rows))
    print(f"\n{machine}, {options.threads} threads, {ROWS}x{COLS} f32.\n"
          f"Medians of at most {options.rounds} rounds.\n"
          "kept: Tenon's kernel alone, on memory that is there; /copy: over a plain copy_ of the same bytes.\n"
          "/clone: a call that gets new memory over a clone that does (best: of the shortest).\n"
          "vs eager: eager's time over this one's, within a round.")
    for who, values in gains.items():
        if values:
            mean = statistics.geometric_mean(values)
            print(f"{who} over eager, geometric mean of {len(values)}: {mean:.2f}x")
    print("\n".join(wrong) if wrong else "all answers right")
    return 1 if wrong else 0


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench kernels", description=__doc__.split("\n\n")[0])
    parser.add_argument("kernels", nargs="*", help="only these")
    parser.add_argument("--peers", action="store_true", help="Inductor too (needs g++)")
    parser.add_argument("--symbolic", action="store_true", help="Tenon with symbols for all sizes too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--backend", type=contender, default="tenon", help="another backend instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

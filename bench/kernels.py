#!/usr/bin/env python3
"""`./dev bench kernels`: the fused kernels of bench/fused.py, against eager and a copy of the same bytes.

A kernel's bytes are each input read once and each output written once. A floor moves as many bytes (half read, half written)
with the same threads, in the same rounds. There are two floors, since fresh pages for the output cost more than many kernels:
- `clone`, for calls that get new output memory from PyTorch: eager, and all contenders under torch.compile;
- `copy_` between buffers that are kept, for Tenon's kernel alone, which runs again on the memory of one call.
Every answer is checked against eager first. `--peers` adds Inductor (needs g++) and XLA, which computes the graph that Tenon makes of
the function. `--symbolic` adds Tenon with symbols for all sizes.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                          # noqa: E402

from bench.contenders import compiled, contender, in_xla, missing_for_peers, on_kept_outputs, tenon_stats     # noqa: E402
from bench.fused import kernels                              # noqa: E402
from bench.models import accuracy                            # noqa: E402
from bench.table import Progress, aligned                    # noqa: E402
from bench.timing import describe_machine, interleave, speedup      # noqa: E402

TOLERANCE = 1e-5
UNITS = {"K": 1 << 10, "M": 1 << 20}
LEAST = 16 << 10    # bytes of an operand


def measure(function, args, contenders, rounds):
    """(seconds per call by name, problems by name, milliseconds that Tenon compiled) of one kernel; "copy" and "clone" are the floors,
    "kept" is Tenon's kernel alone."""
    torch._dynamo.reset()
    before = tenon_stats("tenon")["compile_ms"]
    reference = function(*args)
    exact = function(*(a.double() if a.is_floating_point() else a for a in args))
    calls, problems = {"eager": lambda: function(*args)}, {}
    for name in contenders:
        try:
            calls[name], results = prepared(function, name, args)
            problems[name] = accuracy.check(reference, results, exact, TOLERANCE).problems
        except Exception as error:      # the other kernels are still measured
            problems[name] = [f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    spent = tenon_stats("tenon")["compile_ms"] - before
    results = [reference] if isinstance(reference, torch.Tensor) else reference
    floats = sum(t.numel() * t.element_size() for t in (*args, *results)) // 4
    source, target = torch.ones(floats // 2), torch.ones(floats // 2)
    calls["copy"] = lambda: target.copy_(source)
    calls["clone"] = source.clone
    if "tenon" in calls:
        torch._dynamo.reset()
        if kept := on_kept_outputs(function, args):
            calls["kept"] = kept
    return interleave(calls, rounds, round_s=0.02), problems, spent


def prepared(function, name, args):
    """(call, results) of a contender."""
    if name == "xla":
        return in_xla(function, args, torch.get_num_threads())
    fast = compiled(function, name, fullgraph=True)
    return (lambda: fast(*args)), fast(*args)


def over(floor, times, who):
    best = min(times[who]) / min(times[floor])
    return f"{1 / speedup(times[floor], times[who]):.2f} ({best:.2f})"


def cells(times, who, floor):
    return [1e3 * statistics.median(times[who]), over(floor, times, who)] if who in times else [None, None]


def main():
    options = parse()
    contenders = [options.backend, *(["inductor", "xla"] if options.peers else []),
                  *(["tenon_symbolic"] if options.symbolic else [])]
    if options.peers and missing_for_peers():
        sys.exit(f"bench kernels: {missing_for_peers()}")
    machine = describe_machine()
    if options.peers:  # XLA uses all CPUs of the process
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    torch.set_num_threads(options.threads)
    wrong, means, known = [], [], list(kernels(LEAST))
    if unknown := set(options.kernels) - set(known):
        sys.exit(f"bench kernels: no kernel {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(f"{machine}, {options.threads} threads, f32. Medians of at most {options.rounds} rounds.\n"
          "kept: Tenon's kernel alone, on memory that is there; /copy: over a plain copy_ of the same bytes.\n"
          "/clone: a call that gets new memory over a clone that does (best: of the shortest).\n"
          "vs eager: eager's time over this one's, within a round. vs best: the shortest time of eager and the peers over Tenon's.\n"
          "compile: what Tenon took to compile the kernels of the row.")
    for size in options.sizes:
        rows, gains = [], {name: [] for name in (*contenders, "best")}
        table = kernels(size)
        for name in options.kernels or known:
            with Progress(f"{name}, {text_of(size)}"), torch.no_grad():
                times, problems, spent = measure(*table.pop(name), contenders, options.rounds)
            wrong += [f"{name} of {text_of(size)} with {who}: {text}" for who, texts in problems.items() for text in texts]
            rows.append(row(name, times, contenders, gains, spent))
        print(f"\n{text_of(size)} per operand")
        print(aligned(header(contenders), rows))
        for who, values in gains.items():
            if values:
                mean, worst = statistics.geometric_mean(values), min(values)
                means.append(f"{text_of(size)}: {subject(who, options.backend)}, geometric mean of {len(values)}: {mean:.2f}x, least {worst:.2f}x")
    print("\n" + "\n".join(means))
    print("\n".join(wrong) if wrong else "all answers right")
    return 1 if wrong else 0


def subject(who, backend):
    return f"{backend} over the best of the others" if who == "best" else f"{who} over eager"


def header(contenders):
    cells = ["kernel", "copy ms", "clone ms", "kept ms", "/copy (best)"]
    cells += [h for c in ["eager", *contenders] for h in (f"{c} ms", "/clone (best)")]
    return cells + [f"{c} vs eager" for c in contenders] + ["best peer", "vs best", "compile ms"]


def row(name, times, contenders, gains, spent):
    """The cells of a kernel. Adds its ratios to `gains`."""
    result = [name, *(1e3 * statistics.median(times[floor]) for floor in ("copy", "clone"))]
    result += cells(times, "kept", "copy")
    for who in ["eager", *contenders]:
        result += cells(times, who, "clone")
    ratios = {who: speedup(times["eager"], times[who]) for who in contenders if who in times}
    for who, ratio in ratios.items():
        gains[who].append(ratio)
    ours, best, peer = contenders[0], None, None
    others = ["eager", *(c for c in contenders[1:] if c != "tenon_symbolic")]
    if ours in times:
        best, peer = min((speedup(times[who], times[ours]), who) for who in others if who in times)
        gains["best"].append(best)
    return result + [f"{ratios[c]:.2f}x" if c in ratios else None for c in contenders] + [peer, f"{best:.2f}x" if best else None, spent]


def bytes_of(text):
    """An argparse type: 16K, 4M, several of them with commas."""
    sizes = [int(t.rstrip("KM")) * UNITS.get(t[-1], 1) for t in text.split(",")]
    if min(sizes) < LEAST:
        raise argparse.ArgumentTypeError("the smallest size is 16K")
    return sizes


def text_of(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench kernels", description=__doc__.split("\n\n")[0])
    parser.add_argument("kernels", nargs="*", help="only these")
    parser.add_argument("--sizes", type=bytes_of, default=[16 << 20], metavar="N,...", help="bytes of an operand, as 16K,1M,16M (default: 16M)")
    parser.add_argument("--peers", action="store_true", help="Inductor (needs g++) and XLA too")
    parser.add_argument("--symbolic", action="store_true", help="Tenon with symbols for all sizes too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--backend", type=contender, default="tenon", help="another backend instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

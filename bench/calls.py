#!/usr/bin/env python3
"""`./dev bench calls`: the cost of one warm call with next to nothing to compute, in microseconds.

Runs three graphs under `no_grad`: relu(x + 1) on 16 floats, a sum of 10 inputs, a module of 100 parameters.
The table also has a backend that does nothing: Dynamo and AOTAutograd around a function that only makes output
tensors (values undefined). What Tenon takes beyond this backend is its own cost. "C ABI" is tenon_program_run through
ctypes, and a line below the table has a call from C. `--peers`: Inductor, ONNX Runtime and OpenVINO.
Tested by tests/torch/test_calls.py and test_bench.py.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch          # noqa: E402
from torch import nn  # noqa: E402

from tenon.torch.peers import hosts                                     # noqa: E402

from bench.contenders import RUNTIMES, compiled, contender, on_kept_outputs     # noqa: E402
from bench.models import accuracy                                       # noqa: E402
from bench.models.bench import peers                                    # noqa: E402
from bench.models.runtimes import convert, missing                      # noqa: E402
from bench.models.worker import ROOT                                    # noqa: E402
from bench.table import Progress, aligned                               # noqa: E402
from bench.timing import describe_machine, interleave, speedup          # noqa: E402

PEERS = ("inductor", *RUNTIMES)
CALL_C = ROOT / "build/release/bench/call_c"


class Hundred(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList(torch.randn(16) for _ in range(100))

    def forward(self, x):
        for p in self.parts:
            x = x + p
        return x


def graphs():
    x = torch.randn(16)
    return {
        "relu(x + 1)": (lambda x: torch.relu(x + 1), (x,)),
        "10 inputs": (lambda *xs: sum(xs), tuple(torch.randn(16) for _ in range(10))),
        "100 parameters": (Hundred(), (x,)),
    }


def noop_backend(gm, example_inputs):
    from torch._dynamo.backends.common import aot_autograd

    def compile_nothing(graph, _):
        outputs = graph.graph.output_node().args[0]
        wanted = [(tuple(o.meta["val"].shape), o.meta["val"].stride(), o.meta["val"].dtype) for o in outputs]
        make = torch._C._dynamo.guards._empty_strided_cpu

        def run(args):
            args.clear()
            return [make(*w) for w in wanted]
        run._boxed_call = True
        return run
    return aot_autograd(fw_compiler=compile_nothing)(gm, example_inputs)


def main():
    options = parse()
    absent = {peer: why for peer in options.peers if (why := missing(peer))}
    there = [peer for peer in options.peers if peer not in absent]
    machine = describe_machine()
    torch.set_num_threads(options.threads)
    rows, wrong = [], []
    for name, (function, args) in graphs().items():
        torch._dynamo.reset()
        with Progress(name), torch.no_grad():
            times, problems = measure(function, args, options, there)
        wrong += [f"{name} with {who}: {text}" for who, text in problems]
        rows.append([name, *row(times, options.backend, there)])
    print(aligned(header(options.backend, there), rows))
    print(f"\n{machine}, {options.threads} threads, no_grad. Median (minimum) of {options.rounds} rounds in turns, in us.\n"
          "own: beyond no-op, the floor of torch.compile. C ABI: the program alone on kept memory, through ctypes.")
    print(*(f"{peer} {why}" for peer, why in absent.items()), from_c(CALL_C), sep="\n")
    print("\n".join(wrong) if wrong else "all answers right")
    return 1 if any(f"with {options.backend}:" in text for text in wrong) else 0


def measure(function, args, options, peers):
    """(seconds of each round by contender, (contender, problem) of wrong answers) of a graph"""
    calls, wrong = {"eager": lambda: function(*args)}, []
    noop = torch.compile(function, backend=noop_backend)
    calls["no-op"] = lambda: noop(*args)
    reference, exact = function(*args), in_float64(function, args)
    for who in (options.backend, *peers):
        runtime = who in RUNTIMES
        fast = convert(who, module(function), args, reference, options.threads) if runtime else compiled(function, who)
        problems = accuracy.check(reference, fast(*args), exact, 1e-6, strides=not runtime).problems
        wrong += [(who, text) for text in problems]
        if who == options.backend or not problems:
            calls[who] = fast.bound(args) if runtime else lambda fast=fast: fast(*args)
    if options.backend == "tenon" and (kept := on_kept_outputs(function, args)):
        calls["C ABI"] = kept
    spins = set(RUNTIMES) & set(peers)      # threads of a library that look for work after a call
    return interleave(calls, options.rounds, round_s=0.02, rest_s=0.05 if spins else 0), wrong


def header(ours, peers):
    best = ["best peer", f"{ours} over it"] if peers else []
    return ["graph", "eager", "no-op", ours, "own", "C ABI", *peers, *best]


def row(times, ours, peers):
    """Cells below header() without the graph: times, what Tenon takes beyond no-op, and the best peer's time over Tenon's."""
    cells = {who: f"{1e6 * statistics.median(s):.2f} ({1e6 * min(s):.2f})" for who, s in times.items()}
    own = statistics.median(t - n for t, n in zip(times[ours], times["no-op"], strict=True))
    found = [*(cells[who] for who in ("eager", "no-op", ours)), f"{1e6 * own:+.1f}", *(cells.get(who) for who in ("C ABI", *peers))]
    ratios = {peer: speedup(times[peer], times[ours]) for peer in peers if peer in times}
    best = min(ratios, key=ratios.get, default=None)
    return found + ([best, best and f"{ratios[best]:.2f}x"] if peers else [])


def from_c(program):
    """A sentence with the times of bench/call_c.cc, which calls the same function of the library from C."""
    if not program.exists():
        return f"from C: {program.name} is not built"
    done = subprocess.run([program, "--benchmark_format=json"], capture_output=True, text=True, check=True)
    took = {b["name"]: b["real_time"] * {"ns": 1e-3, "us": 1}[b["time_unit"]] for b in json.loads(done.stdout)["benchmarks"]}
    return (f"from C, two nodes on 16 floats: {took['fixed']:.2f} us a call, {took['symbolic']:.2f} us with a symbol as size, "
            f"{took['direct']:.3f} us in a loop of the host")


def module(function):
    return function if isinstance(function, nn.Module) else hosts.Module(function).eval()


def in_float64(function, args):
    if isinstance(function, nn.Module):
        return accuracy.in_float64(function, args)
    return function(*(a.double() for a in args))


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench calls", description=__doc__.split("\n\n")[0])
    parser.add_argument("--peers", type=peers, nargs="?", const=list(PEERS), default=[], metavar="A,B",
                        help=f"some of {', '.join(PEERS)}, or backends of torch.compile; without names all of these")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--backend", type=contender, default="tenon", help="another backend instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

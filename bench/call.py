#!/usr/bin/env python3
"""`./dev bench call`: the cost of one call with next to nothing to compute, in microseconds.

Runs three graphs under `no_grad`: relu(x + 1) on 16 floats, a sum of 10 inputs, a module of 100 parameters.
The table also has a backend that does nothing: Dynamo and AOTAutograd around a function that only makes output
tensors (values undefined). What a contender takes beyond this backend is its own cost.
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch          # noqa: E402
from torch import nn  # noqa: E402

from bench.contenders import compiled, contender, missing_for_peers     # noqa: E402
from bench.models import accuracy                            # noqa: E402
from bench.table import Progress, aligned                    # noqa: E402
from bench.timing import describe_machine, interleave               # noqa: E402


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
    contenders = [options.backend, *(["inductor"] if options.peers else [])]
    if options.peers and missing_for_peers():
        sys.exit(f"bench call: {missing_for_peers()}")
    machine = describe_machine()
    torch.set_num_threads(options.threads)
    rows, wrong = [], []
    for name, (function, args) in graphs().items():
        torch._dynamo.reset()
        with Progress(name), torch.no_grad():
            fast = {"eager": function, "no-op": torch.compile(function, backend=noop_backend)}
            fast |= {who: compiled(function, who) for who in contenders}
            reference, exact = function(*args), in_float64(function, args)
            for who in contenders:
                problems = accuracy.check(reference, fast[who](*args), exact, 1e-6).problems
                wrong += [f"{name} with {who}: {text}" for text in problems]
            calls = {who: lambda f=f: f(*args) for who, f in fast.items()}
            times = interleave(calls, options.rounds, round_s=0.02)
        for who, seconds in times.items():
            over = [t - n for t, n in zip(seconds, times["no-op"])]
            rows.append([name, who, 1e6 * statistics.median(seconds), 1e6 * min(seconds),
                         f"{1e6 * statistics.median(over):+.1f}"])
    print(aligned(["graph", "contender", "median us", "min us", "over no-op"], rows))
    print(f"\n{machine}, {options.threads} threads, {options.rounds} rounds in turns, no_grad")
    print("\n".join(wrong) if wrong else "all answers right")
    return 1 if wrong else 0


def in_float64(function, args):
    if isinstance(function, nn.Module):
        return accuracy.in_float64(function, args)
    return function(*(a.double() for a in args))


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench call", description=__doc__.split("\n\n")[0])
    parser.add_argument("--peers", action="store_true", help="Inductor too (needs g++)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--backend", type=contender, default="tenon", help="another backend instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`./dev bench cold`: first calls of models in fresh processes, and the memory that they take.

Prints two Markdown tables. The first has seconds of the first call in a process with empty caches, in brackets the contender's own share, and the
same in a second process that finds the caches of the first. PyTorch's tracing and export and all imports belong to no share. Tenon's share has
two parts: from PyTorch's graph to a function, and the plan, which packs the weights. Inductor's is compile_fx_inner; that of ONNX Runtime
and OpenVINO is reading the exported model and making a session. The floor is `aot_eager`, which traces as Tenon does and compiles nothing.
The second table has Tenon's planned workspace, eager's peak of intermediates, and the memory of a process with one model and
one contender beyond that of a process that has only imported PyTorch (bench/models/resident.py).
Tested by tests/torch/test_cold.py.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import RUNTIMES                     # noqa: E402
from bench.models.bench import peers                      # noqa: E402
from bench.models.demo import chosen                      # noqa: E402
from bench.models.report import megabytes, times          # noqa: E402
from bench.models.runtimes import missing                 # noqa: E402
from bench.models.worker import Request, clean_up_when_terminated, spawn     # noqa: E402
from bench.models.zoo import ALL                          # noqa: E402
from bench.table import Progress, markdown                # noqa: E402
from bench.timing import describe_machine                 # noqa: E402

MODELS = ("resnet50", "mobilenet_v3_large", "bert_base", "gpt2", "llama")
PEERS = ("inductor", *RUNTIMES)
FLOOR = "aot_eager"


def main():
    clean_up_when_terminated()
    options = parse()
    absent = {peer: why for peer in options.peers if (why := missing(peer))}
    there = [peer for peer in options.peers if peer not in absent]
    print(f"{describe_machine()}, {options.threads} threads, f32, medians of {options.processes} processes")
    results = {(model, who): measure(model, who, options) for model in options.models for who in ("eager", FLOOR, options.backend, *there)}
    table = Table(results, options.models, options.backend, there)
    print("\nSeconds of the first call (own share):\n")
    print(table.first_calls())
    print("\n".join(["", *table.means(), *(f"- {peer} {why}" for peer, why in absent.items())]))
    print(f"\nMemory in MB. A process that has only imported PyTorch holds {table.bytes_of_pytorch()}:\n")
    print(table.memory())
    problems = table.problems()
    print("\n" + ("\n".join(f"{model} with {who}: {why}" for model, who, why in problems) or "all answers right"))
    return 1 if any(who not in there for _, who, _ in problems) else 0


def measure(model, who, options):
    """{"first": results of processes with empty caches, "second": of those that find these caches, "memory": of resident.py}"""
    found = {"first": [], "second": [], "memory": []}
    for turn in range(options.processes):
        with tempfile.TemporaryDirectory(prefix="tenon-bench-") as caches:
            for what, runs in found.items():
                if not wanted(what, who):
                    continue
                with Progress(f"{model} with {who}: {what}, {turn + 1} of {options.processes}"):
                    request = Request(model, who, options.tiny, options.threads, rounds=0, floors=what == "first" and who == options.backend)
                    module = "bench.models.resident" if what == "memory" else "bench.models.worker"
                    runs.append(spawn(request, caches=caches, module=module))
                if runs[-1]["problems"]:
                    return found
    return found


def wanted(what, who):
    """Eager mode has no first call, and neither the floor nor a library that reads exported models has a cache."""
    return what == "memory" or who != "eager" and (what == "first" or who not in (FLOOR, *RUNTIMES))


class Table:
    def __init__(self, results, models, ours, peers):
        """results: (model, contender) -> what measure() returns"""
        self.results, self.models, self.ours, self.peers = results, models, ours, peers

    def get(self, model, who, what, key):
        """The median of a number over processes, None if a process failed or if there is no such number."""
        runs = self.results[model, who][what]
        found = [r[key] for r in runs if r.get(key) is not None and not r["problems"]]
        return statistics.median(found) if found and len(found) == len(runs) else None

    def own(self, model, who):
        return self.get(model, who, "first", "own_s")

    def plan(self, model, who):
        """The part of the own share that is making plans; 0 for a contender that has none."""
        return (self.get(model, who, "first", "plan_ms") or 0) / 1e3

    def best(self, model, number):
        """[the peer with the least number, its number over Tenon's]. number: a function of model and contender."""
        mine, others = number(model, self.ours), {p: n for p in self.peers if (n := number(model, p))}
        if not others:
            return [None, None]
        best = min(others, key=others.get)
        return [best, times(others[best] / mine) if mine else None]

    def first_calls(self):
        columns = [(who, what) for who in (self.ours, *self.peers) for what in ("first", "second") if wanted(what, who)]
        header = ["model", "floor", *(who if what == "first" else f"{who}, second process" for who, what in columns)]
        header += ["best peer", f"its share over {self.ours}'s"] if self.peers else []
        return markdown(header, [[model, seconds(self.get(model, FLOOR, "first", "first_s")), *(self.call(model, *c) for c in columns),
                                  *(self.best(model, self.own) if self.peers else [])] for model in self.models])

    def call(self, model, who, what):
        first, own, plan = (self.get(model, who, what, key) for key in ("first_s", "own_s", "plan_ms"))
        share = seconds(own) if plan is None else f"{seconds(own - plan / 1e3)} + {seconds(plan / 1e3)}"
        return first and (seconds(first) if own is None else f"{seconds(first)} ({share})")

    def means(self):
        """Lines with each peer's own share over Tenon's."""
        for who in self.peers:
            both = [(other, mine, mine - self.plan(m, self.ours)) for m in self.models if (other := self.own(m, who)) and (mine := self.own(m, self.ours))]
            if both:
                whole, graphs = (of_ratios([pair[0] / pair[part] for pair in both]) for part in (1, 2))
                yield f"- the own share of {who} over that of {self.ours}: {whole}" + (f"; without plans {graphs}" if graphs != whole else "")

    def memory(self):
        processes = ["eager", FLOOR, self.ours, *self.peers]
        header = ["model", "workspace", "eager's peak", "ratio", *("process, floor" if who == FLOOR else f"process, {who}" for who in processes)]
        header += ["best peer", f"its process over {self.ours}'s"] if self.peers else []
        return markdown(header, [self.memory_row(model, processes) for model in self.models])

    def memory_row(self, model, processes):
        resident = lambda model, who: self.get(model, who, "memory", "resident_bytes")      # noqa: E731
        planned, peak = (self.get(model, self.ours, "first", key) for key in ("workspace_bytes", "eager_peak_bytes"))
        return [model, megabytes(planned), megabytes(peak), f"{planned / peak:.2f}" if planned and peak else None,
                *(megabytes(resident(model, who)) for who in processes), *(self.best(model, resident) if self.peers else [])]

    def bytes_of_pytorch(self):
        return megabytes(self.get(self.models[0], "eager", "memory", "bytes_of_pytorch"))

    def problems(self):
        return [(model, who, why) for (model, who), found in self.results.items() for runs in found.values() for r in runs for why in r["problems"]]


def of_ratios(ratios):
    mean = times(statistics.geometric_mean(ratios))
    return mean if len(ratios) == 1 else f"{times(min(ratios))} to {times(max(ratios))}, geometric mean of {len(ratios)}: {mean}"


def seconds(number):
    return None if number is None else f"{number:.2f}" if number < 10 else f"{number:.1f}"


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench cold", description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=chosen, default=list(MODELS), metavar="A,B", help="all, or " + ", ".join(ALL))
    parser.add_argument("--peers", type=peers, nargs="?", const=list(PEERS), default=[], metavar="A,B",
                        help=f"some of {', '.join(PEERS)}, or backends of torch.compile; without names all of these")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1, help="per model, contender and kind of call")
    parser.add_argument("--tiny", action="store_true", help="the same structures, small sizes")
    parser.add_argument("--backend", default="tenon", help="another torch.compile backend in Tenon's place")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

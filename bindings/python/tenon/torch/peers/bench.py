"""The verb `python -m tenon bench` where it names peers or a model of PyTorch. First the command line (src/cli/bench) measures Tenon, compares
it with the evaluator and prints its table. Then the same graphs run in the peers, in this process: each result is compared with Tenon's,
and calls take turns. Tested by tests/torch/test_peers.py.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import torch

from ...graph_read import read, size_at
from . import traced
from .hosts import HOSTS, OF_NAME, Case, Missing
from .spelling import NoCounterpart

# How far a peer's result may be from Tenon's, as a share of the largest element: rounding errors of sums in another order.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def main(arguments, command):
    """arguments: those of `tenon bench`; command: the path of the executable. Returns the exit status."""
    options, others = parse(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        if options.from_explain:
            options.source += traced.write_cases(options.from_explain, Path(scratch))
        peers = [name for name in options.vs if name != "unfused"]
        shared = [*itertools.chain.from_iterable(("--shapes", s) for s in options.shapes)]
        own = [*shared, *itertools.chain.from_iterable(("--dim", d) for d in options.dim),
               *itertools.chain.from_iterable(("--input", i) for i in options.input), "--seed", str(options.seed)]
        results = Path(scratch) / "results.json"
        status = subprocess.run([command, "bench", *options.source, *own, "--threads", str(options.threads), "--seconds", str(options.seconds),
                                 "--rounds", str(options.rounds), *(["--vs", "unfused"] if "unfused" in options.vs else []),
                                 "--json", str(results), *others]).returncode
        if status or not results.exists():
            return status
        written = json.loads(results.read_text())
        failed = compare_all(options, peers, graph_texts(command, options.source, shared), written) if peers else 0
        results.write_text(json.dumps(written, indent=2) + "\n")
        if options.json:
            Path(options.json).write_text(results.read_text())
        if options.html:
            failed |= subprocess.run([command, "bench", "page", str(results), options.html]).returncode
    return failed


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tenon bench", description="tenon bench, with other libraries beside Tenon. "
                                     "Further options are those of tenon bench --help.")
    parser.add_argument("source", nargs="*", help="expressions, graphs NAME.tn, or directories of such files")
    parser.add_argument("--vs", action="append", default=[], help="a list of " + ", ".join(["unfused", *(h for h in HOSTS if h != "tenon")]))
    parser.add_argument("--from-explain", metavar="MODULE:NAME", help="a function in a module or a file that returns (model, arguments): each "
                        "kernel and library call of the model is a case")
    parser.add_argument("--shapes", action="append", default=[])
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("--html")
    options, others = parser.parse_known_args(arguments)
    options.vs = [name for text in options.vs for name in text.split(",")]
    if unknown := [name for name in options.vs if name != "unfused" and name not in HOSTS or name == "tenon"]:
        parser.error(f"--vs: there is no {unknown[0]}; there are unfused, {', '.join(h for h in HOSTS if h != 'tenon')}")
    if not options.source and not options.from_explain:
        parser.error("bench needs an expression, a graph or --from-explain")
    return options, others


def graph_texts(command, sources, options):
    """The texts of all graphs that the command line measures, in its order."""
    printed = subprocess.run([command, "bench", "--print", *sources, *options], check=True, capture_output=True, text=True).stdout
    return ["graph @" + part for part in re.split(r"^graph @", printed, flags=re.MULTILINE)[1:]]


def combinations(dims):
    """["N=1,2"] as [{"N": 1}, {"N": 2}]."""
    named = [(d.split("=")[0], [int(n) for n in d.split("=")[1].split(",")]) for d in dims]
    return [dict(zip([n for n, _ in named], values)) for values in itertools.product(*(v for _, v in named))]


def make_inputs(graph, options, generator):
    """Random tensors as the command line makes them: floats of a normal distribution, integers 0 and 1; --input names files."""
    files = dict(item.lstrip("%").split("=", 1) for item in options.input)
    tensors = []
    for v in graph.inputs:
        dtype = OF_NAME[v.dtype]
        if v.name in files:
            t = torch.from_numpy(np.load(files[v.name])).to(dtype)
        elif dtype.is_floating_point:
            t = torch.randn(v.shape, generator=generator).to(dtype)
        else:
            t = torch.randint(2, v.shape, generator=generator).to(dtype)
        if v.strides:
            t = torch.empty_strided(v.shape, v.strides, dtype=dtype).copy_(t)
        tensors.append(t)
    return tensors


def make_case(text, sizes, options):
    graph = read(text)
    tensors = make_inputs(graph.at(sizes), options, torch.Generator().manual_seed(options.seed))
    for symbolic, t in zip(graph.inputs, tensors):
        if symbolic.symbol:
            t.fill_(size_at(symbolic.symbol, sizes))
    return Case(text, graph.at(sizes), tensors, options.threads)


def difference(wanted, got):
    """In what two results differ, as a sentence; empty if they agree."""
    if len(wanted) != len(got):
        return f"{len(got)} results instead of {len(wanted)}"
    for number, (a, b) in enumerate(zip(wanted, got)):
        b = b if isinstance(b, torch.Tensor) else torch.from_numpy(np.array(b))
        where = f"result {number}: " if len(wanted) > 1 else ""
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{where}{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
        if a.numel() == 0:
            continue
        if not a.dtype.is_floating_point:
            if count := int((a != b).sum()):
                return f"{where}{count} of {a.numel()} elements differ"
            continue
        x, y = a.double(), b.double()
        finite = x.isfinite() & y.isfinite()
        if not torch.equal(x.masked_fill(finite, 0).nan_to_num(nan=7), y.masked_fill(finite, 0).nan_to_num(nan=7)):
            return f"{where}other elements are infinite or no number"
        largest = x[finite].abs().max().item() if finite.any() else 0
        far = (x - y)[finite].abs().max().item() if finite.any() else 0
        if far > TOLERANCE.get(a.dtype, 0) * max(largest, 1e-30):
            return f"{where}an element differs by {far:.3g}; the largest element is {largest:.3g}"
    return ""


def prepare(case, peers):
    """(calls by name, reasons by name of the peers that do not run)."""
    calls, reasons = {"tenon": HOSTS["tenon"](case)}, {}
    wanted = calls["tenon"]()
    for name in peers:
        try:
            call = HOSTS[name](case)
            reason = difference(wanted, list(call()))
            reason = reason and f"is not timed, since it differs from Tenon: {reason}"
        except NoCounterpart as e:
            reason = f"has no counterpart of {e}"
        except Missing as e:
            reason = str(e)
        except Exception as e:  # the peer's own; other peers and cases go on
            if os.environ.get("TENON_LOG"):
                traceback.print_exc()
            reason = f"fails: {type(e).__name__}: {(str(e).strip().splitlines() or [''])[0][:160]}"
        if reason:
            reasons[name] = reason
        else:
            calls[name] = call
    return calls, reasons


def measure(calls, seconds, rounds):
    """name -> medians of the rounds, in seconds. Each turn begins with a call that is not timed, since the threads of the library before may
    still spin."""
    medians = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            times, start = [], time.perf_counter()
            end = start + seconds / rounds
            while not times or start < end:
                before = time.perf_counter()
                call()
                start = time.perf_counter()
                times.append(start - before)
            medians[name].append(statistics.median(times))
    return medians


def time_text(s):
    return f"{s * 1e6:.1f} us" if s < 1e-3 else f"{s * 1e3:.2f} ms" if s < 1 else f"{s:.2f} s"


def compare_all(options, peers, texts, written):
    """Prints a table, adds the peers' times to the JSON of the command line, and returns 1 if a result is wrong, otherwise 0."""
    torch.set_num_threads(options.threads)
    entries = [e for e in written["benchmarks"] if e.get("aggregate_name") == "median"]
    pairs = [(text, sizes) for text in texts for sizes in combinations(options.dim)]
    width, wrong, skipped = max(len(e["run_name"]) for e in entries), 0, {}
    print(f"\nin this process, with new memory for the results; x: the peer's time over Tenon's, the median over {options.rounds} rounds")
    print(f"{'case':<{width}} {'tenon':>10}" + "".join(f" {name:>19}" for name in peers))
    for (text, sizes), entry in zip(pairs, entries, strict=True):
        with torch.no_grad():
            case = make_case(text, sizes, options)
            calls, reasons = prepare(case, peers)
            times = measure(calls, options.seconds, options.rounds)
        entry["peers"] = {name: statistics.median(t) * 1e6 for name, t in times.items()}
        entry["peers_missing"] = reasons
        cells = []
        for name in peers:
            if name in times:
                ratio = statistics.median(b / a for a, b in zip(times["tenon"], times[name]))
                cells.append(f"{time_text(statistics.median(times[name]))} {ratio:>7.2f}x")
            else:
                cells.append("-")
        print(f"{entry['run_name']:<{width}} {time_text(statistics.median(times['tenon'])):>10}" + "".join(f" {c:>19}" for c in cells), flush=True)
        for name, reason in reasons.items():
            skipped.setdefault(f"{name} {reason}", []).append(entry["run_name"])
            wrong |= "differs from Tenon" in reason
    for reason, cases in skipped.items():
        print(f"{reason} ({len(cases)} of {len(entries)} cases{': ' + cases[0] if len(cases) < len(entries) else ''})")
    if wrong:
        print("a result differs: see above", file=sys.stderr)
    return int(wrong)

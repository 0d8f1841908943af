"""The verb `python -m tenon bench` where it names peers or a model of PyTorch. First the command line (src/cli/bench) measures Tenon, compares
it with the evaluator and prints its table. Then the same graphs run in the peers, in this process: each result is compared with Tenon's,
and calls take turns. Tested by tests/torch/test_peers.py.
"""

import argparse
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
from .hosts import HOSTS, OF_NAME, Case, Missing, tensor_of, why_not
from .spelling import NoCounterpart

# How far a peer's result may be from Tenon's, as a share of the largest element: rounding errors of sums in another order.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
LISTS = ("shapes", "dim", "input", "backend", "without")  # options of the command line that may be repeated
FLAGS = ("cold", "explain", "print")
DIVIDE = ("floor_div", "trunc_div", "remainder", "fmod")  # fail if an integer divisor is 0


def main(arguments, command):
    """arguments: those of `tenon bench`; command: the path of the executable. Returns the exit status."""
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        if options.from_explain:
            options.source += traced.write_cases(options.from_explain, Path(scratch))
        results = Path(scratch) / "results.json"
        status = subprocess.run([command, "bench", *command_line(options, results)]).returncode
        if status or not results.exists():
            return status
        written = json.loads(results.read_text())
        failed = compare_all(options, graph_texts(command, options), written) if options.peers else 0
        results.write_text(json.dumps(written, indent=2) + "\n")
        if options.json:
            Path(options.json).write_text(results.read_text())
        if options.html:
            failed |= subprocess.run([command, "bench", "page", str(results), options.html]).returncode
    return failed


def parse(arguments):
    """The options: those of `tenon bench`, and ours. peers: the libraries that --vs names."""
    parser = argparse.ArgumentParser(prog="python -m tenon bench", description="tenon bench, with other libraries beside Tenon. "
                                     "tenon bench --help explains the options that have no text here.")
    parser.add_argument("source", nargs="*", help="expressions, graphs NAME.tn, or directories of such files")
    parser.add_argument("--vs", action="append", default=[], help="a list of " + ", ".join(["unfused", *(h for h in HOSTS if h != "tenon")]))
    parser.add_argument("--from-explain", metavar="MODULE:NAME", help="a function in a module or a file that returns (model, arguments): each "
                        "kernel and library call of the model is a case")
    for name in LISTS:
        parser.add_argument(f"--{name}", action="append", default=[])
    for name in FLAGS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("--html")
    options = parser.parse_intermixed_args(arguments)
    options.vs = [name for text in options.vs for name in text.split(",")]
    options.peers = [name for name in options.vs if name != "unfused"]
    if unknown := [name for name in options.vs if name != "unfused" and name not in HOSTS or name == "tenon"]:
        parser.error(f"--vs: there is no {unknown[0]}; there are unfused, {', '.join(h for h in HOSTS if h != 'tenon')}")
    if not options.source and not options.from_explain:
        parser.error("bench needs an expression, a graph or --from-explain")
    for path in (options.json, options.html):
        if path is not None and not (path and Path(path).parent.is_dir() and os.access(Path(path).parent, os.W_OK)):
            parser.error(f"{path!r} cannot be written")
    if options.peers and (options.backend or options.without):
        parser.error("--backend and --without: not with other libraries, because Tenon beside them is measured without these options")
    return options


def command_line(options, results):
    """The arguments of `tenon bench` that measure Tenon and write the file `results`."""
    lists = [f"--{name}={text}" for name in LISTS for text in getattr(options, name)]
    flags = [f"--{name}" for name in FLAGS if getattr(options, name)]
    single = [f"--{name}={getattr(options, name)}" for name in ("threads", "seconds", "rounds", "seed")]
    return [*options.source, *lists, *flags, *single, *["--vs=unfused"] * ("unfused" in options.vs), f"--json={results}"]


def graph_texts(command, options):
    """The texts of all graphs that the command line measures, in its order."""
    shapes = [f"--shapes={text}" for text in options.shapes]
    printed = subprocess.run([command, "bench", "--print", *options.source, *shapes], check=True, capture_output=True, text=True).stdout
    return ["graph @" + part for part in re.split(r"^graph @", printed, flags=re.MULTILINE)[1:]]


def make_inputs(graph, options, generator):
    """Random tensors as the command line makes them: floats of a normal distribution, integers 0 and 1, divisors 1 and 2; --input names files."""
    files = dict(item.lstrip("%").split("=", 1) for item in options.input)
    divisors = {node.operands[1].name for node in graph.nodes if node.op in DIVIDE}
    tensors = []
    for v in graph.inputs:
        dtype = OF_NAME[v.dtype]
        if v.name in files:
            t = torch.from_numpy(np.load(files[v.name])).to(dtype)
        elif dtype.is_floating_point:
            t = torch.randn(v.shape, generator=generator).to(dtype)
        else:
            t = (torch.randint(2, v.shape, generator=generator) + (v.name in divisors)).to(dtype)
        if v.strides:
            t = torch.empty_strided(v.shape, v.strides, dtype=dtype).copy_(t)
        tensors.append(t)
    return tensors


def make_case(text, sizes, options, threads):
    graph = read(text)
    tensors = make_inputs(graph.at(sizes), options, torch.Generator().manual_seed(options.seed))
    for symbolic, t in zip(graph.inputs, tensors):
        if symbolic.symbol:
            t.fill_(size_at(symbolic.symbol, sizes))
    return Case(text, graph.at(sizes), tensors, threads)


def difference(wanted, got):
    """Returns a sentence that says how two results differ, or an empty string if they agree."""
    if len(wanted) != len(got):
        return f"{len(got)} results instead of {len(wanted)}"
    for number, (a, b) in enumerate(zip(wanted, got)):
        b = tensor_of(b)
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
            why = difference(wanted, list(call()))
            why = why and f"is not timed, since it differs from Tenon: {why}"
        except Exception as e:  # the peer's own; other peers and cases go on
            if os.environ.get("TENON_LOG") and not isinstance(e, (Missing, NoCounterpart)):
                traceback.print_exc()
            why = why_not(e)
        if why:
            reasons[name] = why
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


def compare_all(options, texts, written):
    """Prints a table, adds the peers' times to the JSON of the command line, and returns 1 if a result is wrong, otherwise 0."""
    peers = options.peers
    entries = [e for e in written["benchmarks"] if e.get("aggregate_name") == "median"]
    each = len(entries) // len(texts)  # a graph has an entry for each number of threads and each set of sizes
    width, wrong, skipped = max(len(e["run_name"]) for e in entries), 0, {}
    print(f"\nin this process, with new memory for the results; x: the peer's time over Tenon's, the median over {options.rounds} rounds")
    print(f"{'case':<{width}} {'tenon':>10}" + "".join(f" {name:>19}" for name in peers))
    for number, entry in enumerate(entries):
        sizes = {name: int(size) for name, size in (dim.split("=") for dim in entry["dims"])}
        torch.set_num_threads(entry["threads"])
        with torch.no_grad():
            case = make_case(texts[number // each], sizes, options, entry["threads"])
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

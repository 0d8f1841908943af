#!/usr/bin/env python3
"""`./dev bench models`: measures the models of the demo with more care, and with peers and floors to compare.

Every model and contender runs in several fresh processes, in turns. Ratios to eager are taken within a round
of one process and pooled, and so are ratios to a 1024x1024 matrix product, by which Tenon and a peer are
compared. The floors: floating-point work at the rate of the best such product of the same process, and eager's
peak of intermediates beside Tenon's planned workspace. `--peers`: Inductor with and without freezing (needs g++),
ONNX Runtime and OpenVINO. A peer that is not installed, does not take a model or gives a wrong answer has no
time, and a line below the table says why. Prints Markdown (report.py); all rounds go to a file.
Tested by tests/torch/test_bench_models.py.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.contenders import CONTENDERS, PEERS, RUNTIMES  # noqa: E402
from bench.models import report                           # noqa: E402
from bench.models.demo import chosen                      # noqa: E402
from bench.models.runtimes import missing                 # noqa: E402
from bench.models.worker import ROOT, Request, clean_up_when_terminated, spawn     # noqa: E402
from bench.models.zoo import ALL, MODELS                  # noqa: E402
from bench.table import Progress                          # noqa: E402
from bench.timing import describe_machine                 # noqa: E402

EVERY_PEER = (*PEERS, *RUNTIMES)


def main():
    clean_up_when_terminated()
    options = parse()
    ours = [options.backend, *["tenon_unfrozen"] * options.unfrozen]
    absent = {peer: why for peer in options.peers if (why := missing(peer))}
    machine, runs = describe_machine(), []
    print(f"{machine}, f32, {options.processes} processes x at most {options.rounds} rounds; times: median (minimum)")
    for threads in options.threads:
        mine = measure(options, threads, [*ours, *(peer for peer in options.peers if peer not in absent)])
        runs += mine
        print(f"\n## {threads} threads\n\n" + report.text(report.Table(mine, options.models, ours, options.peers, absent)), flush=True)

    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": machine, "options": vars(options) | {"json": str(options.json)}, "missing": absent,
                                        "runs": runs}, indent=1))
    wrong = [f"{r['model']} with {r['contender']}: {p}" for r in runs if r["contender"] in ours for p in r["problems"]]
    print("\n" + ("\n".join(dict.fromkeys(wrong)) if wrong else "all answers right"))
    return 1 if wrong else 0


def measure(options, threads, contenders):
    runs = []
    for model in options.models:
        for turn in range(options.processes):
            for contender in contenders:
                with Progress(f"{model} with {contender} on {threads} threads, process {turn + 1} of {options.processes}"):
                    runs.append(spawn(Request(model, contender, options.tiny, threads, options.rounds, round_s=0.2, floors=True, rest_s=0.05)))
    return runs


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev bench models", description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=chosen, default=list(MODELS), metavar="A,B", help="all, or " + ", ".join(ALL))
    parser.add_argument("--peers", type=peers, nargs="?", const=list(EVERY_PEER), default=[], metavar="A,B",
                        help=f"some of {', '.join(EVERY_PEER)}, or backends of torch.compile; without names all of these")
    parser.add_argument("--unfrozen", action="store_true", help="Tenon with its default, freeze=False, too")
    parser.add_argument("--threads", type=lambda text: list(map(int, text.split(","))), default=[2], metavar="N,...")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20, help="per process")
    parser.add_argument("--tiny", action="store_true", help="the same structures, small sizes")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench/models.json", help="all rounds (default: build/bench/models.json)")
    parser.add_argument("--backend", default="tenon", help="another torch.compile backend in Tenon's place")
    return parser.parse_args(arguments)


def peers(text):
    names = text.split(",")
    if ours := [name for name in names if name.startswith("tenon") or name == "eager"]:
        raise argparse.ArgumentTypeError(f"{ours[0]} is no peer")
    return names


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`./dev demo`: runs real models through `torch.compile(model, backend="tenon")`, checks them against eager and times them.

Prints one table; the exit code is 1 if a model is wrong. Each model runs in a fresh process (worker.py).
A second table has whole training steps of one model (bench/train.py).
`--peers` adds Inductor, with and without freezing, its first call with empty caches (needs g++).
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.contenders import PEERS, missing_for_peers     # noqa: E402
from bench.models.worker import Request, clean_up_when_terminated, python_path, spawn     # noqa: E402
from bench.models.zoo import ALL, MODELS                        # noqa: E402
from bench.table import Progress, aligned                  # noqa: E402
from bench.timing import describe_machine                  # noqa: E402


def main():
    clean_up_when_terminated()
    options = parse()
    contenders = [options.backend, *(PEERS if options.peers else ())]
    if options.peers and missing_for_peers():
        sys.exit(f"demo: {missing_for_peers()}")
    machine = describe_machine()
    pace = (5, 0.02) if options.tiny else (15, 0.1)     # rounds, seconds each
    rows, wrong = [], []
    for i, model in enumerate(options.models):
        results = []
        for contender in contenders:
            with Progress(f"{model} with {contender} ({i + 1} of {len(options.models)} models)"):
                results.append(spawn(Request(model, contender, options.tiny, options.threads, *pace)))
        rows.append(row(results))
        wrong += [(model, result) for result in results if result["problems"]]

    name = options.backend
    header = ["model", "eager ms", f"{name} ms", "ratio", "first s", "own s", "kernels", "fused", "fallbacks",
              "check"]
    for peer in contenders[1:]:
        header += [peer, "first s", "check"]
    print(aligned(header, rows))
    print(f"\n{machine}. {options.threads} threads, f32, batch 1.\n"
          f"ratio: eager's time over {name}'s. first s: the first call, Dynamo and AOTAutograd included;\n"
          "own s: Tenon's share of it. fused: nodes in a group with others, of all that run. Weights are frozen.")
    if name == "tenon" and options.train != "none":
        with Progress(f"training steps of {options.train}"):
            table, problem = trained(options)
        print(f"\ntraining: a step is zero_grad, forward, backward and AdamW; ratios to eager with its default optimizer\n{table}")
        if problem:
            wrong.append((f"training of {options.train}", {"contender": name, "problems": [problem]}))
    for model, result in wrong:
        print(f"\n{model} with {result['contender']}:")
        for problem in result["problems"][:5] + result.get("log", []):
            print(f"  {problem}")
    names = list(dict.fromkeys(model for model, _ in wrong))
    print(f"\nwrong: {', '.join(names)}" if wrong else f"\nall {len(rows)} models right")
    return 1 if wrong else 0


def trained(options):
    """(table, problem or None) of bench/train.py in a process of its own."""
    command = [sys.executable, ROOT / "bench" / "train.py", options.train, "--threads", str(options.threads), "--seconds", "20"]
    command += ["--peers"] * options.peers + ["--tiny"] * options.tiny
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": python_path()})
    if done.returncode and not done.stdout:
        return "no result", "\n".join(done.stderr.splitlines()[-10:])
    table = done.stdout.split("\n\n")[1].split("\ngeometric means")[0]
    return table, done.stdout.splitlines()[-1] if done.returncode else None


def row(results):
    first = results[0]
    get = first.get
    fused = None if get("nodes_fused") is None else f"{get('nodes_fused')}/{show(get('nodes'))}"
    own = None if get("own_s") is None else f"{get('own_s'):.2f}"
    cells = [get("model"), get("eager_ms"), get("compiled_ms"), times(first), seconds(first), own,
             get("kernels_compiled"), fused, get("fallbacks"), verdict(first)]
    for peer in results[1:]:
        cells += [times(peer), seconds(peer), verdict(peer)]
    return cells


def show(value):
    return "-" if value is None else value


def times(result):
    return f"{result['speedup']:.2f}x" if "speedup" in result else None


def seconds(result):
    return f"{result['first_s']:.1f}" if "first_s" in result else None


def verdict(result):
    return "WRONG" if result["problems"] else "ok"


def parse():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=chosen, default=list(MODELS), metavar="A,B", help="all, or " + ", ".join(ALL))
    parser.add_argument("--peers", action="store_true", help="Inductor's columns too (needs g++)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="the same structures, small sizes")
    parser.add_argument("--train", default="bert_base", metavar="MODEL", help="the model of the training steps; none: no such table")
    parser.add_argument("--backend", default="tenon", help="another torch.compile backend in Tenon's place")
    return parser.parse_args()


def chosen(text):
    names = list(ALL) if text == "all" else text.split(",")
    unknown = [name for name in names if name not in ALL]
    if unknown:
        raise argparse.ArgumentTypeError(f"no model {', '.join(unknown)}; there are {', '.join(ALL)}")
    return names


if __name__ == "__main__":
    sys.exit(main())

"""Campaign `programs`: random programs of PyTorch (grammar.py) against eager, at three sizes each.

A seed is a program. dynamic=True programs and those of automatic dynamic shapes run at three sizes through one compiled function,
static ones at one. With --backward, gradients of the float inputs by random tangents are compared too. A failing program is shrunk and
written to build/campaign/programs/SEED.py, a script that needs no other file.
"""

import re
import torch
import torch._dynamo

from . import backward, grammar, shrink, trial
from .pool import ROOT

LIMIT = 240
BAD = ("wrong", "raised")


def add_arguments(parser):
    parser.add_argument("--seed", type=int, default=0, help="the first program (default 0)")
    parser.add_argument("--backward", action="store_true", help="gradients of the float inputs too")
    parser.add_argument("--count", type=int, help="how many programs (default 300 with --ci, else 20000)")
    parser.add_argument("--shrink", type=float, default=60, help="seconds of the processor to shrink a failing program (default 60)")
    parser.add_argument("--print", action="store_true", help="print the programs, run none")


def jobs(options):
    count = options["count"] or (300 if options["ci"] else 20000)
    seeds = range(options["seed"], options["seed"] + count)
    if options["print"]:
        for seed in seeds:
            print(grammar.generate(seed).script())
        return []
    return [{"key": f"seeds {seeds[i]}..", "seeds": list(seeds[i:i + 20])} for i in range(0, count, 20)]


def cases(job, options):
    for seed in job["seeds"]:
        yield ({"id": f"seed {seed}", "repro": f"./dev campaign programs --seed {seed} --count 1" + " --backward" * options["backward"]},
               lambda seed=seed: run(seed, options))


def examine(program, options):
    torch._dynamo.reset()
    space = grammar.load(program.source())
    wide = grammar.load(re.sub(r"torch\.(float32|bfloat16|float16)\b", "torch.float64", program.source()))["f"]
    calls = [space["inputs"](s) for s in range(1 if program.dynamic is False else 3)]
    how = {"backend": options["backend"], "dynamic": program.dynamic}
    f = space["f"]
    if options["backward"]:
        leaves = [i for i, t in enumerate(calls[0]) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        f, wide = backward.WithGradients(f, leaves), backward.WithGradients(wide, leaves)
    return trial.check(f, calls, how, wide=wide, timed=True, aliases=not options["backward"])


def tag(record):
    """Returns the kind of failure, with the numbers removed."""
    text = record["detail"]
    if record["class"] == "wrong":
        text = text.split(": ", 2 if "output" in text.split(": ")[1] else 1)[-1].split(":")[0]
        return f"wrong {text}"
    # Values' names and types are those of one graph; a smaller one fails alike with others.
    return re.sub(r"\d+", "N", re.sub(r"\[[^\]]*\]|[%@]\w+", "_", text))[:160]


def run(seed, options):
    program = grammar.generate(seed)
    record = examine(program, options)
    record["statements"] = len(program.statements)
    if record["class"] in BAD:
        kind = (record["class"], tag(record))

        def fails(candidate):
            again = examine(candidate, options)
            return (again["class"], tag(again)) == kind

        small = shrink.shrink(program, fails, options["shrink"]) if options["shrink"] else program
        record["tag"] = kind[1]
        record["small"] = small.source()
        record["small_detail"] = examine(small, options)["detail"]
        record["calls"] = sorted(set(re.findall(r"\.([a-z_0-9]+)\(", "\n".join(t for _, t in small.statements))))
        folder = ROOT / "build" / "campaign" / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed}.py").write_text(small.script())
    return record

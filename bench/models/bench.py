#!/usr/bin/env python3
"""`./dev bench models`: measures the models of the demo with more care, and with floors to compare.

Every model and contender runs in several fresh processes, in turns. Ratios to eager are taken within a round
of one process and pooled. The floors: floating-point work at the rate of the best 1024x1024 matrix product of
the same process, and eager's peak of intermediates beside Tenon's planned workspace. Prints Markdown; all
rounds go to build/bench/models.json. Peers: Inductor with and without freezing (needs g++, `--peers`).
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.contenders import PEERS, missing_for_peers     # noqa: E402
from bench.models.demo import chosen                      # noqa: E402
from bench.models.worker import ROOT, Request, clean_up_when_terminated, spawn     # noqa: E402
from bench.models.zoo import ALL, MODELS                  # noqa: E402
from bench.table import Progress, markdown                # noqa: E402
from bench.timing import describe_machine, speedup        # noqa: E402


def main():
    clean_up_when_terminated()
    options = parse()
    contenders = [options.backend, *(PEERS if options.peers else ())]
    if options.peers and missing_for_peers():
        sys.exit(f"bench models: {missing_for_peers()}")
    machine = describe_machine()
    runs = []
    for model in options.models:
        for turn in range(options.processes):
            for contender in contenders:
                with Progress(f"{model} with {contender}, process {turn + 1} of {options.processes}"):
                    runs.append(spawn(Request(model, contender, options.tiny, options.threads,
                                              options.rounds, round_s=0.2, floors=True)))
    pooled = {key: pool([r for r in runs if (r["model"], r["contender"]) == key])
              for key in ((m, c) for m in options.models for c in contenders)}
    results = {m: [pooled[m, c] for c in contenders] for m in options.models}

    print(f"{machine}, {options.threads} threads, f32, batch 1, "
          f"{options.processes} processes x at most {options.rounds} rounds; times: median (minimum)\n")
    header = ["model", "eager ms", *(f"{c} ms" for c in contenders), *(f"{c} vs eager" for c in contenders),
              "GFLOP", "eager of peak", f"{options.backend} of peak"]
    print(markdown(header, [steady(m, results[m]) for m in options.models]))
    for contender in contenders:
        ratios = [pooled[m, contender]["speedup"] for m in options.models if pooled[m, contender]]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            print(f"\n{contender} over eager, geometric mean of {len(ratios)}: {mean:.2f}x")
    print("\nFirst call in a fresh process with empty caches, and memory (MB):\n")
    header = ["model", *(f"{c} s" for c in contenders), "own ms", "kernels", "fused / nodes", "fallbacks",
              "graphs", "workspace", "eager's peak"]
    print(markdown(header, [first(m, results[m]) for m in options.models]))

    out = ROOT / "build" / "bench" / "models.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "options": vars(options), "runs": runs}, indent=1))
    wrong = [f"{r['model']} with {r['contender']}: {p}" for r in runs for p in r["problems"]]
    print("\n" + ("\n".join(dict.fromkeys(wrong)) if wrong else "all answers right"))
    return 1 if wrong else 0


def pool(runs):
    """One result for several processes: all their rounds, the median first call; {} if every process failed."""
    runs = [r for r in runs if "speedup" in r]
    if not runs:
        return {}
    own = [r["compile_ms"] for r in runs if r["compile_ms"] is not None]
    eager, compiled = ([t for r in runs for t in r[f"{who}_rounds_ms"]] for who in ("eager", "compiled"))
    return runs[0] | {
        "eager": eager, "compiled": compiled, "speedup": speedup(eager, compiled),
        "first_s": statistics.median(r["first_s"] for r in runs),
        "compile_ms": statistics.median(own) if own else None,
        "matmul_gflops": max(r["matmul_gflops"] for r in runs),
    }


def steady(model, results):
    mine = results[0]
    eager = [t for r in results if r for t in r["eager"]]
    cells = [model, summary(eager), *(summary(r.get("compiled")) for r in results)]
    cells += [f"{r['speedup']:.2f}x" if r else None for r in results]
    if not mine:
        return cells + [None] * 3
    floor_ms = 1e3 * mine["gflop"] / mine["matmul_gflops"]
    of_peak = (f"{100 * floor_ms / statistics.median(mine[who]):.0f} %" for who in ("eager", "compiled"))
    return [*cells, f"{mine['gflop']:.2f}", *of_peak]


def first(model, results):
    get = results[0].get
    fused = None if get("nodes_fused") is None else f"{get('nodes_fused')} / {get('nodes')}"
    own = None if get("compile_ms") is None else f"{get('compile_ms'):.0f}"
    return [model, *(f"{r['first_s']:.2f}" if r else None for r in results), own, get("kernels_compiled"),
            fused, get("fallbacks"), get("graphs"),
            megabytes(get("workspace_bytes")), megabytes(get("eager_peak_bytes"))]


def summary(ms):
    return f"{statistics.median(ms):.1f} ({min(ms):.1f})" if ms else None


def megabytes(count):
    return None if count is None else f"{count / 1e6:.2f}"


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench models", description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=chosen, default=list(MODELS), metavar="A,B", help=", ".join(ALL))
    parser.add_argument("--peers", action="store_true", help="Inductor, also frozen (needs g++)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20, help="per process")
    parser.add_argument("--tiny", action="store_true", help="the same structures, small sizes")
    parser.add_argument("--backend", default="tenon", help="another torch.compile backend in Tenon's place")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

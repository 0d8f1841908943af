"""The tables of `./dev bench models`. Tested by tests/torch/test_bench_models.py."""

import statistics
from dataclasses import dataclass

from bench.table import markdown
from bench.timing import speedup


@dataclass
class Table:
    runs: list      # results of worker.py, for one number of threads
    models: list
    ours: list      # the contenders that are Tenon's; the first one is compared with the peers
    peers: list
    absent: dict    # peer -> the reason why it was not measured

    def __post_init__(self):
        self.pooled = {(m, c): pool([r for r in self.runs if (r["model"], r["contender"]) == (m, c)])
                       for m in self.models for c in self.contenders}

    @property
    def contenders(self):
        return [*self.ours, *self.peers]

    def speedup(self, model, contender):
        """Eager's time over the contender's, or None."""
        return self.pooled[model, contender].get("speedup")

    def over_best(self, model):
        """(the peer with the least time, its time over Tenon's), or None. Each time is divided by that of the matrix product in its process,
        because eager's time differs more from process to process."""
        rates = {c: rate for c in (self.ours[0], *self.peers) if (rate := self.pooled[model, c].get("rate"))}
        mine = rates.pop(self.ours[0], None)
        if not mine or not rates:
            return None
        best = max(rates, key=rates.get)
        return best, mine / rates[best]


def text(table):
    parts = [steady(table), *left_out(table), *means(table), *wins(table),
             "First call in a fresh process with empty caches, and memory (MB):", first_calls(table)]
    return "\n\n".join(parts)


def pool(runs):
    """One result for several processes: all their rounds, the median first call. {} if every process failed, or if an answer is wrong."""
    if any(r["problems"] and "speedup" in r for r in runs):
        return {}
    runs = [r for r in runs if "speedup" in r]
    if not runs:
        return {}
    own = [r["own_s"] for r in runs if r.get("own_s") is not None]
    eager, compiled, matmul = ([t for r in runs for t in r[f"{who}_rounds_ms"]] for who in ("eager", "compiled", "matmul"))
    return runs[0] | {
        "eager": eager, "compiled": compiled, "speedup": speedup(eager, compiled), "rate": speedup(matmul, compiled),
        "first_s": statistics.median(r["first_s"] for r in runs),
        "own_s": statistics.median(own) if own else None,
        "matmul_gflops": max(r["matmul_gflops"] for r in runs),
    }


def steady(table):
    name = table.ours[0]
    header = ["model", "eager ms", f"{name} ms", *table.contenders, *["best peer", f"{name} over it"] * bool(table.peers),
              "GFLOP", "eager of torch.mm", f"{name} of torch.mm"]
    return markdown(header, [steady_row(table, model) for model in table.models])


def steady_row(table, model):
    """Cells: times, eager's time over each contender's, the best peer's time over Tenon's, and the rates over that of a large torch.mm."""
    mine, best = table.pooled[model, table.ours[0]], table.over_best(model)
    eager = [t for c in table.contenders for t in table.pooled[model, c].get("eager", [])]
    cells = [model, summary(eager), summary(mine.get("compiled"))]
    cells += ["missing" if c in table.absent else times(table.speedup(model, c)) for c in table.contenders]
    if table.peers:
        cells += [best[0], times(best[1])] if best else [None, None]
    if not mine:
        return cells + [None] * 3
    floor_ms = 1e3 * mine["gflop"] / mine["matmul_gflops"]
    of_matmul = (f"{100 * floor_ms / statistics.median(mine[who]):.0f} %" for who in ("eager", "compiled"))
    return [*cells, f"{mine['gflop']:.2f}", *of_matmul]


def left_out(table):
    """A list of one text, or of none: why a cell of a contender is empty."""
    lines = [f"{peer} {why}" for peer, why in table.absent.items()]
    first = {(r["model"], r["contender"]): r for r in reversed(table.runs) if r["problems"]}
    for (model, contender), r in reversed(first.items()):
        wrong = "is not timed, since its answer is wrong: " if "speedup" in r else ""
        lines.append(f"{model}: {contender} {wrong}{r['problems'][0]}")
    return ["\n".join(f"- {line}" for line in lines)] if lines else []


def means(table):
    lines = []
    for contender in table.contenders:
        if ratios := [r for m in table.models if (r := table.speedup(m, contender))]:
            lines.append(f"{contender} over eager, geometric mean of {len(ratios)}: {times(statistics.geometric_mean(ratios))}")
    if ratios := [best[1] for m in table.models if (best := table.over_best(m))]:
        lines.append(f"{table.ours[0]} over the best peer of each row, geometric mean of {len(ratios)}: {times(statistics.geometric_mean(ratios))}")
    return ["\n".join(f"- {line}" for line in lines)] if lines else []


def wins(table):
    """The rows where a peer is faster than Tenon, the worst one first."""
    if not table.peers:
        return []
    rows = sorted((best[1], m, best[0]) for m in table.models if (best := table.over_best(m)) and best[1] < 1)
    lines = [f"- {m}: {peer}, in {ratio:.2f} of {table.ours[0]}'s time" for ratio, m, peer in rows]
    return ["\n".join(["Rows where a peer is faster:" if rows else "No peer is faster in any row.", *([""] * bool(rows)), *lines])]


def first_calls(table):
    header = ["model", *(f"{c} s" for c in table.contenders), "own ms", "kernels", "fused / nodes", "fallbacks",
              "graphs", "workspace", "eager's peak"]
    return markdown(header, [first_row(table, model) for model in table.models])


def first_row(table, model):
    get = table.pooled[model, table.ours[0]].get
    fused = None if get("nodes_fused") is None else f"{get('nodes_fused')} / {get('nodes')}"
    own = None if get("own_s") is None else f"{1e3 * get('own_s'):.0f}"
    firsts = (table.pooled[model, c].get("first_s") for c in table.contenders)
    return [model, *(None if s is None else f"{s:.2f}" for s in firsts), own, get("kernels_compiled"), fused, get("fallbacks"), get("graphs"),
            megabytes(get("workspace_bytes")), megabytes(get("eager_peak_bytes"))]


def times(ratio):
    return None if ratio is None else f"{ratio:.2f}x"


def summary(ms):
    """At least three digits, so that the times of small models are told apart."""
    if not ms:
        return None
    digits = 1 if min(ms) >= 10 else 3
    return f"{statistics.median(ms):.{digits}f} ({min(ms):.{digits}f})"


def megabytes(count):
    return None if count is None else f"{count / 1e6:.2f}"

"""The counts of stats(), a Record per compiled graph, and the Report of explain().

This module holds weak references to records and programs, which live as long as their compiled functions; functions may share
programs. When a record or a program dies, its counts are added to totals that stay.
Tested by tests/torch/test_fallback.py and test_backend.py.
"""

import collections
import json
import threading
import time
import weakref
from pathlib import Path

from . import _abi

_KEYS = ("calls", "programs", "nodes", "nodes_fused", "kernels_compiled", "reference_steps", "compile_ms", "plan_misses",
         "plan_ms", "graph_ms")
_DISK = {f"disk_{k}": k for k in ("hits", "misses", "damaged", "writes", "bytes_read", "bytes_written")}
CALL = "a call"  # stands for the node in a fallback of a call
MOST_REASONS = 32  # kept for the calls of one graph; a reason may name sizes, so there may be many
_lock = threading.RLock()
_live = weakref.WeakSet()  # records
_programs = weakref.WeakSet()
_past = collections.Counter()  # counts of dead records and programs
_start = collections.Counter()  # counts at the last reset_stats(), which stats() subtracts
_reasons = collections.Counter()
_workspace = 0


class Record:
    """What happened to one graph that PyTorch passed to the backend."""

    def __init__(self, name, nodes):
        self.name, self.nodes = name, nodes
        self.fallbacks, self.notes = [], []  # fallbacks: (place, op, why), where place is a node, "graph" or CALL
        self.compiled, self.eager, self.seconds = None, False, 0.0
        self.saved = None  # torch/saved.py: what a forward graph saves for the backward pass, if explain() asks
        self.parameters = set()  # indices of the arguments that are the same tensors in every call
        with _lock:
            _live.add(self)

    def fallback(self, node, op, why):
        self.fallbacks.append((node, op, why))

    def close(self):
        """Adds the fallbacks to the counts, at the end of the compilation."""
        with _lock:
            _reasons.update(why for _, _, why in self.fallbacks)

    def refused_call(self, why):
        """Notes that a segment of a call runs in PyTorch. Each reason counts once; all reasons beyond MOST_REASONS count as one."""
        with _lock:
            known = {w for n, _, w in self.fallbacks if n == CALL}
            if len(known) >= MOST_REASONS:
                why = "calls for further reasons"
            if why not in known:
                self.fallbacks.append((CALL, "a segment", why))
                _reasons[why] += 1

    @property
    def programs(self):
        return self.compiled.programs() if self.compiled else []

    def calls(self):
        return self.compiled.calls() if self.compiled else 0

    def __del__(self):
        try:
            with _lock:
                _past.update(self.counts())
        except Exception:  # at interpreter exit a module may be gone before its objects
            pass

    def counts(self):
        return {"calls": self.calls(), "graph_ms": 1e3 * self.seconds}

    def to_dict(self):
        programs = []
        for program in self.programs:
            programs.append({"graph": program.text, "stats": program.stats(), "explain": _json(program)})
        return {"name": self.name, "nodes": self.nodes, "runs_in_pytorch": self.eager, "programs": programs,
                "host_steps": self.compiled.source if self.compiled else None, "seconds": self.seconds,
                "fallbacks": [{"node": n, "op": o, "why": w} for n, o, w in self.fallbacks], "notes": list(self.notes),
                "saved": self.saved.to_dict() if self.saved else None}

    def __str__(self):
        lines = [f"{self.name}: {self.nodes} nodes, compiled in {self.seconds * 1e3:.1f} ms"]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  {line}" for line in (self.saved.lines() if self.saved else ())]
        if self.eager:
            lines.append("  the whole graph runs in PyTorch")
        for node, op, why in self.fallbacks:
            lines.append(f"  in PyTorch: {op} ({node}): {why}")
        for program in self.programs:
            s = program.stats()
            lines.append(f"  program: {s['nodes']} nodes, {s['nodes_fused']} fused, {s['kernels']} kernels, "
                         f"{s['workspace_bytes']} bytes of workspace" +
                         (f", {s['reference_steps']} reference steps" if s["reference_steps"] else ""))
            lines += ["    " + line for line in program.text.splitlines()]
            lines += ["    " + line for line in program.explain().splitlines()]
        return "\n".join(lines)


def _json(program):
    text = program.explain(json=True)
    try:
        return json.loads(text)
    except ValueError:
        return text


def track(program):
    """Includes a new program in stats(). When the program dies, its counts go to the totals."""
    with _lock:
        _programs.add(program)
    program.on_release = _add_to_past


def _add_to_past(program):
    global _workspace
    s = program.stats()
    with _lock:
        _past.update(_counts(s))
        _workspace = max(_workspace, s["workspace_bytes"])


def _counts(stats):
    return {"programs": 1} | {k: stats[k] for k in _KEYS if k in stats}


def _totals():
    total = collections.Counter(_past)
    for record in list(_live):
        total.update(record.counts())
    for program in list(_programs):
        total.update(_counts(program.stats()))
    disk = _abi.cache_stats()
    total.update({key: disk[name] for key, name in _DISK.items()})
    return total


def stats():
    with _lock:
        total = _totals()
        result = {k: total[k] - _start[k] for k in (*_KEYS, *_DISK)}
        result["workspace_bytes"] = max([_workspace, *(p.stats()["workspace_bytes"] for p in list(_programs))])
        result["fallbacks"] = sum(_reasons.values())
        result["fallback_reasons"] = dict(_reasons)
        return result


def reset_stats():
    global _start, _workspace
    with _lock:
        _start, _workspace = _totals(), 0
        _reasons.clear()


class Report:
    """The result of explain(). str(report): text; report.to_dict(): the same as data."""

    def __init__(self, records, breaks, result):
        self.records, self.breaks, self.result = records, breaks, result

    def to_dict(self):
        return {"graphs": [r.to_dict() for r in self.records], "graph_breaks": self.breaks,
                "fallbacks": sum(len(r.fallbacks) for r in self.records)}

    def save_steps(self, directory):
        """Writes a file NAME.tn for each different kernel or library call, in the order in which they run. Makes the directory if there is none.
        Returns the paths. `tenon bench` measures such files."""
        from .graph_read import steps

        Path(directory).mkdir(parents=True, exist_ok=True)
        found = {}
        for record in self.records:
            for program in record.programs:
                for ops, text in steps(_json(program)["graph"]):
                    found.setdefault(text, [ops, 0])[1] += 1
        paths = []
        for number, (text, (ops, times)) in enumerate(found.items()):
            name = "_".join(dict.fromkeys(ops))[:40]
            paths.append(Path(directory) / f"{number:03}_{name}.tn")
            paths[-1].write_text(f"; {', '.join(ops)}; {times} in the model\n{text}")
        return paths

    def __str__(self):
        lines = [f"{len(self.records)} graph(s), {sum(len(r.programs) for r in self.records)} program(s), "
                 f"{sum(len(r.fallbacks) for r in self.records)} fallback(s)"]
        lines += [f"graph break, {count} time(s): {why.splitlines()[0]}" for why, count in self.breaks.items()]
        return "\n".join(lines + [str(r) for r in self.records])


def clock():
    return time.perf_counter()

"""`./dev bench calls`: the cells of its table, calls from C, and libraries that take functions."""

import json
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import calls                     # noqa: E402
from bench.models import runtimes           # noqa: E402


def test_a_row_of_calls_names_the_best_peer():
    times = {"eager": [2e-6] * 3, "no-op": [4e-6] * 3, "tenon": [5e-6] * 3, "x": [1e-5] * 3, "y": [2e-6] * 3}
    assert calls.row(times, "tenon", ["x", "y", "z"]) == [
        "2.00 (2.00)", "4.00 (4.00)", "5.00 (5.00)", "+1.0", None, "10.00 (10.00)", "2.00 (2.00)", None, "y", "0.40x"]
    assert len(calls.header("tenon", ["x", "y", "z"])) == 11 and len(calls.header("tenon", [])) == 1 + len(calls.row(times, "tenon", [])) == 6


def test_calls_from_c_are_told_in_microseconds(tmp_path):
    program = tmp_path / "call_c"
    assert calls.from_c(program) == "from C: call_c is not built"
    entries = [{"name": name, "real_time": t, "time_unit": unit} for name, t, unit in (("fixed", 130, "ns"), ("symbolic", 1.5, "us"), ("direct", 2, "ns"))]
    program.write_text(f"#!/bin/sh\necho '{json.dumps({'benchmarks': entries})}'\n")
    program.chmod(0o755)
    assert calls.from_c(program) == "from C, two nodes on 16 floats: 0.13 us a call, 1.50 us with a symbol as size, 0.002 us in a loop of the host"


@torch.no_grad()
def test_libraries_take_functions_of_calls(monkeypatch):
    monkeypatch.setattr(runtimes.hosts, "needs", lambda name: None)
    monkeypatch.setattr(runtimes.hosts, "export", lambda module, args, folder: module.requires_grad_(False))    # what only a Module has
    monkeypatch.setattr(runtimes.hosts, "onnxruntime_program", lambda module, threads: lambda arrays: lambda: [module(*map(torch.from_numpy, arrays)).numpy()])
    monkeypatch.setattr(sys, "argv", ["calls", "--rounds", "1", "--backend", "aot_eager"])
    chosen = calls.parse()
    for function, args in calls.graphs().values():
        torch._dynamo.reset()
        times, wrong = calls.measure(function, args, chosen, ["onnxruntime"])
        assert wrong == [] and list(times) == ["eager", "no-op", "aot_eager", "onnxruntime"]

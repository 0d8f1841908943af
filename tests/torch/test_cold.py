"""`./dev bench cold`: first calls, second processes, memory, and their tables."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from torch._inductor.utils import fresh_cache

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import cold, contenders              # noqa: E402
from bench.models import resident, zoo          # noqa: E402
from bench.models.worker import Request         # noqa: E402


def options(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cold", *arguments])
    return cold.parse()


def test_a_second_process_reads_what_the_first_one_has_compiled(monkeypatch):
    found = cold.measure("gnn_layer", "tenon", options(monkeypatch, "--tiny", "--threads", "1"))
    (first,), (second,), (memory,) = found.values()
    assert first["problems"] + second["problems"] + memory["problems"] == []
    assert first["kernels_compiled"] > 0 == second["kernels_compiled"]
    for run in (first, second):
        assert 1e3 * run["own_s"] == pytest.approx(run["graph_ms"] + run["plan_ms"]) and 0 < run["own_s"] < run["first_s"]
    assert first["eager_peak_bytes"] > 0 and "eager_peak_bytes" not in second
    assert memory["resident_bytes"] > 1 << 20 and memory["bytes_of_pytorch"] > 10 << 20


def test_inductors_share_is_compiling_and_reading_what_it_has_compiled():
    spent = []
    with fresh_cache():
        for _ in range(2):
            torch._dynamo.reset()
            before = contenders.own_seconds("inductor")
            torch.compile(lambda x: x * 2 + 1, backend="inductor")(torch.ones(4))
            spent.append(contenders.own_seconds("inductor") - before)
    assert spent[0] > spent[1] > 0 and contenders.own_seconds("eager") is None


def test_a_model_from_a_file_is_held_without_pytorchs_model(monkeypatch):
    built = []

    def exported(command, cwd, check):
        resident.export(Request(**json.loads(command[-2])), command[-1])

    def load(name, path, threads):
        assert Path(path).exists() and (name, threads) == ("onnxruntime", torch.get_num_threads())
        return lambda arrays: lambda: built.append([a.shape for a in arrays])

    monkeypatch.setattr(resident.subprocess, "run", exported)
    monkeypatch.setattr(resident.runtimes.hosts, "export", lambda model, inputs, folder: Path(folder, "graph.onnx").touch())
    monkeypatch.setattr(resident.runtimes, "load", load)
    result = resident.measure(Request("gnn_layer", "onnxruntime", tiny=True, threads=torch.get_num_threads()))
    assert built == [[x.shape for x in zoo.build("gnn_layer", tiny=True)[1]]] * 2 and "resident_bytes" in result


class Processes:
    """Stands for spawn(): notes each request with the caches that it finds, and answers with numbers of the contender."""
    own = {"tenon": 0.5, "slow": 5.0, "onnxruntime": 0.25}

    def __init__(self, wrong):
        self.wrong, self.seen = wrong, []

    def __call__(self, request, caches, module):
        memory = module == "bench.models.resident"
        self.seen.append((request.contender, "memory" if memory else "call", len(list(Path(caches).iterdir()))))
        tempfile.mkdtemp(dir=caches)
        plan = {"plan_ms": 400.0} if request.contender == "tenon" else {}
        result = plan | {"problems": ["output: far"] * (request.contender == self.wrong and not memory), "first_s": 12.0, "own_s": self.own.get(request.contender),
                  "workspace_bytes": 2_000_000, "eager_peak_bytes": 4_000_000}
        return {"problems": [], "resident_bytes": 8_000_000 if request.contender == "tenon" else 6_000_000, "bytes_of_pytorch": 9_000_000} if memory else result


@pytest.mark.parametrize("wrong, status", [(None, 0), ("slow", 0), ("tenon", 1), ("aot_eager", 1)])
def test_the_tables_compare_shares_and_memory(monkeypatch, capsys, wrong, status):
    processes = Processes(wrong)
    monkeypatch.setattr(cold, "spawn", processes)
    monkeypatch.setattr(cold, "missing", lambda peer: "is not here" if peer == "openvino" else None)
    monkeypatch.setattr(sys, "argv", ["cold", "--models", "gnn_layer", "--peers", "slow,onnxruntime,openvino", "--processes", "2"])
    assert cold.main() == status
    shown = capsys.readouterr().out
    first, memory = [line for line in shown.splitlines() if line.startswith("| gnn_layer")]
    assert "- openvino is not here" in shown
    if wrong:
        assert shown.splitlines()[-1] == f"gnn_layer with {wrong}: output: far"
        assert {"slow": "| - | - | 12.0 (0.25) |", "tenon": "| - | - | 12.0 (5.00) |", "aot_eager": "| gnn_layer | - | 12.0"}[wrong] in first
        return
    assert first == "| gnn_layer | 12.0 | 12.0 (0.10 + 0.40) | 12.0 (0.10 + 0.40) | 12.0 (5.00) | 12.0 (5.00) | 12.0 (0.25) | onnxruntime | 0.50x |"
    assert memory == "| gnn_layer | 2.00 | 4.00 | 0.50 | 6.00 | 6.00 | 8.00 | 6.00 | 6.00 | slow | 0.75x |"
    assert "- the own share of slow over that of tenon: 10.00x; without plans 50.00x\n" in shown
    assert cold.of_ratios([1.0, 4.0]) == "1.00x to 4.00x, geometric mean of 2: 2.00x"
    assert "that has only imported PyTorch holds 9.00:" in shown and shown.endswith("all answers right\n")
    each = {"eager": [("memory", 0)], "aot_eager": [("call", 0), ("memory", 1)], "tenon": [("call", 0), ("call", 1), ("memory", 2)],
            "slow": [("call", 0), ("call", 1), ("memory", 2)], "onnxruntime": [("call", 0), ("memory", 1)]}
    assert processes.seen == [(who, *step) for who, steps in each.items() for _ in range(2) for step in steps]

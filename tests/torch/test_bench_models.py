"""`./dev bench models`: contenders that are backends of torch.compile or other libraries, and the tables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.models import bench, report, runtimes, worker, zoo     # noqa: E402
from tests.torch.test_bench import WRONG_BACKEND           # noqa: E402

NO_OPENVINO = "import sys\nsys.modules['openvino'] = None\n"


def test_a_table_of_peers(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(NO_OPENVINO + WRONG_BACKEND)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    command = [sys.executable, ROOT / "bench/models/bench.py", "--tiny", "--models", "gnn_layer", "--processes", "1", "--rounds", "1",
               "--json", tmp_path / "models.json", "--backend", "eager", "--peers", "aot_eager,wrong,openvino", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    row = cells(done.stdout, 0)
    assert row[3].endswith("x") and row[4].endswith("x") and row[5:8] == ["-", "missing", "aot_eager"] and row[8].endswith("x")
    assert "- openvino is not installed: pip install openvino" in done.stdout
    assert "- gnn_layer: wrong is not timed, since its answer is wrong: output: RMS error" in done.stdout
    assert "eager over the best peer of each row, geometric mean of 1:" in done.stdout and done.stdout.endswith("all answers right\n")
    written = json.loads((tmp_path / "models.json").read_text())
    assert [r["contender"] for r in written["runs"]] == ["eager", "aot_eager", "wrong"] and list(written["missing"]) == ["openvino"]


def cells(output, number):
    """The cells of the row of gnn_layer in the table of this number."""
    return [row.strip() for row in [line for line in output.splitlines() if line.startswith("| gnn_layer")][number].strip("|").split("|")]


def run_of(model, contender, ms, problems=(), eager=10.0):
    times = {"eager_rounds_ms": [eager, eager], "compiled_rounds_ms": [ms, ms], "matmul_rounds_ms": [2.0, 2.0], "speedup": eager / ms, "first_s": 1.0, "own_s": 0.25,
             "matmul_gflops": 100.0, "gflop": 0.5} if ms else {}
    return {"model": model, "contender": contender, "problems": list(problems), **times}


@pytest.mark.parametrize("wrong, status", [("x", 0), ("tenon_unfrozen", 1), ("tenon", 1)])
def test_a_wrong_answer_of_tenon_fails_the_run(tmp_path, monkeypatch, capsys, wrong, status):
    def spawn(request):
        return run_of(request.model, request.contender, 4 / request.threads, ["output: far"] if request.contender == wrong else [])

    monkeypatch.setattr(bench, "spawn", spawn)
    monkeypatch.setattr(sys, "argv", ["bench", "--models", "gnn_layer", "--peers", "x,y", "--unfrozen", "--threads", "1,2", "--json", str(tmp_path / "a")])
    assert bench.main() == status
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == (f"gnn_layer with {wrong}: output: far" if status else "all answers right")
    assert "## 1 threads" in shown and "## 2 threads" in shown
    columns = ["tenon", "tenon_unfrozen", "x", "y"]
    for table, ratio in ((0, "2.50x"), (2, "5.00x")):       # a table of the first calls lies between them
        assert cells(shown, table)[3:7] == ["-" if name == wrong else ratio for name in columns]


def test_the_table_names_the_best_peer_and_its_wins():
    runs = [run_of("a", "tenon", 4), run_of("a", "x", 8), run_of("a", "y", 5), run_of("b", "tenon", 4), run_of("b", "x", 2),
            run_of("b", "y", 1, ["output: far", "output: again"]), run_of("c", "tenon", 4), run_of("c", "x", 0, ["fails: E: m"]), run_of("c", "y", 0, ["fails: E: m"])]
    table = report.Table(runs, ["a", "b", "c"], ["tenon"], ["x", "y", "z"], {"z": "is not installed"})
    assert [table.over_best(m) for m in table.models] == [("y", 1.25), ("x", 0.5), None]
    text = report.text(table)
    assert "| a | 10.0 (10.0) | 4.000 (4.000) | 2.50x | 1.25x | 2.00x | missing | y | 1.25x | 0.50 | 50 % | 125 % |" in text
    assert "| b | 10.0 (10.0) | 4.000 (4.000) | 2.50x | 5.00x | - | missing | x | 0.50x |" in text
    assert "| c | 10.0 (10.0) | 4.000 (4.000) | 2.50x | - | - | missing | - | - |" in text
    assert "- z is not installed\n- b: y is not timed, since its answer is wrong: output: far\n- c: x fails: E: m\n- c: y fails: E: m\n" in text
    assert "- x over eager, geometric mean of 2: 2.50x\n- y over eager, geometric mean of 1: 2.00x\n" in text
    assert "- tenon over the best peer of each row, geometric mean of 2: 0.79x" in text
    assert "Rows where a peer is faster:\n\n- b: x, in 0.50 of tenon's time\n" in text
    assert "No peer is faster in any row." in report.text(report.Table(runs[:3], ["a"], ["tenon"], ["x"], {}))
    assert "| a | 1.00 | 1.00 | 1.00 | - | 250 |" in text       # first calls, and Tenon's own share in ms
    assert "best peer" not in report.text(report.Table(runs[:1], ["a"], ["tenon"], [], {}))


def test_eager_in_the_process_of_a_peer_decides_nothing():
    table = report.Table([run_of("a", "tenon", 4), run_of("a", "x", 6, eager=30.0)], ["a"], ["tenon"], ["x"], {})
    assert table.over_best("a") == ("x", 1.5)


class FakeLibrary:
    """Runs the module that was exported, on arrays. error: what the export raises; factor: of all results."""

    def __init__(self, monkeypatch):
        self.error, self.factor, self.threads = None, 1, torch.get_num_threads()
        monkeypatch.setattr(runtimes.hosts, "needs", lambda name: None)
        monkeypatch.setattr(runtimes.hosts, "export", self.export)
        monkeypatch.setattr(runtimes.hosts, "onnxruntime_program", self.program)

    def export(self, module, inputs, directory):
        if self.error:
            raise self.error
        return module

    def program(self, module, threads):
        assert threads == self.threads

        def run(arrays):
            results = torch.utils._pytree.tree_leaves(module(*map(torch.from_numpy, arrays)))
            return [(self.factor * r).contiguous().numpy() for r in results]
        return lambda arrays: lambda: run(arrays)


def test_a_library_is_measured_as_a_backend_is(monkeypatch):
    library = FakeLibrary(monkeypatch)
    request = worker.Request("bert_base", "onnxruntime", tiny=True, threads=library.threads, rounds=2, round_s=0.001)
    result = worker.measure(request)
    assert result["problems"] == [] and result["speedup"] > 0 and len(result["compiled_rounds_ms"]) == 2 and result["graphs"] is None
    assert 0 < result["own_s"] < result["first_s"]
    library.factor = 1.1
    assert "output.last_hidden_state: RMS error" in worker.measure(request)["problems"][0]
    library.error = NotImplementedError("no such op\nat line 1")
    assert worker.measure(request)["problems"] == ["fails: NotImplementedError: no such op"]
    library.error = runtimes.hosts.Missing("is not installed: pip install it")
    assert worker.measure(request)["problems"] == ["is not installed: pip install it"]


@torch.no_grad()
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_library_returns_what_the_model_returns(name):
    pytest.importorskip(name, reason=f"{name} is not installed here; ./dev bench graphs installs it into build/peers-venv")
    for model_name in ("bert_base", "gpt2_decode", "llama_decode"):
        model, inputs = zoo.build(model_name, tiny=True)
        output = model(*inputs)
        fast = runtimes.convert(name, model, inputs, output, 1)
        first = fast(*inputs)
        torch.testing.assert_close(dict(first) if model_name == "bert_base" else first, dict(output) if model_name == "bert_base" else output,
                                   rtol=1e-3, atol=1e-3)
    big = torch.nn.Linear(4, 1 << 16)       # results of so many bytes lie in new memory too
    fast = runtimes.convert(name, big, (torch.ones(1, 4),), torch.ones(1), 1)
    first, kept = fast(torch.ones(1, 4)), big(torch.ones(1, 4))
    fast(torch.zeros(1, 4))
    torch.testing.assert_close(first, kept)

"""The measuring tools of the benchmarks report what happened."""

import argparse
import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import contenders, contract, ops, ops_table, table, timing         # noqa: E402
from bench.models import memory, worker             # noqa: E402


class Steps(torch.nn.Module):
    """1024 floats are 4096 bytes. Alive together at most: a and b, and never the output."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1024))

    def forward(self, x):
        a = x + self.w              # 4096
        b = a.view(32, 32) * 2      # 8192: a view is no memory
        a = None                    # 4096
        c = b.sum(0)                # 4096 + 128
        return {"y": b + c}


def test_peak_counts_intermediates_only():
    assert memory.peak_of_intermediates(Steps(), (torch.ones(1024),)) == 8192
    assert memory.peak_of_intermediates(torch.nn.Identity(), (torch.ones(1024),)) == 0
    assert memory.peak_of_intermediates(torch.nn.ReLU(), (torch.ones(8),)) == 0     # all it makes is output


def test_interleave_times_calls_in_turns():
    order = []
    calls = {"slow": lambda: (order.append("slow"), time.sleep(0.02)),
             "slower": lambda: (order.append("slower"), time.sleep(0.04))}
    times = timing.interleave(calls, rounds=4, round_s=0.001)
    assert order[4:] == ["slow", "slower", "slower", "slow"] * 2        # after two warm-up calls of each
    assert all(t >= 0.02 for t in times["slow"]) and all(t >= 0.04 for t in times["slower"])


def test_interleave_stops_at_its_limit():
    times = timing.interleave({"slow": lambda: time.sleep(0.01)}, rounds=50, round_s=0.001, limit_s=0.05)
    assert 3 <= len(times["slow"]) <= 6


def test_interleave_rests_before_each_turn(monkeypatch):
    events = []
    monkeypatch.setattr(timing.time, "sleep", events.append)
    timing.interleave({"a": lambda: events.append("a"), "b": lambda: events.append("b")}, rounds=1, round_s=0, rest_s=0.5)
    # two calls of each to warm up; then in each turn a rest, a call without a time, and one with a time
    assert events == ["a", "a", "b", "b", 0.5, "a", "a", 0.5, "b", "b"]


def test_speedup_is_the_median_of_ratios_within_rounds():
    assert timing.speedup([2.0, 20.0, 3.0], [1.0, 10.0, 1.0]) == 2.0


@pytest.mark.parametrize("size", [64, 4096])
def test_every_function_of_ops_runs(size):
    for name, row in ops_table.ROWS.items():
        for dtype in row.dtypes:
            function, args = row.make(ops_table.DTYPES[dtype], size)
            assert max(a.numel() for a in args) <= size + 4096, name    # of at least one byte each
            function(*args)


def measured(row, dtype, size, ratio):
    return ops.Measured(row, dtype, size, 1, {"eager": [1e-3], "other": [1e-3 * ratio]}, [])


def test_a_cliff_is_in_the_contract_or_named():
    entries = contract.read("# comment\n\nmatmul f64,i64 1M 2.5 eager's library is faster\nflip * * 3 a reason\nroll f32 * 3 another")
    assert contract.reason(entries, measured("matmul", "f64", "1M", 2.4)) == "eager's library is faster"
    for other in (("matmul", "f64", "1M", 2.6), ("matmul", "f32", "1M", 2.4), ("matmul", "f64", "64B", 2.4), ("add", "f64", "1M", 2.4)):
        assert contract.reason(entries, measured(*other)) is None
    assert contract.reason(entries, measured("flip", "u8", "64B", 2)) == "a reason"
    done = [measured("flip", "f32", "1M", 1.1), measured("matmul", "f64", "1M", 2.4)]
    assert [e.functions for e in contract.unneeded(entries, done)] == [["flip"]]
    with pytest.raises(ValueError, match="line 2 has no reason"):
        contract.read("flip * * 3 a reason\nroll f32 * 3")


def test_the_contract_names_rows_that_exist():
    for entry in contract.read(contract.FILE.read_text()):
        assert set(entry.functions) <= {"*", *ops_table.ROWS} and set(entry.dtypes) <= {"*", *ops_table.DTYPES}
        assert set(entry.sizes) <= {"*", *ops.SIZES} and entry.most > ops.FACTOR


def test_kept_outputs_are_written_again():
    x = torch.ones(4)
    run = contenders.on_kept_outputs(lambda x: x + 1, (x,))
    x.fill_(5)
    run()
    assert run.outputs.tolist() == [6.0] * 4
    assert contenders.on_kept_outputs(lambda x: torch.linalg.inv(x) + 1, (torch.eye(2),)) is None


def test_xla_gets_the_graph_that_tenon_makes(monkeypatch):
    from tenon.torch.peers import hosts

    x, w = torch.randn(3, 5), torch.rand(5)
    cases = []
    monkeypatch.setattr(hosts, "xla", lambda case: cases.append(case) or (lambda: [x.numpy()]))  # JAX may not be installed
    call, results = contenders.in_xla(lambda unused, w, x: x * w.exp(), (x + 1, w, x), 2)
    assert torch.equal(results, x) and call()
    assert [v.op for v in cases[0].graph.nodes] == ["exp", "mul"] and cases[0].threads == 2
    assert [tuple(t.shape) for t in cases[0].inputs] == [v.shape for v in cases[0].graph.inputs]
    assert {t.data_ptr() for t in cases[0].inputs} == {x.data_ptr(), w.data_ptr()}
    with pytest.raises(ValueError, match="does not make one program"):
        contenders.in_xla(lambda x: torch.linalg.inv(x) + 1, (torch.eye(2),), 2)


def test_xla_computes_the_kernels():
    pytest.importorskip("jax", reason="JAX is not installed here; ./dev bench graphs installs it into build/peers-venv")
    from bench import fused

    for name, (function, args) in fused.kernels(1 << 14).items():
        _, results = contenders.in_xla(function, args, 2)
        torch.testing.assert_close(results, function(*args), rtol=1e-4, atol=1e-4, msg=name)


def test_numbers_keep_their_digits():
    assert [table.show(v) for v in (None, 7, 0.01234, 1.234, 123.4, 1234.0, 0.0)] == [
        "-", "7", "0.0123", "1.23", "123", "1234", "0.0"]


def test_worker_measures_a_model():
    result = worker.spawn(worker.Request("unet_block", "eager", tiny=True, threads=1, rounds=2, round_s=0.001,
                                         floors=True))
    assert result["problems"] == [] and result["graphs"] == 1
    assert len(result["eager_rounds_ms"]) == len(result["compiled_rounds_ms"]) == 2
    for key in ("speedup", "first_s", "eager_peak_bytes", "gflop", "matmul_gflops"):
        assert result[key] > 0, key


def test_worker_reports_a_crash():
    result = worker.spawn(worker.Request("unet_block", "no_such_backend", tiny=True))
    assert "exit code 1" in result["problems"][0] and "no_such_backend" in " ".join(result["log"])


def test_worker_reports_a_hang():
    result = worker.spawn(worker.Request("unet_block", "eager", tiny=True), timeout_s=0.1)
    assert "no result after 0.1 s" in result["problems"][0]


def test_terminated_demo_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    demo = subprocess.Popen([sys.executable, ROOT / "bench/models/demo.py", "--tiny", "--backend", "eager"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("tenon-bench-*/log")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)     # the worker's process follows its log
        worker_of_demo = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        assert len(worker_of_demo) == 1
        demo.terminate()
        assert demo.wait(60) == 143
        assert not list(tmp_path.glob("tenon-bench-*"))
        assert not Path(f"/proc/{worker_of_demo[0]}").exists()
    finally:
        demo.kill()
        demo.wait()


WRONG_BACKEND = """
import torch
@torch._dynamo.register_backend
def wrong(gm, example_inputs):
    return lambda *args: tuple(t * 1.01 if t.is_floating_point() else t for t in gm(*args))
"""


TOOLS = {"kernels": ["kernels.py", "--sizes", "16K,1M", "sum_rows", "norm_backward"], "calls": ["calls.py"]}


@pytest.mark.parametrize("backend, code", [("aot_eager", 0), ("wrong", 1), ("eager", 2)])
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_small_benchmarks_tell_right_from_wrong(tmp_path, monkeypatch, tool, backend, code):
    (tmp_path / "sitecustomize.py").write_text(WRONG_BACKEND if backend == "wrong" else "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, ROOT / "bench" / tool[0], *tool[1:], "--threads", "1", "--rounds", "2"]
    run = subprocess.run([*command, "--backend", backend], capture_output=True, text=True)
    message = {0: "all answers right", 1: "with wrong: output: RMS error", 2: "is measured already"}[code]
    assert run.returncode == code and message in run.stdout + run.stderr, run.stdout + run.stderr


def test_kernels_at_several_sizes():
    from bench import fused, kernels

    assert kernels.bytes_of("16K,4M,65536") == [1 << 14, 4 << 20, 1 << 16]
    with pytest.raises(argparse.ArgumentTypeError):
        kernels.bytes_of("4K")
    for size in (1 << 14, 5 << 16):  # the latter has images that are not square numbers of pixels
        for name, (function, args) in fused.kernels(size).items():
            largest = max(a.numel() for a in args)
            results = function(*args)
            most = max(t.numel() for t in ([results] if isinstance(results, torch.Tensor) else results))
            assert max(largest, most) >= size // 8, name


@pytest.mark.parametrize("backend, code, last", [
    ("eager", 0, "all 1 models right"), ("wrong", 1, "wrong: resnet50")])
def test_demo_tells_right_from_wrong(tmp_path, monkeypatch, backend, code, last):
    (tmp_path / "sitecustomize.py").write_text(WRONG_BACKEND if backend == "wrong" else "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, ROOT / "bench/models/demo.py", "--tiny", "--threads", "1"]
    command += ["--models", "resnet50", "--backend", backend]
    demo = subprocess.run(command, capture_output=True, text=True)
    assert demo.returncode == code and demo.stdout.strip().splitlines()[-1] == last, demo.stdout + demo.stderr


def test_demo_shows_a_training_row():
    command = [sys.executable, ROOT / "bench/models/demo.py", "--tiny", "--threads", "1", "--models", "resnet50", "--train", "dlrm"]
    demo = subprocess.run(command, capture_output=True, text=True)
    lines = demo.stdout.strip().splitlines()
    assert demo.returncode == 0 and lines[-1] == "all 1 models right", demo.stdout + demo.stderr
    row = next(line for line in lines if line.startswith("dlrm"))
    assert row.count("x ") == 2 and row.split()[-1] == "0", row  # ratios of eager's fused optimizer and of Tenon; nothing ran in PyTorch


def test_errors_of_losses_are_at_most_twice_those_of_eager():
    from bench.train import disagreements

    exact, eager = [1.0, 2.0, 3.0], [1.001, 2.0, 3.002]  # the median error is 1e-3
    assert disagreements("m", {"eager": eager, "tenon": [1.0, 2.0019, 3.0019], "inductor": [9.0] * 3}, exact) == []
    wrong = disagreements("m", {"eager": eager, "tenon": [1.0, 2.0021, 3.0021]}, exact)
    assert len(wrong) == 1 and "tenon" in wrong[0]
    assert disagreements("m", {"eager": exact, "tenon": [1.0, 2.01, 3.0]}, None) == ["m: loss 2.01 of tenon, 2.0 of eager"]


def contender_of(caches=None, **setup):
    from bench.training.contender import Contender, Setup
    return Contender(Setup("dlrm", tiny=True, threads=1, **setup), limit_s=120, caches=caches)


def test_a_contender_trains_when_it_is_asked():
    from bench.train import tell
    from bench.training.contender import Failed

    with contender_of() as eager:
        first = eager.ask("first", count=2)
        assert len(first["losses"]) == 2 and 0 < first["seconds"] < 120
        eager.step(), eager.step()
        assert 0 < eager.spent < 120 and eager.ask("saved") > 0 and eager.ask("peak") >= 0
        eager.limit_s = 0
        with pytest.raises(Failed, match="no answer to 'exact' within 0 s"):
            eager.ask("exact", count=1)
    with pytest.raises(Failed, match=r"exit code 1 during 'start': .*no_such_backend"), contender_of(backend="no_such_backend"):
        pass
    race = type("Race", (), {"failed": {"inductor": "no answer", "tenon": "exit code 1"}})
    assert tell("dlrm", race) == ["dlrm: tenon: exit code 1"]


def test_a_second_process_finds_the_caches_of_the_first(tmp_path):
    from bench.train import first_step

    stored = []
    for _ in range(2):
        seconds, own = first_step(contender_of(str(tmp_path), backend="tenon"))
        assert 0 < own < seconds
        stored.append({path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()})
    assert stored[0] and stored[0] == stored[1]


def test_two_ranks_train_together():
    from bench.training.contender import Failed

    with contender_of(ranks=2) as two, contender_of() as one:
        for mine, want in zip(two.ask("first", count=2)["losses"], one.ask("first", count=2)["losses"], strict=True):
            assert mine == pytest.approx(want, rel=1e-5)  # both ranks have the same batch
        two.processes[1].kill()
        # The first rank waits for gradients of the second, so gloo ends it: by an exception or by a signal.
        with pytest.raises(Failed, match=r"exit code -?\d+ during 'step'"):
            two.processes = two.processes[:1]
            two.step()


def test_sizes_of_sentences():
    from bench.training.step import build

    assert [tuple(build("llama", tiny=True, size=size)[1][0].shape) for size in (None, (3, 21))] == [(2, 16), (3, 21)]


def test_parameters_without_a_gradient_are_frozen():
    from bench.training.step import MODELS, WithLoss, build, freeze_unused

    model, inputs = build("bert_base", tiny=True)
    freeze_unused(WithLoss(model, MODELS["bert_base"][0]), inputs)
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen and all("pooler" in name for name in frozen), frozen


def test_processes_that_a_contender_leaves_behind_are_killed():
    with contender_of() as contender:
        leader = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        child = int(leader.stdout.readline())
        contender.processes.append(leader)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}/stat").exists() and Path(f"/proc/{child}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Fake:
    """A contender of steps of half a second. broken: backend -> which of its steps fails, or 0 if it does not start."""
    broken = {}

    def __init__(self, setup, limit_s):
        self.setup, self.spent, self.steps, self.ended = setup, 0.0, 0, False

    def __enter__(self):
        self._answer()
        return self

    def __exit__(self, *_):
        self.ended = True

    def step(self):
        self.steps, self.spent = self.steps + 1, self.spent + 0.5
        self._answer()

    def _answer(self):
        from bench.training.contender import Failed

        if self.steps == self.broken.get(self.setup.backend):
            raise Failed("no answer")


@pytest.mark.parametrize("at", [0, 1, 2, 4])
def test_a_contender_that_fails_while_it_is_timed_is_left_out(monkeypatch, capsys, at):
    from bench import train
    from bench.training.contender import Failed

    monkeypatch.setattr(train, "Contender", Fake)
    options = type("Options", (), {"tiny": True, "size": None, "autocast": None, "ddp": False, "tenon": [], "peers": True, "limit": 1})
    with contextlib.ExitStack() as stack:
        monkeypatch.setattr(Fake, "broken", {"inductor": at})
        race = train.Race("dlrm", 1, options, stack)
        inductor = race.running.get("inductor")
        times = race.times(60)
        assert set(times) == {"eager", "fused", "tenon"} and all(t == [0.5] * train.ROUNDS for t in times.values())
        assert race.failed == {"inductor": "no answer"} and (at == 0 or inductor.ended)
        monkeypatch.setattr(Fake, "broken", {None: 1})
        with pytest.raises(Failed):
            train.Race("dlrm", 1, options, stack).times(60)


def test_a_model_whose_eager_mode_fails_ends_alone(monkeypatch, capsys):
    from bench import train
    from bench.training.contender import Failed

    def measure(name, threads, options):
        if name == "gpt2":
            raise Failed("no answer")
        return {"model": name}, {"tenon": 2.0}, []

    monkeypatch.setattr(train, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["train", "gpt2", "dlrm", "--threads", "1"])
    assert train.main() == 1
    shown = capsys.readouterr().out
    assert "gpt2, 1 threads: eager: no answer" in shown and "tenon 2.00x on 1 threads" in shown


def test_options_of_the_benchmark_of_training(capsys):
    from bench.train import parse

    options = parse(["--tenon", "freeze=True", "--tenon", "memory_budget=0.5", "--tenon", "rng=fast", "--tenon", "num_threads=2"])
    assert options.tenon == [("freeze", True), ("memory_budget", 0.5), ("rng", "fast"), ("num_threads", 2)]
    assert parse(["--shapes", "6"]).shapes == 6 and parse(["--shapes", "120", "--tiny"]).shapes == 120
    assert parse(["--shapes", "98", "--tiny", "--no-ones"]).no_ones
    assert parse(["gpt2", "--size", "3x50"]).size == (3, 50)
    for wrong in (["--size", "3x50"], ["gpt2", "--size", "3"], ["gpt2", "--size", "3x5x4"], ["gpt2", "--size", "3x5", "--shapes", "6"]):
        with pytest.raises(SystemExit):
            parse(wrong)
        assert "--size takes a batch and a length of models of sentences" in capsys.readouterr().err
    for wrong in (["--shapes", "5"], ["--shapes", "121", "--tiny"], ["--shapes", "1017"], ["--shapes", "-1"]):
        with pytest.raises(SystemExit):
            parse(wrong)
        assert f"--shapes takes 6 to {120 if '--tiny' in wrong else 1016}" in capsys.readouterr().err


def test_peak_counts_memory_that_a_step_gives_back():
    from bench.training.step import Step, peak_bytes

    class Net(torch.nn.Linear):
        def forward(self, x):
            kept.append(torch.ones(16 << 20)), kept.clear()  # 64 MiB
            return super().forward(x)

    kept, net = [], Net(4, 4)
    step = Step(net, lambda model, x: model(x).sum(), (torch.ones(2, 4),))
    step()
    assert 60 << 20 < peak_bytes(step) < 80 << 20  # a little less, if the step before has left free memory

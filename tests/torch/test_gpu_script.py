"""`./dev gpu` on the CPU: it reports what happened, and a failure costs no other rows."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import bench, cases, check, forms, speed, tools      # noqa: E402

BACKENDS = """
import os, sys
import torch
if os.environ.get("WITHOUT"):
    sys.modules[os.environ["WITHOUT"]] = None
@torch._dynamo.register_backend
def wrong(gm, example_inputs, **options):
    return lambda *args: tuple(t * 1.02 if t.is_floating_point() else t for t in gm(*args))
@torch._dynamo.register_backend
def faulty(gm, example_inputs, **options):
    if "silu" in gm.code:
        {"raises": lambda: 1 / 0, "dies": os.abort}[os.environ["FAULT"]]()
    return gm
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Runs the script. Returns (status, sections, page)."""
    (tmp_path / "sitecustomize.py").write_text(BACKENDS)

    def run(*arguments, backend="aot_eager", **environment):
        import os
        before = os.environ.get("PYTHONPATH", "")
        for name, value in {"PYTHONPATH": f"{tmp_path}:{before}", "OMP_NUM_THREADS": "1", **environment}.items():
            monkeypatch.setenv(name, value)
        command = [sys.executable, ROOT / "bench/gpu/bench.py", "--device", "cpu", "--tiny", "--no-peers", "--backend", backend]
        done = subprocess.run([*command, "--out", tmp_path / "out", *arguments], capture_output=True, text=True)
        assert (tmp_path / "out/gpu.json").exists(), done.stdout + done.stderr
        result = json.loads((tmp_path / "out/gpu.json").read_text())
        return done.returncode, result["sections"], (tmp_path / "out/gpu.md").read_text()
    return run


def test_all_sections_run(script):
    status, sections, page = script("--cases", "softmax 1024,linear,transpose,bert_base", "--seconds", "3000")
    assert status == 0 and "**all right**" in page, page
    assert list(sections) == list(bench.SECTIONS) and all(part["state"] == "done" for part in sections.values())
    assert all(part["rows"] for name, part in sections.items() if name != "sanitizer")
    assert [row[1] for row in sections["models"]["rows"]] == ["f16", "f32", "bf16"]
    assert {row[0] for row in sections["host"]["rows"]} == {1, 10}
    assert {tool.partition(":")[0] for tool, _ in sections["sanitizer"]["skipped"]} == {"memcheck", "racecheck", "initcheck"}
    assert "compute-sanitizer is not installed: nothing was looked at" in page or "looks at GPUs alone" in page


def test_wrong_answers_are_told(script):
    arguments = ["--only", "check,schedules,calls", "--cases", "softmax 1024,linear,transpose + add", "--seconds", "3000"]
    status, sections, page = script(*arguments, backend="wrong")
    assert status == 1 and "| softmax 1024 | f32 | 64x256 |" in page and "| transpose + add | f32 | 512x512 | tiled |" in page
    assert "| linear | tf32 | 64x256x128 |" in page and "| softmax 1024 | tf32" not in page
    assert "calls: 6 of 6 rows wrong" in page and all(part["state"] == "done" for part in sections.values())


@pytest.mark.parametrize("fault", ["raises", "dies"])
def test_what_fails_takes_no_other_rows(script, fault):
    arguments = ["--only", "check", "--cases", "relu,silu,sum", "--seconds", "3000"]
    status, sections, page = script(*arguments, backend="faulty", FAULT=fault)
    part = sections["check"]
    assert status == 1 and [label for label, _ in part["failed"]] == ["silu f32", "silu bf16", "silu f16"], part["failed"]
    message = {"raises": "ZeroDivisionError", "dies": "its process ended with -6"}[fault]
    assert message in part["failed"][0][1] and "**failed: silu bf16**" in page
    types, cases = ("f32", "bf16", "f16"), ("relu", "relu", "sum", "sum")
    assert [row[:2] for row in part["rows"]] == [[case, type] for type in types for case in cases]
    assert part["state"] == "done"


def test_what_finds_no_time_is_not_run(script):
    status, sections, page = script("--seconds", "0")
    assert status == 3 and all(part["state"] == "not run" for part in sections.values())
    assert page.count("**not run**") == len(bench.SECTIONS) and "**sanitizer: not run**" in page


@pytest.mark.parametrize("takes", [0.0, 0.5, 1.0 + bench.LATE])
def test_no_section_starves_another(tmp_path, monkeypatch, takes):
    """takes: the part of its share that each section uses."""
    now, given = [0.0], {}

    def measure(name, options, arguments, seconds, environment):
        given[name] = seconds
        now[0] += takes * seconds
        return {"state": "done", "rows": [], "skipped": [], "failed": []}

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda: now[0], strftime=time.strftime))
    assert bench.run(bench.parse(["--device", "cpu", "--out", str(tmp_path)]), []) == 0
    total = sum(section.share for section in bench.SECTIONS.values())
    for name, section in bench.SECTIONS.items():
        assert given[name] >= 0.7 * 540 * section.share / total, given
    assert now[0] <= 540


def test_a_process_that_takes_too_long_is_killed(tmp_path):
    out = tmp_path / "rows"
    for end, patience, message in ((0.3, 60, None), (60, 0.3, "hung for 0.3 s")):
        out.write_text("")
        process = subprocess.Popen(["sleep", "100"], start_new_session=True)
        assert bench.wait(process, out, time.monotonic() + end, patience) == message and process.poll() == -9


def test_models_that_need_a_missing_package_are_skipped(script):
    arguments = ["--only", "models", "--cases", "bert_base,unet_block", "--seconds", "3000"]
    status, sections, page = script(*arguments, WITHOUT="transformers")
    part = sections["models"]
    assert status == 0 and {row[0] for row in part["rows"]} == {"unet_block"}
    assert [label for label, _ in part["skipped"]] == ["bert_base f16", "bert_base f32", "bert_base bf16"]
    assert "- skipped: bert_base bf16: " in page and "transformers" in part["skipped"][0][1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_it_needs_a_gpu():
    run = subprocess.run([sys.executable, ROOT / "bench/gpu/bench.py"], capture_output=True, text=True)
    assert run.returncode == 2 and "no GPU" in run.stderr


def test_nvidia_smi_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench.clocks().startswith("nvidia-smi says nothing")


def test_what_is_not_captured_is_marked(monkeypatch):
    clock = tools.Clock(torch.device("cpu"), 60)
    call = lambda: None     # noqa: E731
    assert clock.graphed(call) == (call, None)
    clock.gpu = True
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def refused():
        raise RuntimeError("not while it rains\nmore")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", refused)
    assert clock.graphed(call) == (call, "not while it rains")

    clock.gpu = False
    monkeypatch.setattr(clock, "graphed", lambda call: (call, "not while it rains"))
    options = bench.parse(["--device", "cpu", "--tiny", "--no-peers", "--backend", "aot_eager"])
    case = next(c for c in cases.CASES if c.name == "small relu")
    monkeypatch.setenv("TENON_CACHE", "on")
    row, = speed.bandwidth_of(case, options, clock)
    assert row[-1] == "eager not captured: not while it rains; tenon not captured: not while it rains"


def test_tables_are_summed_up():
    header = ["kernel", "tenon / target", "eager / tenon", "inductor / tenon", "compile ms"]
    rows = [["a", 0.5, 2.0, 0.5, 10.0], ["b", 2.0, 8.0, 1.5, None], ["c", 1.0, 4.0, 0.99, 30.0], ["d", 1.0, 4.0, None, 50.0]]
    assert speed.summary(header, rows) == [
        "geometric mean of tenon / target: 1", "geometric mean of eager / tenon: 4", "geometric mean of inductor / tenon: 0.906",
        "median of compiling a kernel, cold: 30.0 ms", "slower than Inductor: a (0.50)"]
    assert speed.summary(header, [["a", 0.5, 2.0, None, None]])[-1] == "Inductor was not measured"


def test_forms_that_were_not_reached_are_told():
    row = lambda case, meant, forms: [case, "f32", "1x1", meant, forms, 0.0, "right"]       # noqa: E731
    rows = [row("a", "tiled", "tiled 32x32"), row("a", "tiled", "flat 1x256"), row("b", r"cluster \d", "row 1024x1")]
    part = {"rows": rows, "state": "done", "failed": []}
    assert bench.summary("schedules", part) == [r"forms not reached: cluster \d (b)"]


@pytest.mark.parametrize("tool, answer", [
    ("echo '========= ERROR SUMMARY: 3 errors'; exit 9", "errors: ========= ERROR SUMMARY: 3 errors"),
    ("echo '========= ERROR SUMMARY: 0 errors'", "nothing was checked in its time"),
    ("echo '{\"row\": []}' >> $OUT/check.jsonl; echo '========= ERROR SUMMARY: 0 errors'", "right"),
    ("echo driver; exit 4", "ended with 4: driver"), ("sleep 30", "nothing was checked in its time")])
def test_the_sanitizer_is_quoted(tmp_path, monkeypatch, tool, answer):
    program = tmp_path / "compute-sanitizer"
    program.write_text("#!/bin/sh\n" + tool)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("OUT", str(tmp_path / "sanitizer-memcheck"))
    options, clock = SimpleNamespace(out=tmp_path, backend="tenon"), SimpleNamespace(gpu=True, left=lambda: 2.0)
    row, = check.sanitized("memcheck", "check", None, 1.0, options, clock)
    assert row[-1].startswith(answer), row


def test_what_is_exact_is_computed_in_parts(monkeypatch):
    """Of rows, or of parts that are added up."""
    monkeypatch.setattr(forms, "PART", 100)
    for name, size in (("rows of a cluster", (37, 11)), ("64-bit indices, a sum", (1001,)), ("maps of many waves", (9, 40))):
        case = next(c for c in forms.BIG if c.name == name)
        arguments = case.make(size, torch.float32, torch.device("cpu"))
        got, close = case.function(*arguments), lambda a, b: cases.close(a, b, "f32")
        assert forms.compare(case, arguments, got, close)[0] <= 1
        got.view(-1)[-1] += 1
        assert forms.compare(case, arguments, got, close)[0] > 1, name


def test_what_draws_random_numbers_draws_them_in_tenon(monkeypatch):
    monkeypatch.setenv("TENON_CACHE", "on")
    options, clock = bench.parse(["--device", "cpu", "--tiny", "--no-peers"]), tools.Clock(torch.device("cpu"), 60)
    case = next(c for c in cases.CASES if c.name == "bias + dropout + residual")
    with torch.no_grad():
        row, = speed.bandwidth_of(case, options, clock)
    assert row[-1] == "" and row[-3] > 0, row     # nothing runs in PyTorch; a kernel was compiled

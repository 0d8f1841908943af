"""tenon.profile() on compiled models."""

import json
import signal

import pytest
import torch

import tenon
from tenon import _abi
from tenon.torch import codegen


@pytest.fixture
def compiled():
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)).eval()
    compiled = torch.compile(model, backend="tenon")
    with torch.no_grad():
        compiled(torch.randn(4, 32))
    return compiled


def test_steps_of_a_model(compiled, tmp_path):
    with torch.no_grad(), tenon.profile() as p:
        for _ in range(7):
            compiled(torch.randn(4, 32))
    (program,) = p.programs
    assert program["runs"] == 7 and len(program["steps"]) >= 2
    assert sum(s["operations"] for s in program["steps"]) >= 2 * 4 * (32 * 64 + 64 * 8)
    assert 0 < sum(s["seconds"] for s in program["steps"]) <= program["seconds"]
    assert "layer_norm" in str(p) or "mean" in str(p) or "sum" in str(p)
    assert str(p).count("\n") == len(program["steps"]) + 1
    rows = p.report(threads=1).splitlines()
    assert sum("%" in row and "ends because" not in row for row in rows[2:]) == len(program["steps"]) and "roofline" in rows[2]
    p.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(e["cat"] == "run" for e in trace) == 7
    assert sum(e["cat"] == "step" for e in trace) == 7 * len(program["steps"])


def test_a_short_table_sums_the_rest(compiled):
    with torch.no_grad(), tenon.profile() as p:
        compiled(torch.randn(4, 32))
    lines = p.table(rows=1).splitlines()
    assert len(lines) == 4 and "more steps" in lines[2]


def test_first_calls_are_compilations():
    torch._dynamo.reset()
    with torch.no_grad(), tenon.profile() as p:
        torch.compile(lambda x: torch.sin(x) * 3 + 1.25, backend="tenon")(torch.randn(5, 7))
    assert {e["cat"] for e in json.loads(p._text)["traceEvents"]} >= {"compile", "plan", "run", "step"}


def test_training_steps(compiled):
    torch._dynamo.reset()
    model = torch.nn.Linear(16, 16)
    step = torch.compile(model, backend="tenon")
    step(torch.randn(3, 16)).sum().backward()
    with tenon.profile() as p:
        step(torch.randn(3, 16)).sum().backward()
    assert len(p.programs) == 2  # forward and backward


def events_of(profile):
    return [e for e in profile.events() if e.name.startswith("tenon::")]


def test_steps_are_events_of_the_profiler_of_pytorch(compiled):
    x = torch.randn(4, 32)
    with torch.no_grad():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as first:
            compiled(x)
            compiled(x)
        compiled(x)
        with tenon.profile() as own, torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as second:
            compiled(x)
    (program,) = own.programs
    names = ["tenon::" + "+".join(s["ops"].split()) for s in program["steps"]]
    assert [e.name for e in sorted(events_of(second), key=lambda e: e.time_range.start)] == names
    assert sorted(e.name for e in events_of(first)) == sorted(2 * names)
    regions = [e for e in first.events() if "Torch-Compiled Region" in e.name]
    assert len(regions) == 2
    for e in events_of(first):  # nested in the call
        parents = []
        while e := e.cpu_parent:
            parents.append(e)
        assert any(p in regions for p in parents)


def test_nobody_is_told_without_a_profiler(compiled):
    from tenon.torch.runtime import events

    x = torch.randn(4, 32)
    with torch.no_grad():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            compiled(x)
            assert events.on
        compiled(x)
        assert not events.on


def test_interrupts_of_runs_that_a_profiler_records_are_raised(monkeypatch):
    """Signals come in steps and around them; the function's text and the library are all that runs, because PyTorch's own wrappers lose some."""
    made, assemble, raised, caught = [], codegen.assemble, 0, 0
    monkeypatch.setattr(codegen, "assemble", lambda *given, **named: (made.append(assemble(*given, **named)), made[-1])[1])
    x = torch.randn(32, 32)

    def interrupt(*_):
        nonlocal raised
        raised += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with torch.no_grad():
            torch.compile(lambda x: (x.sin() @ x).cos(), backend="tenon")(x)
            function, _ = made[0]
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as first:
                for count in range(200):
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0.0003)
                        while raised == count:
                            function([x])
                    except KeyboardInterrupt:
                        caught += 1
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as second:
                function([x])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught == raised == 200
    assert not [child for e in events_of(first) for child in e.cpu_children if child.name.startswith("tenon::")], "an event stays open"
    assert sorted(e.name for e in events_of(second)) == ["tenon::cos", "tenon::matmul", "tenon::sin"]


def test_one_profile_at_a_time(compiled):
    with tenon.profile():
        with pytest.raises(_abi.Error, match="a profile is being recorded already"):
            with tenon.profile():
                pass
    with tenon.profile() as p:
        pass
    assert p.programs == [] and "0.0% between steps" in str(p)


def test_an_abandoned_profile_keeps_nobody_from_recording(compiled):
    profile = tenon.profile().__enter__()
    with pytest.raises(RuntimeError, match="this profile is not being recorded"):
        tenon.profile().__exit__()
    with pytest.raises(RuntimeError, match="can be saved after its `with` block"):
        profile.save("nowhere.json")
    del profile
    with tenon.profile():
        pass


def test_an_exception_ends_the_profile(compiled):
    with pytest.raises(KeyError), tenon.profile():
        raise KeyError
    with tenon.profile():
        pass

"""Refusals at every stage: results are eager's, the reason is counted, and no error of Tenon is raised.

Faults are injected where Python calls the library: in what lowers a node, makes a program, asks who computes a value, packs
parameters, and runs a step.
"""

import ctypes
import itertools
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

import tenon
from tenon import _abi
from tenon.torch.lowering import node
from tenon.torch.partition import Partition
from tenon.torch.runtime import marshal
from tenon.torch.runtime.refusal import Refused

from foreign import foreign
from test_cuda import gpu, machine  # noqa: F401  (fixtures)


# --- faults ---
def memory(message):
    return MemoryError(message)


KINDS = {**{name: lambda message, status=status: _abi.Error(status, message) for status, name in _abi.STATUS.items()},
         "memory": memory}
STAGES = ("lower", "parse", "infer", "place", "build", "plan", "run")


class Fault:
    """Makes one stage refuse gelu. `plan` refuses the first call of every program, `run` every second call."""

    def __init__(self, patch, stage, kind):
        self.stage, self.count = stage, itertools.count()
        make = KINDS[kind]

        def refuse():
            raise make(f"injected into {stage}")

        if stage == "lower":
            lower_node = node.lower_node
            patch.setattr(node, "lower_node", lambda n, *a: refuse() if "gelu" in str(n.target) else lower_node(n, *a))
        elif stage in ("plan", "run"):
            step, before = marshal.chosen.step, [None]

            def faulty(*arguments):
                real, calls = step(*arguments), itertools.count()
                *_, fail, _, _ = arguments
                again, before[0] = before[0] == "may fail", None if fail else "may fail"

                def run(*given):
                    call = next(calls)
                    if again or (call == 0 if stage == "plan" else call % 2 == 1):
                        return refuse() if fail else None
                    return real(*given)
                return run
            patch.setattr(marshal.chosen, "step", faulty, raising=False)
        else:
            init, refused = _abi.Program.__init__, _abi.refused

            def make_program(program, text, *a):
                if "= gelu(" in text:
                    refuse()
                init(program, text, *a)

            def ask(text, device):
                if "= gelu(" in text and stage in ("parse", "infer"):
                    refuse()
                result = refused(text, device)
                if stage == "place":
                    result |= {line.split()[0][1:]: f"injected into {stage}" for line in text.splitlines() if "= gelu(" in line}
                return result
            patch.setattr(_abi.Program, "__init__", make_program)
            patch.setattr(_abi, "refused", ask)


def one(x, y):
    return torch.softmax(F.gelu(x) * (x.shape[0] / x.shape[1]) + y, -1), x.shape[0] * 2


def several(x, y):
    h = F.gelu(F.dropout(x, 0.5)) + y
    return foreign(h * 2).relu() + F.dropout(h, 0.25), h.t()


def mutating(x, y):
    x.mul_(2)
    z = x + F.gelu(y)
    y.copy_(foreign(z) * 2)
    x[1:].add_(1)
    return z.exp() + y


def written(x, y):
    y.copy_(F.gelu(x) * 2)
    return x + 1


PROGRAMS = (one, several, mutating, written)


@torch.no_grad()
def agree(f, g, *shape):
    ours = [torch.randn(shape), torch.randn(shape)]
    theirs = [t.clone() for t in ours]
    torch.manual_seed(3)
    want = f(*theirs)
    torch.manual_seed(3)
    torch.testing.assert_close((g(*ours), ours), (want, theirs))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_refuses(stage, device, dynamic, request, monkeypatch):
    if device == "gpu":
        request.getfixturevalue("gpu")
    turn = STAGES.index(stage) + 2 * dynamic
    for i, kind in enumerate(KINDS):
        f = PROGRAMS[(i + turn) % len(PROGRAMS)]
        torch._dynamo.reset()
        tenon.reset_stats()
        with monkeypatch.context() as patch:
            Fault(patch, stage, kind)
            g = torch.compile(f, backend="tenon", fullgraph=True, dynamic=dynamic)
            for shape in ((4, 6), (4, 6), (4, 6), *[(3, 7), (5, 6)] * dynamic):
                agree(f, g, *shape)
        reasons = tenon.stats()["fallback_reasons"]
        assert any(f"injected into {stage}" in why for why in reasons), (stage, kind, f.__name__, reasons)
        assert len(reasons) <= 5 and tenon.stats()["programs"] <= 4


@torch.no_grad()
def test_only_the_node_at_fault_leaves(monkeypatch):
    """If the library cannot parse a text, it is asked about each node by itself."""
    f = lambda x: F.gelu(x.exp() + 1).tanh() * 2  # noqa: E731
    Fault(monkeypatch, "parse", "invalid")
    report = tenon.explain(f, torch.randn(4, 5)).to_dict()
    assert [w["op"] for w in report["graphs"][0]["fallbacks"]] == ["aten.gelu.default"]
    assert len(report["graphs"][0]["programs"]) == 2


@torch.no_grad()
def test_an_error_where_that_is_asked_for(monkeypatch):
    for stage in STAGES:
        with monkeypatch.context() as patch:
            torch._dynamo.reset()
            Fault(patch, stage, "internal")
            g = torch.compile(one, backend="tenon", options={"fallback": "error"})
            with pytest.raises(Exception, match=f"injected into {stage}"):
                for _ in range(2):
                    g(torch.ones(4, 6), torch.ones(4, 6))


@torch.no_grad()
def test_steering_exceptions_pass(monkeypatch):
    class Steering(torch._dynamo.exc.TorchDynamoException):
        pass

    def raises(*_):
        raise Steering("steers")

    monkeypatch.setattr(node, "lower_node", raises)
    with pytest.raises(Exception, match="steers"):  # Dynamo wraps it
        torch.compile(one, backend="tenon")(torch.ones(4, 6), torch.ones(4, 6))


@torch.no_grad()
def test_parameters_that_cannot_be_packed(monkeypatch):
    model, x = nn.Linear(6, 6), torch.randn(4, 6)
    g = torch.compile(model, backend="tenon", options={"freeze": True})
    torch.testing.assert_close(g(x), model(x))
    update = _abi.Program.update_params

    def refuse(program, pointers):
        raise _abi.Error(4, "injected into packing")

    monkeypatch.setattr(_abi.Program, "update_params", refuse)
    model.weight.mul_(2)
    for _ in range(2):
        torch.testing.assert_close(g(x), model(x))
    assert any("injected into packing" in why for why in tenon.stats()["fallback_reasons"])
    monkeypatch.setattr(_abi.Program, "update_params", update)
    torch.testing.assert_close(g(x), model(x))
    assert tenon.stats()["calls"] == 2


@torch.no_grad()
def test_reasons_of_calls_are_bounded(monkeypatch):
    step = marshal.chosen.step

    def refusing(*arguments):
        step(*arguments)

        def run(*_):
            raise _abi.Error(2, f"no {time.perf_counter_ns()}")
        return run

    monkeypatch.setattr(marshal.chosen, "step", refusing, raising=False)
    g, x = torch.compile(lambda x: x.exp() + 1, backend="tenon"), torch.randn(3)
    for _ in range(100):
        torch.testing.assert_close(g(x), x.exp() + 1)
    assert len(tenon.stats()["fallback_reasons"]) <= 40


# --- programs that used to raise ---
def changes(n):
    return torch.randn(n + 3, 2 * n + 1)


REFUSED = {
    "adaptive_avg_pool": (lambda x, n: F.adaptive_avg_pool2d(x[None].exp(), 7) + 1),
    "adaptive_avg_pool_to_nothing": (lambda x, n: F.adaptive_avg_pool2d(x[None].exp(), 0) + 1),
    "group_norm": (lambda x, n: F.group_norm(x.exp().repeat(5, 1).t().reshape(1, -1, x.shape[0]), 5) + 1),
    "step": (lambda x, n: x.exp()[::n] + 1),
    "arange": (lambda x, n: torch.arange(n, 2 * n + 5, 2) + x.sum()),
    "max_pool": (lambda x, n: F.max_pool2d(x[None].exp(), (2, 3), (2, 4), ceil_mode=True) + 1),
    "window_inside": (lambda x, n: F.max_pool2d(F.pad(x, (0, 9))[None].exp(), 2, 3) + 1),
    "dilation": (lambda x, n: F.conv1d(x[:, None].exp().repeat(1, 1, 9), torch.ones(2, 1, 2), dilation=n) + 1),
    "times": (lambda x, n: x.exp() * -n + n), "clamp": (lambda x, n: (x * 3).clamp(-n, n) + 1),
    "power": (lambda x, n: x.exp() ** n + x.exp() ** -n), "tril": (lambda x, n: x.exp().tril(n) + x.triu(-n)),
    "pad": (lambda x, n: F.pad(x.exp(), (n, -1)) + F.pad(x, (-1, n))), "select": (lambda x, n: x.exp().select(0, -n) + 1),
    "shift": (lambda x, n: torch.roll(x.exp(), -n, 0) + 1), "sum": (lambda x, n: x + n - 2 * n),
}


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", REFUSED)
def test_programs(name, dynamic):
    f = REFUSED[name]
    g = torch.compile(f, backend="tenon", dynamic=dynamic)
    for n in (2, 3, 4) + ((-2, -3, 0) if name in ("times", "clamp", "power", "tril", "select", "sum", "shift") else ()):
        x = torch.randn(abs(n) + 3, 9)
        torch.testing.assert_close(g(x, n), f(x, n))


@torch.no_grad()
def test_a_whole_graph_in_pytorch_is_dynamos(monkeypatch):
    """AOTAutograd decomposes an interpolation with symbolic sizes; eager mode's operator is ten times as fast as the parts."""
    def f(x):
        return F.interpolate(x, scale_factor=3.14159, mode="bilinear")

    def refuse(self):
        raise Refused("nothing today")

    monkeypatch.setattr(Partition, "_refuse", refuse)
    g = torch.compile(f, backend="tenon", dynamic=True)
    for n in (7, 9):
        x = torch.randn(1, 2, n, n + 3)
        with torch.autograd.profiler.profile() as ran:
            got = g(x)
        assert torch.equal(got, f(x))
    names = {event.key for event in ran.key_averages()}
    assert "aten::upsample_bilinear2d" in names and "aten::arange" not in names
    assert list(tenon.stats()["fallback_reasons"]) == ["nothing today"]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_aot_autograd_refuses(dynamic):
    """A write to a dense view of an input that is not dense. AOTAutograd writes the whole input back."""
    def f(x):
        x.diagonal().fill_(3)
        return x * 2

    for n in (3, 5):
        x, y = (torch.arange(8.0).view(1, 8).expand(n, 8) for _ in range(2))
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(f, backend="tenon", dynamic=dynamic)(x), f(y))
        assert torch.equal(x, y)
    assert all(why.startswith("AOTAutograd cannot trace it: RuntimeError: more than one") for why in tenon.stats()["fallback_reasons"])
    assert tenon.stats()["fallback_reasons"] and "AOTAutograd" in str(tenon.explain(f, y))
    with pytest.raises(Exception, match="the whole graph would run in PyTorch: AOTAutograd"):
        torch.compile(f, backend="tenon", dynamic=dynamic, options={"fallback": "error"})(y)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_graph_that_reads_the_value_of_a_tensor(fullgraph):
    """A view of a table at a position of an integer tensor. Unless it must be one graph, Dynamo runs the frame, and no value compiles anew."""
    table, x = torch.linspace(0.1, 0.9, 50), torch.ones(3)
    f = lambda x, t: (x * 2, table[t])
    compiled = torch.compile(f, backend="tenon", fullgraph=fullgraph)
    counters.clear()
    for t in torch.arange(49, 28, -5):
        torch.testing.assert_close(compiled(x, t), f(x, t))
    assert (counters["stats"]["unique_graphs"] == 0) != fullgraph
    assert all(why.startswith("AOTAutograd cannot trace it") for why in tenon.stats()["fallback_reasons"])
    assert tenon.stats()["fallback_reasons"]


def test_what_aot_autograd_refuses_for_gradients():
    """A value that a gradient needs is changed in place. Without backward(), eager mode accepts this."""
    def f(w):
        x = w.exp()
        x[0] = 3
        return x.sum()

    w = torch.randn(4, 8, requires_grad=True)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(w), f(w))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.compile(f, backend="tenon")(w).backward()


# --- interrupts ---
def interrupt(thread):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))


@torch.no_grad()
def test_an_interrupted_call_holds_nobody_up():
    model, x = nn.Linear(6, 6), torch.randn(4, 6)
    g = torch.compile(model, backend="tenon", options={"freeze": True})
    g(x)
    done, rounds, caught = False, 0, []

    def work():
        nonlocal rounds
        with torch.no_grad():
            while not done:
                try:
                    rounds += 1
                    while True:
                        g(x)
                except KeyboardInterrupt as e:
                    caught.append(e)  # with its traceback, and so the locals of the call

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    end, sent, waits = time.monotonic() + 3, 0, 0
    while not done:
        time.sleep(0.002)
        if rounds == sent and waits < 100:  # not in the try again, where an interrupt does not end the thread; or Python lost it
            waits += 1
            continue
        sent, waits = rounds, 0
        done = time.monotonic() > end or len(caught) == 300
        interrupt(worker)
    while worker.is_alive() and time.monotonic() < end + 30:
        worker.join(1)
        if worker.is_alive():
            interrupt(worker)
    assert len(caught) > 10
    model.weight.mul_(2)
    done = threading.Thread(target=torch.no_grad()(lambda: g(x)), daemon=True)
    done.start()
    done.join(30)
    assert not done.is_alive()
    torch.testing.assert_close(g(x), model(x))


THIRTY_TWO_BITS = {
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_fill of a tensor": lambda x, i: x.index_fill(0, i, x.sum()),
    "put": lambda x, i: x.put(i, x[0, :2]),
    "nll_loss": lambda x, i: F.nll_loss(x[:2], i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:2, :, None].expand(2, 5, 3), i[:, None].expand(2, 3)),
}


@pytest.mark.parametrize("name", THIRTY_TWO_BITS)
def test_indices_of_32_bits_are_refused_where_pytorch_refuses_them(name):
    f, x = THIRTY_TWO_BITS[name], torch.randn(4, 5)
    for i in (torch.tensor([0, 2]), torch.tensor([0, 2], dtype=torch.int32)):
        torch._dynamo.reset()
        answers = []
        for g in (f, torch.compile(f, backend="tenon")):
            try:
                answers.append(g(x, i))
            except (RuntimeError, IndexError) as e:
                answers.append(str(e).split("\n")[0])
        if i.dtype == torch.int64:
            torch.testing.assert_close(*answers)
        else:
            assert isinstance(answers[0], str) and answers[1] == answers[0]


# --- vmap over backward passes ---
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_batch_of_gradients_is_computed_by_pytorch(dynamic):
    """The gradients of a batch of vectors are tensors of vmap, which have no memory that a program could read."""
    def function(x):
        return torch.softmax(x, 0) * x.sin()

    x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    expected = torch.autograd.functional.jacobian(function, x.detach())
    compiled = torch.compile(function, backend="tenon", dynamic=dynamic)
    batch, = torch.autograd.grad(compiled(x), x, torch.eye(3), is_grads_batched=True)
    torch.testing.assert_close(batch, expected)
    torch.testing.assert_close(torch.autograd.functional.jacobian(compiled, x.detach(), vectorize=True), expected)
    assert list(tenon.stats()["fallback_reasons"]) == ["an argument is a tensor of vmap, which has no memory"]

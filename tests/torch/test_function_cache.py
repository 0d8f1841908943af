"""Compiled functions on disk: what is found again, what is not, and that a function from the cache does what the compiled one does."""

import contextlib
import gc
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

import tenon
from tenon import _abi
from tenon.torch import compile as compiling
from tenon.torch import function_cache, serialization


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    _abi.Program("graph @g(%x: f32[3]) {\n  %y = exp(%x)\n  return %y\n}\n")  # the library reads TENON_CACHE at its first kernel
    monkeypatch.setenv("TENON_CACHE", "on")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def again(monkeypatch):
    """Returns a function again(run), which calls run() twice and returns both results. Nothing may be compiled the second time; then
    the cache has to find `times` functions."""
    def again(run, times=1):
        torch._dynamo.reset()
        torch.manual_seed(3)
        first = run()
        torch._dynamo.reset()
        counters.clear()
        with monkeypatch.context() as patch:
            patch.setattr(compiling, "_compile", lambda *a: pytest.fail("a graph is compiled"))
            patch.setattr(function_cache.aot_autograd, "aot_stage1_graph_capture", lambda *a: pytest.fail("a graph is traced"))
            torch.manual_seed(3)
            second = run()
        assert hits() == times, counters["aot_autograd"]
        return first, second
    return again


def hits():
    return counters["aot_autograd"]["autograd_cache_hit"]


def compiled(f, **options):
    return torch.compile(f, backend="tenon", options=options or None)


class Net(nn.Module):
    """A model with dropout, a batch norm, whose buffers the graph updates, tied weights and a product whose result is saved."""

    def __init__(self, width=11):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.norm, self.outer = nn.Linear(width, 6), nn.BatchNorm1d(6), nn.Linear(6, width)
        self.last = nn.Linear(width, 6)
        self.last.weight = self.inner.weight

    def forward(self, x):
        y = F.dropout(self.norm(self.inner(x)).relu(), 0.4, self.training)
        return self.last(self.outer(y).tanh() * x)


def train(call, model, steps=3, width=11, rows=5):
    """The losses, the gradients of the last step and all buffers."""
    x, losses = torch.arange(rows * width).reshape(rows, width).sin(), []
    torch.manual_seed(3)
    for _ in range(steps):
        model.zero_grad()
        loss = call(x).square().sum()
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
    return losses, [p.grad for p in model.parameters()], list(model.buffers())


@pytest.mark.parametrize("rng", ["torch", "fast"])
def test_training(again, rng):
    def run():
        model = Net()
        return train(compiled(model, rng=rng), model)

    first, second = again(run)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    if rng == "torch":
        model = Net()
        torch.testing.assert_close(second, train(model, model), rtol=2e-4, atol=2e-5)
    assert tenon.stats()["fallbacks"] == 0


def test_outputs_that_are_views_of_a_product(again):
    """PyTorch's pickle of the view between a product of matrices and its result of three axes has wrong sizes."""
    def heads(x, w):
        y = x @ w
        return y.view(2, 3, 4, 4).transpose(1, 2), y[:, 1:], y

    def run():
        x, w = torch.linspace(-1, 1, 30).reshape(2, 3, 5).requires_grad_(), torch.linspace(-1, 1, 80).reshape(5, 16).requires_grad_()
        results = compiled(heads)(x, w)
        assert len({r.untyped_storage().data_ptr() for r in results}) == 1
        torch.testing.assert_close(results, heads(x, w))
        sum((r * k).sin().sum() for k, r in enumerate(results, 1)).backward()
        return *results, x.grad, w.grad

    first, second = again(run)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_backward_passes_of_a_found_function(again):
    """Saved values may be donated to the backward graph: they stay as they are if a second pass reads them."""
    def run():
        w = torch.linspace(-1, 1, 13).requires_grad_()
        y = compiled(lambda w: ((w.sin() * 2).exp() * w).tanh().sum())(w)
        y.backward(retain_graph=True)
        once = w.grad.clone()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        return once, w.grad

    first, second = again(run)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    torch.testing.assert_close(2 * second[0], second[1])


def test_no_collection_runs_while_a_function_is_read(again, monkeypatch):
    """Reading makes so many objects that Python would look through the whole process several times."""
    load, paused = serialization._load, []

    def watched(*args):
        paused.append(not gc.isenabled())
        return load(*args)

    monkeypatch.setattr(serialization, "_load", watched)
    again(lambda: train(compiled(model := Net(13)), model, width=13))
    assert paused == [True, True] and gc.isenabled()


def test_an_optimizer(again):
    def run():
        torch.manual_seed(5)
        parameters = [torch.randn(n, requires_grad=True) for n in (3, 17, 40)]
        optimizer = torch.optim.AdamW(parameters, lr=torch.tensor(0.1))
        step = compiled(optimizer.step)
        for _ in range(3):
            for p in parameters:
                p.grad = p.detach().sin()
            step()
        return [p.detach() for p in parameters]

    first, second = again(run)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_sizes_that_vary(again):
    def f(x, y):
        if x.shape[0] > 7:
            return x * y.sum() + x.shape[0], x[: int(x.shape[0] * 0.7)].exp()
        return x - y.mean(), x[::2] * x.shape[0]

    def run():
        call, results = compiled(f), []
        for n in (3, 5, 7, 6, 9, 12):
            x = torch.arange(n * 4).reshape(n, 4).cos()
            torch._dynamo.mark_dynamic(x, 0)
            results.append(call(x, x + 1))
            torch.testing.assert_close(results[-1], f(x, x + 1))
        return results

    first, second = again(run, times=3)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_sizes_that_violate_a_guard_are_traced_again(cache):
    """The rounding of the pooled size depends on the size, and other guards of the graph have an "or"."""
    pool = lambda x: F.max_pool2d(x, (1, 4), (2, 4), (0, 2), ceil_mode=True).unflatten(1, (2, -1))
    call = torch.compile(pool, backend="tenon", dynamic=True)
    for width in (41, 61, 63, 59):
        x = torch.randn(6, 64, 13, width, requires_grad=True)
        torch.testing.assert_close(call(x), pool(x), rtol=0, atol=0)


@pytest.mark.parametrize("train", [False, True])
def test_floats_that_vary(cache, train):
    """A float that PyTorch makes a constant of a graph, such as one that the graph returns, is not in the key of the graph."""
    def returned(x, c):
        return x * c, c * 2.0

    def used(x, c):
        rest = 1.0 - 1.0 / c
        return torch.add(x * rest, x.sin(), alpha=1 - rest), c

    for f in (returned, used):
        call = compiled(f)
        for c in (1.5, 1.87, 2.24, 2.61, 1.87):
            x, z = (torch.linspace(-1, 1, 6).requires_grad_(train) for _ in range(2))
            got, want = call(x, c), f(z, c)
            assert got[1] == want[1]
            torch.testing.assert_close(got[0], want[0])
            if train:
                got[0].sum().backward()
                want[0].sum().backward()
                torch.testing.assert_close(x.grad, z.grad)


def test_a_float_that_stays_an_input(again):
    def run():
        call, x = compiled(lambda x, c: (x * c).sin()), torch.linspace(-1, 1, 6)
        results = [call(x, c) for c in (1.5, 1.87, 2.24)]
        torch.testing.assert_close(results, [(x * c).sin() for c in (1.5, 1.87, 2.24)])
        return results

    first, second = again(run, times=2)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_a_graph_that_writes_to_its_inputs(again):
    def f(x, y):
        x.add_(1)
        y.mul_(x.sum())
        return x * y

    def run():
        call, base = compiled(f), torch.arange(9.0)
        a, b = base[:4].clone(), base[:4].clone()
        apart = call(a, b)
        share = base[:4], base[2:6]  # overlap: the operators must write one after the other
        return apart, a, b, call(*share), base

    first, second = again(run)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    base = torch.arange(9.0)
    torch.testing.assert_close(second[3], f(base[:4], base[2:6]))
    torch.testing.assert_close(second[4], base)
    assert tenon.stats()["fallback_reasons"] == {"inputs that overlap in memory, one of which the graph writes to": 2}


class Head(nn.Module):
    """A module with parameters, a buffer, a constant, and a host step between two segments."""

    def __init__(self, width, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm, self.last = nn.Linear(width, 9), nn.BatchNorm1d(9), nn.Linear(9, 3)
        self.norm.running_mean.normal_()

    def forward(self, x):
        y = self.norm(self.first(x)) * torch.tensor([1.5, 2, 3, 4, 5, 6, 7, 8, 9])
        return self.last(torch.linalg.inv_ex(y.t() @ y + torch.eye(9))[0] + y.sum())


def some_rows(width):
    return torch.arange(4. * width).reshape(4, width).cos()


def frozen(model, width, count=1):
    """The results of calls of the function with frozen parameters."""
    call, x = compiled(model, freeze=True), some_rows(width)
    with torch.no_grad():
        return [call(x) for _ in range(count)]


def test_frozen_parameters(again):
    model = Head(13).eval()
    model.norm.running_var.fill_(2)
    with torch.no_grad():
        expected = model(some_rows(13))
    first, second = again(lambda: frozen(model, 13, 3))
    for result in (*first, *second):
        torch.testing.assert_close(result, expected)
        assert torch.equal(result, first[0])


def test_another_model_of_the_same_graph_has_its_own_parameters(again):
    models = iter([Head(12, seed=1).eval(), Head(12, seed=2).eval()])
    used = []

    def run():
        used.append(next(models))
        return frozen(used[-1], 12)[0]

    first, second = again(run)
    for model, result in zip(used, (first, second)):
        with torch.no_grad():
            torch.testing.assert_close(result, model(some_rows(12)))
    assert not torch.allclose(first, second)


def test_frozen_parameters_that_change_are_packed_again():
    def run():
        model = Head(14).eval()
        call, x, results = compiled(model, freeze=True), torch.ones(4, 14), []
        with torch.no_grad():
            for change in (lambda: None, lambda: model.first.weight.mul_(2), lambda: setattr(model.last, "bias", nn.Parameter(torch.ones(3)))):
                change()
                results.append((call(x), model(x)))
        return results

    torch._dynamo.reset()
    run()
    torch._dynamo.reset()
    counters.clear()
    for result, expected in run():
        torch.testing.assert_close(result, expected)
    assert hits() >= 1


def test_a_frozen_function_counts_as_one_that_was_compiled(again):
    def run():
        before = tenon.stats()
        model = nn.Sequential(nn.Linear(15, 15), nn.Tanh()).eval()
        with torch.no_grad():
            call = compiled(model, freeze=True)
            call(torch.ones(2, 15)), call(torch.ones(2, 15))
        after = tenon.stats()
        return {key: after[key] - before[key] for key in ("calls", "programs", "nodes")}

    first, second = again(run)
    assert first == second and first["programs"] == 1 and first["calls"] == 2


def test_inference_tensors_are_not_packed():
    """Dynamo's graph is the same for a model whose parameters were made under inference_mode, and whose function packs none."""
    x = torch.ones(2, 16)
    model = nn.Linear(16, 16).eval()
    with torch.inference_mode():
        other = nn.Linear(16, 16).eval()
    with torch.no_grad():
        compiled(model, freeze=True)(x)
        torch._dynamo.reset()
        counters.clear()
        torch.testing.assert_close(compiled(other, freeze=True)(x), other(x))
        assert hits() == 0


def test_host_steps(again):
    """stats() counts the nodes that PyTorch runs, for a found function too."""
    def f(x):
        return x * torch.histc(x.half(), 3, 0, 12).float() * torch.tensor([0.5, 2.0, 3.0])

    first, second = again(lambda: (compiled(f)(torch.arange(12.0).reshape(4, 3)), dict(tenon.stats()["fallback_reasons"]))[0])
    assert torch.equal(first, second) and tenon.stats()["fallback_reasons"] == {"histc of f16, or with symbolic bounds": 2}
    with pytest.raises(Exception, match="histc"):
        torch._dynamo.reset()
        compiled(f, fallback="error")(torch.arange(12.0).reshape(4, 3))


def test_equal_graphs_share_a_program(again):
    def run():
        functions, before = [lambda x: x.sin() + 1, lambda y: y.sin() + 1, lambda z: z.sin() + 1], tenon.stats()["programs"]
        calls = [compiled(f) for f in functions]
        for call in calls:
            torch.testing.assert_close(call(torch.ones(2, 9)), torch.ones(2, 9).sin() + 1)
        return tenon.stats()["programs"] - before

    assert again(run, times=3) == (1, 1)


@pytest.mark.parametrize("change", ["options", "tenon", "tag", "autocast", "default dtype", "grad", "size", "stride", "dtype", "graph", "budget"])
def test_what_makes_two_functions_different(monkeypatch, change):
    def run(f=lambda x: (x @ x.t()).sin(), x=torch.ones(5, 5), **options):
        torch._dynamo.reset()
        counters.clear()
        return compiled(f, **options)(x)

    run()
    assert hits() == 0
    run()
    assert hits() == 1
    if change == "options":
        run(num_threads=1)
    elif change == "tenon":
        monkeypatch.setattr(function_cache, "_version", lambda: ("0.0.0", ""))
        run()
    elif change == "tag":
        with torch.compiler.config.patch(cache_key_tag="mine"):
            run()
    elif change == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            assert run().dtype == torch.bfloat16
    elif change == "default dtype":
        torch.set_default_dtype(torch.float64)
        try:
            run()
        finally:
            torch.set_default_dtype(torch.float32)
    elif change == "grad":
        run(x=torch.ones(5, 5, requires_grad=True)).sum().backward()
    elif change == "size":
        run(x=torch.ones(6, 6))
    elif change == "stride":
        run(x=torch.ones(5, 10)[:, ::2])
    elif change == "dtype":
        run(x=torch.ones(5, 5, dtype=torch.float64))
    elif change == "graph":
        run(f=lambda x: (x @ x.t()).cos())
    elif change == "budget":
        with torch._functorch.config.patch(activation_memory_budget=0.5):
            run()
    assert hits() == 0


@pytest.mark.parametrize("why", ["TENON_CACHE", "autograd_cache", "disable", "benchmark", "explain"])
def test_what_stays_out(monkeypatch, cache, why):
    options = {why: True} if why == "benchmark" else {}
    if why == "TENON_CACHE":
        monkeypatch.setenv("TENON_CACHE", "off")
    without = contextlib.nullcontext()
    if why == "autograd_cache":
        without = torch._functorch.config.patch(enable_autograd_cache=False)
    elif why == "disable":
        without = torch.compiler.config.patch(force_disable_caches=True)
    model, x = nn.Linear(7, 7).eval(), torch.ones(2, 7)
    with without, torch.no_grad():
        tenon.explain(model, x) if why == "explain" else compiled(model, **options)(x)
    assert not (cache / "aotautograd").exists()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


def test_a_function_that_may_not_be_cached(cache):
    """PyTorch does not cache graphs with functions of users. The backward graph is then compiled when it is needed."""
    x = torch.linspace(-1, 1, 6).requires_grad_()
    y = compiled(lambda x: Cube.apply(x).sum())(x)
    assert tenon.stats()["programs"] == 1
    y.backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)
    assert tenon.stats()["programs"] == 2 and counters["aot_autograd"]["autograd_cache_bypass"] >= 1
    assert not (cache / "aotautograd").exists()


def test_a_function_that_cannot_be_written(monkeypatch, cache):
    def refuse(value):
        raise serialization.SerializationError("no")

    monkeypatch.setattr(serialization, "_encode", refuse)
    x = torch.linspace(-1, 1, 6).requires_grad_()
    compiled(lambda x: torch.fft.fft(x * 2).abs().sum())(x).backward()
    assert x.grad is not None and not (cache / "aotautograd").exists()


@pytest.mark.parametrize("damage", ["cut", "garbage", "text"])
def test_damaged_entries(cache, damage):
    """A damaged entry is a miss."""
    def f(x):
        return x.sin() * 2

    compiled(f)(torch.ones(4))
    entry, = (p for p in (cache / "aotautograd").rglob("*") if p.is_file())
    data = entry.read_bytes()
    if damage == "text":  # a program that the library does not take
        assert b"= sin(" in data
        data = data.replace(b"= sin(", b"= sim(")
    entry.write_bytes(data[: len(data) // 2] if damage == "cut" else b"x" * len(data) if damage == "garbage" else data)
    torch._dynamo.reset()
    counters.clear()
    torch.testing.assert_close(compiled(f)(torch.ones(4)), f(torch.ones(4)))
    assert hits() == 0 and tenon.stats()["fallbacks"] == 0


FRESH = """
import sys, torch, tenon
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
if sys.argv[1] == "load":
    torch.compiler.load_cache_artifacts(open(sys.argv[2], "rb").read())
call, x = torch.compile(model, backend="tenon"), torch.ones(4, 8)
torch.manual_seed(1)
call(x).sum().backward()
if sys.argv[1] == "save":
    open(sys.argv[2], "wb").write(torch.compiler.save_cache_artifacts()[0])
print(counters["aot_autograd"]["autograd_cache_hit"], [p.grad.sum().item() for p in model.parameters()])
"""


def test_artifacts_move_to_another_directory(cache, monkeypatch):
    def run(verb, folder):
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache / folder))
        monkeypatch.setenv("TENON_CACHE_DIR", str(cache / folder))
        result = subprocess.run([sys.executable, "-c", FRESH, verb, cache / "artifacts"], check=True, timeout=300, stdout=subprocess.PIPE)
        return result.stdout.decode().split(" ", 1)

    miss, want = run("save", "a")
    hit, got = run("load", "b")
    assert (miss, hit) == ("0", "1") and got == want

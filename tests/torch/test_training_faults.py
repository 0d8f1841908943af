"""Training when something goes wrong or changes between the passes and steps: exceptions, forks, other models in between, parameters
of another size, empty batches, gradients that are kept, freed or not numbers, and memory that must not grow."""

import concurrent.futures
import contextlib
import copy
import gc
import multiprocessing
import os
import re
import resource
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tenon
from tenon import report
from tenon.torch.runtime import marshal


def net(width=6):
    return nn.Sequential(nn.Linear(4, width), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(width), nn.Linear(width, 2))


def pair(model):
    """((model, compiled), (copy, copy)): what Tenon trains and what eager mode trains."""
    other = copy.deepcopy(model)
    return (model, torch.compile(model, backend="tenon")), (other, other)


def gradients(model):
    return [p.grad for p in model.parameters()]


def test_exception_between_forward_and_backward():
    (model, f), (other, g) = pair(net())
    for m, run in ((model, f), (other, g)):
        torch.manual_seed(1)
        try:
            loss = run(torch.randn(3, 4)).sum()
            raise KeyError("the user's")
        except KeyError:
            pass
        with pytest.raises(RuntimeError):  # a wrong gradient: the backward pass fails
            loss.backward(torch.ones(5))
        loss.backward()  # and its saved values are still there
        run(torch.randn(3, 4))  # a forward pass without a backward pass
        run(torch.randn(3, 4)).square().sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))


def test_an_exception_in_a_hook_of_the_backward_pass():
    (model, f), (other, g) = pair(net())
    for m, run in ((model, f), (other, g)):
        torch.manual_seed(1)
        x = torch.randn(3, 4, requires_grad=True)
        handle = x.register_hook(lambda grad: (_ for _ in ()).throw(KeyError("the user's")))
        with pytest.raises(KeyError):
            run(x).sum().backward()
        handle.remove()
        m.zero_grad()
        run(x).sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))


def test_interleaved_models():
    """Two models of the same graph share programs, not values."""
    first, second = pair(net()), pair(net())
    results = []
    for pairs in ((first[0], second[0]), (first[1], second[1])):
        torch.manual_seed(2)
        (a, f), (b, g) = pairs
        for _ in range(3):
            x = torch.randn(3, 4)
            y, z = f(x), g(x)
            w = f(z.detach() @ torch.ones(2, 4))
            z.sum().backward()
            w.square().sum().backward()
            y.sum().backward()
        results.append(gradients(a) + gradients(b))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_are_freed_or_zeroed(to_none):
    (model, f), (other, g) = pair(net())
    for m, run in ((model, f), (other, g)):
        torch.manual_seed(2)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        before = None
        for _ in range(3):
            optimizer.zero_grad(set_to_none=to_none)
            run(torch.randn(3, 4)).square().sum().backward()
            assert to_none or before in (None, gradients(m)[0].data_ptr())  # accumulated in place
            before = gradients(m)[0].data_ptr()
            optimizer.step()
    torch.testing.assert_close((gradients(model), list(model.parameters())), (gradients(other), list(other.parameters())))


def test_gradients_of_several_passes_are_separate_tensors():
    f = torch.compile(lambda x: (x.sin() * 2).sum(), backend="tenon")
    x = torch.randn(9, requires_grad=True)
    found = []
    for _ in range(3):
        x.grad = None
        f(x).backward()
        found.append(x.grad)
        x.grad.mul_(0.5)  # as gradient clipping does
    for g in found:
        torch.testing.assert_close(g, x.cos().detach())
    assert len({g.data_ptr() for g in found}) == 3


def test_parameters_of_another_size():
    (model, f), (other, g) = pair(net())
    for width in (6, 9, 9, 6):
        for m, run in ((model, f), (other, g)):
            torch.manual_seed(width)
            with torch.no_grad():
                m[0].weight.set_(torch.randn(width, 4)), m[0].bias.set_(torch.randn(width))
                m[3].weight.set_(torch.ones(width)), m[3].bias.set_(torch.ones(width)), m[4].weight.set_(torch.randn(2, width))
            m[3].normalized_shape = (width,)
            m.zero_grad()
            run(torch.randn(3, 4)).square().sum().backward()
        torch.testing.assert_close(gradients(model), gradients(other), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", [lambda t: t.clamp_(-1, 1).square(), lambda t: t.masked_fill_(t > 0, 0.5).square(), lambda t: t.abs_() * t,
                               lambda t: F.relu6(t.mul_(7), inplace=True).sin(), lambda t: F.silu(t[1:], inplace=True).exp(),
                               lambda t: F.mish(t, inplace=True)], ids=["clamp", "fill", "abs", "relu6", "silu of a part", "mish"])
def test_inputs_that_the_function_changes(f, dynamic):
    """The backward pass needs what the input held before."""
    compiled = torch.compile(f, backend="tenon", dynamic=dynamic)
    for shape in ((3, 4), (2, 5)):
        x = torch.randn(shape, requires_grad=True)
        z = x.detach().clone().requires_grad_()
        changed, wanted = x * 1, z * 1
        got, want = compiled(changed), f(wanted)
        torch.testing.assert_close((got, changed), (want, wanted))
        (got.sum() + changed.sum()).backward()
        (want.sum() + wanted.sum()).backward()
        torch.testing.assert_close(x.grad, z.grad)
    assert tenon.stats()["fallbacks"] == 0


def test_retain_graph():
    """A backward pass that may run again overwrites no saved value, also if it did at first."""
    (model, f), (other, g) = pair(deep())
    x = torch.randn(64, 64)
    for m, run in ((model, f), (other, g)):
        run(x).square().sum().backward()
        loss = run(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    torch.testing.assert_close(gradients(model), gradients(other))


def test_retain_graph_copies_a_saved_column_as_it_lies():
    f = lambda x, t: F.smooth_l1_loss((x * 2)[:, 0], t)  # noqa: E731
    compiled = torch.compile(f, backend="tenon", dynamic=True, options={"fallback": "error"})
    x, t = torch.randn(4, 5, requires_grad=True), torch.ones(4)
    for _ in range(2):
        got, want = (torch.autograd.grad(g(x, t), x, retain_graph=True)[0] for g in (compiled, f))
        torch.testing.assert_close(got, want)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(8), nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Classifier(nn.Linear):
    def forward(self, x):
        return F.cross_entropy(super().forward(x), torch.arange(len(x)) % self.out_features)


def conv_net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("make, shape", [(conv_net, (3, 8, 8)), (Attention, (6, 8)), (lambda: Classifier(4, 5), (4,))], ids=["conv", "attention", "loss"])
def test_batches_of_none_and_one(make, shape, dynamic):
    (model, _), (other, g) = pair(make())
    f = torch.compile(model, backend="tenon", dynamic=dynamic)
    for batch in (2, 0, 1, 0):
        results, x = [], torch.randn(batch, *shape)
        for m, run in ((model, f), (other, g)):
            m.zero_grad()
            y = run(x)
            y.square().sum().backward()
            results.append((y.detach(), gradients(m), list(m.buffers())))
        torch.testing.assert_close(*results, equal_nan=True)
        assert y.isnan().any() == (batch == 0 and y.dim() == 0)  # the mean of no losses
    assert tenon.stats()["fallbacks"] == 0


def test_tangents_that_are_not_numbers():
    (model, f), (other, g) = pair(nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)))
    x = torch.randn(5, 4)
    for place, wrong in ((0, float("nan")), (7, float("inf")), (14, -float("inf"))):
        tangent = torch.randn(5, 3)
        tangent.view(-1)[place] = wrong
        for m, run in ((model, f), (other, g)):
            m.zero_grad()
            run(x).backward(tangent)
        torch.testing.assert_close(gradients(model), gradients(other), equal_nan=True)
        bias = gradients(model)[-1]
        assert bias.isfinite().tolist() == [i != place % 3 for i in range(3)] and gradients(model)[0].isnan().any()


def test_buffers_keep_their_memory():
    (model, f), (other, g) = pair(conv_net())
    addresses = [b.data_ptr() for b in model.buffers()]
    for _ in range(2):
        x = torch.randn(3, 3, 8, 8)
        f(x).sum().backward()
        g(x)
    assert [b.data_ptr() for b in model.buffers()] == addresses
    torch.testing.assert_close(list(model.buffers()), list(other.buffers()))


@pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension was not built: Python's headers are missing")
def test_large_blocks_are_kept_from_step_to_step():
    model, f = pair(deep(700))[0]
    x, found = torch.randn(700, 700), []
    gc.collect()
    tenon.empty_cache()
    for _ in range(3):
        model.zero_grad()
        loss = f(x).sum()
        found.append(marshal.chosen.module.outputs_bytes())  # in use, kept
        loss.backward()
        del loss
        found.append(marshal.chosen.module.outputs_bytes())
    (used, kept), *later = found[1:]
    assert kept > 0 and found[0][0] >= 4 * x.nbytes and all(sum(pair) == used + kept for pair in later), found


def deep(width=64):
    """A model whose backward pass keeps intermediates in the memory of saved values."""
    return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU())])


def in_saved_values(text):
    return sum(int(n) for n in re.findall(r"in donated inputs (\d+) bytes", text))


def test_intermediates_in_saved_values():
    (model, f), (other, g) = pair(deep(80))  # a size of which no other test has programs
    x = torch.randn(80, 80)
    former = set(report._programs)
    for _ in range(3):
        f(x).sum().backward()
        g(x).sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))
    assert any(in_saved_values(p.explain()) >= 80 * 80 * 4 for p in set(report._programs) - former)


@pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension was not built: Python's headers are missing")
def test_gradients_in_memory_of_saved_values():
    """The backward pass drops saved values as it goes on, and makes gradients as late as it can."""
    (model, f), (other, g) = pair(deep(512))
    x, saved = torch.randn(512, 512), set()

    def pack(t):
        saved.add(t.data_ptr())
        return t

    for _ in range(2):
        model.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = f(x).sum()
        loss.backward()
    g(x).sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other), rtol=2e-4, atol=2e-4)
    assert any(p.grad.data_ptr() in saved for p in model.parameters())


@pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension was not built: Python's headers are missing")
def test_saved_values_are_gone_before_the_gradient_of_an_embedding(monkeypatch):
    """Its indices may be out of range, and cross entropy reads a view of the values that it saves."""
    in_use, empty, found = lambda: marshal.chosen.module.outputs_bytes()[0], marshal.chosen.empty, {}

    def watched(shape, *others):
        found[tuple(shape)] = in_use()
        return empty(shape, *others)

    monkeypatch.setattr(marshal.chosen, "empty", watched)
    (model, _), (other, g) = pair(nn.Sequential(nn.Embedding(3001, 256), nn.Linear(256, 2003)))
    ids, target = torch.randint(3001, (512,)), torch.randint(2003, (512,))
    loss = torch.compile(lambda ids: nn.functional.cross_entropy(model(ids), target), backend="tenon")(ids)
    before = in_use()
    saved = 512 * 2003 * 4
    assert before >= saved  # the logarithms of the softmax
    loss.backward()
    nn.functional.cross_entropy(g(ids), target).backward()
    torch.testing.assert_close(gradients(model), gradients(other))
    weights = 2003 * 256 * 4
    assert found[3001, 256] <= before - saved + weights * 1.1, found


@pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension was not built: Python's headers are missing")
def test_no_parameter_is_donated_beside_an_effect():
    """A solver's check for errors is an effect, and the graph has a token for it. PyTorch's indices of donated values are then off by one, and
    name a parameter."""
    (model, f), (other, g) = pair(nn.utils.parametrizations.orthogonal(nn.Linear(12, 9), orthogonal_map="cayley"))
    x = torch.randn(2, 12)
    for run in (f, g):
        run(x).square().mean().backward()
    torch.testing.assert_close(gradients(model), gradients(other))
    assert not any("donated" in why for why in tenon.stats()["fallback_reasons"]), tenon.stats()["fallback_reasons"]


def test_no_memory_for_a_gradient(monkeypatch):
    """The program may have overwritten saved values, so the error is the caller's. The next step is right."""
    full, empty = [], marshal.chosen.empty

    def failing(*arguments):
        if full:
            raise MemoryError("injected: no memory for a gradient")
        return empty(*arguments)

    monkeypatch.setattr(marshal.chosen, "empty", failing)
    (model, f), (other, g) = pair(deep(48))
    x = torch.randn(48, 48)
    for late in (False, True, False):
        model.zero_grad()
        loss = f(x).sum()
        full[:] = [1] * late
        with pytest.raises(MemoryError, match="injected") if late else contextlib.nullcontext():
            loss.backward()
        full.clear()
    g(x).sum().backward()
    torch.testing.assert_close(gradients(model), gradients(other))


def test_saved_values_that_somebody_keeps():
    """Hooks may keep the saved tensors, or views of them: the backward pass leaves their values alone."""
    for keep in (lambda t: t, lambda t: t.detach(), lambda t: t.reshape(-1)[5:]):
        _, f = pair(deep())[0]
        kept = []

        def pack(t):
            kept.append(keep(t))
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = f(torch.randn(64, 64)).sum()
        before = [t.clone() for t in kept]
        loss.backward()
        for a, b in zip(kept, before):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_fork_between_steps():
    """The child has one thread, as a worker of a DataLoader: the threads of OpenMP do not survive a fork."""
    (model, f), (other, g) = pair(nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8)))
    x = torch.randn(64, 256)
    f(x).sum().backward()
    want = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    if (child := os.fork()) == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            f(x).sum().backward()
            torch.testing.assert_close(gradients(model), want)
            code = 0
        finally:
            os._exit(code)
    f(x).sum().backward()
    assert os.waitpid(child, 0)[1] == 0
    torch.testing.assert_close(gradients(model), want, rtol=0, atol=0)


def growth(compiled, steps):
    """Returns the bytes by which the resident memory of this process grows over so many steps of training, and the count of fallbacks."""
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(256), nn.Linear(256, 8))
    f, optimizer = torch.compile(model, backend="tenon"), torch.optim.AdamW(model.parameters(), lr=1e-3)
    update = torch.compile(optimizer.step, backend="tenon") if compiled else optimizer.step
    x = torch.randn(64, 64)

    def run(count):
        for _ in range(count):
            optimizer.zero_grad()
            f(x).square().sum().backward()
            update()
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = run(100)
    return run(steps) - before, tenon.stats()["fallbacks"]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager optimizer", "compiled optimizer"])
def test_memory_stays_constant(compiled):
    """With TENON_TESTS=all, over 10,000 steps. A process of its own has no memory that other tests left."""
    steps = 10000 if os.environ.get("TENON_TESTS") == "all" else 300
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        grown, fallbacks = process.submit(growth, compiled, steps).result()
    assert grown < 2 << 20  # a leak of one activation per step would be 19 MiB
    assert fallbacks == 0

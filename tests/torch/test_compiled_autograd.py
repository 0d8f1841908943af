"""Compiled autograd: the whole backward pass is one graph, which takes its tensors in a list. Gradients are those of eager mode, and no
part of the graph runs in PyTorch."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo import compiled_autograd

import tenon
from tenon.torch import list_inputs


def enabled():
    return compiled_autograd._enable(lambda gm: torch.compile(gm, backend="tenon"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention, self.up = nn.LayerNorm(16), nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 16)

    def forward(self, x):
        h = self.norm(x)
        return x + F.gelu(self.up(self.attention(h, h, h, need_weights=False)[0]))


def conv_net():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), (3, 8)),
    "block": (Block, (2, 5, 16)),
    "conv": (conv_net, (2, 3, 8, 8)),
    "unused": (lambda: nn.ModuleDict({"used": nn.Linear(8, 4), "idle": nn.Linear(8, 4)}), (3, 8)),
}


def made(name):
    torch.manual_seed(0)
    build, shape = MODELS[name]
    model = build()
    run = (lambda m, x: m["used"](x)) if name == "unused" else (lambda m, x: m(x))
    return model, copy.deepcopy(model), run, shape


def check(model, other):
    for (name, p), q in zip(model.named_parameters(), other.parameters()):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
            assert p.grad.stride() == q.grad.stride()
    for p, q in zip(model.buffers(), other.buffers()):
        torch.testing.assert_close(p, q)
    stats = tenon.stats()
    assert stats["calls"] and stats["fallback_reasons"] == {}, stats


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_backward_passes(name, compiled):
    """Batches of three sizes, gradients that accumulate, forward passes in eager mode and compiled."""
    model, other, run, shape = made(name)
    f = torch.compile(run, backend="tenon") if compiled else run
    for batch in (shape[0], shape[0] + 1, shape[0] + 3):
        x = torch.randn(batch, *shape[1:])
        run(other, x).square().mean().backward()
        loss = f(model, x).square().mean()
        with enabled():
            loss.backward()
        check(model, other)


@pytest.mark.parametrize("name", MODELS)
def test_steps(name):
    """The forward and backward pass in one compiled function."""
    model, other, run, shape = made(name)

    @torch.compile(backend="tenon")
    def step(x):
        loss = run(model, x).square().mean()
        loss.backward()
        return loss

    with torch._dynamo.config.patch(compiled_autograd=True):
        for _ in range(2):
            x = torch.randn(shape)
            want = run(other, x).square().mean()
            want.backward()
            torch.testing.assert_close(step(x), want)
            check(model, other)


def test_hooks_and_several_losses():
    model, other, run, shape = made("mlp")
    for m in (model, other):
        m[0].weight.register_hook(lambda g: g * 2)
    x = torch.randn(shape)
    losses = [(lambda y: y.square().mean()), (lambda y: y.abs().sum())]
    for loss in losses:
        loss(run(other, x)).backward()
        y = loss(torch.compile(model, backend="tenon")(x))
        with enabled():
            y.backward()
        check(model, other)


def test_a_list_is_emptied():
    """The list holds no values of the forward pass once the backward pass has run."""
    def compile_graph(gm, inputs):
        assert not list_inputs.any_list(inputs)
        return gm

    gm = torch.fx.symbolic_trace(lambda given, k: (given[0] * k + given[1],))
    for n in gm.graph.nodes:
        n.meta["steal_arg"] = n.name == "given"
    given, k = [torch.ones(2), torch.full((2,), 3.0)], torch.tensor(2.0)
    function = list_inputs.compiled(gm, [given, k], compile_graph)
    assert function(given, k)[0].tolist() == [5.0, 5.0] and given == []


def test_a_list_that_is_used_whole():
    gm = torch.fx.symbolic_trace(lambda given: (torch.stack(given) + given[1],))
    function = list_inputs.compiled(gm, [[torch.ones(2), torch.zeros(2)]], lambda gm, inputs: gm)
    assert function([torch.ones(2), torch.full((2,), 3.0)])[0].tolist() == [[4.0, 4.0], [6.0, 6.0]]

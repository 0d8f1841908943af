"""Training with losses that contain derivatives of the model by its inputs: torch.autograd.grad in a compiled function, which
torch._dynamo.config.trace_autograd_ops lets Dynamo trace, so that PyTorch's second derivatives are part of one joint graph. The gradients
are as exact as those of eager mode, and nothing runs in PyTorch. Whole steps with the update of the weights too."""

import copy
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.training import derivatives  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Profiler record function")


@pytest.fixture(autouse=True)
def trace_autograd_ops():
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        yield


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 1)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2)).sum((1, 2))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(8, 16), nn.Linear(16, 1)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 16)
        for t in range(3):
            state = self.cell(x[:, t], state)
        return self.out(state)


def images(*layers, size=(3, 16, 16)):
    """(A critic of these layers, of batches of 3 and 2 images)"""
    with torch.no_grad():
        features = nn.Sequential(*layers, nn.Flatten())(torch.randn(2, *size)).shape[1]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 1)), [(torch.randn(n, *size),) for n in (3, 2)]


MODELS = {
    "convolutions": lambda: images(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.SiLU()),
    "batch norm, max pooling": lambda: images(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Softplus(), nn.MaxPool2d(2), nn.Tanh()),
    "group norm, pooling": lambda: images(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool2d(2), nn.InstanceNorm2d(8), nn.ELU()),
    "depthwise, resized": lambda: images(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GELU(), nn.Upsample(scale_factor=2, mode="bilinear"),
                                         nn.Conv2d(8, 4, 1), size=(8, 6, 7)),
    "transposed convolutions": lambda: images(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.GELU(), nn.PixelShuffle(2), size=(4, 5, 6)),
    "layer norms": lambda: (nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.RMSNorm(24), nn.Linear(24, 1)),
                            [(torch.randn(n, 12),) for n in (9, 5)]),
    "attention": lambda: (Attention(), [(torch.randn(n, length, 16),) for n, length in ((3, 9), (2, 7))]),
    "a recurrent cell": lambda: (Recurrent(), [(torch.randn(n, 3, 8),) for n in (5, 4)]),
}


def gradients(loss, model, inputs, dtype=torch.float32):
    """[The loss, the gradients of parameters, the gradients of inputs], as f64"""
    inputs = [x.detach().to(dtype).requires_grad_() if x.is_floating_point() else x for x in inputs]
    model.zero_grad()
    value = loss(model, *inputs)
    value.backward()
    found = [p.grad for p in model.parameters()] + [x.grad for x in inputs if x.requires_grad]
    return [t.detach().double().clone() for t in (value, *found) if t is not None]


def compare(loss, model, batches, dynamic=None):
    compiled = torch.compile(loss, backend="tenon", dynamic=dynamic, fullgraph=True, options={"fallback": "error"})
    exact = copy.deepcopy(model).double()
    for inputs in batches:
        want, eager, got = (gradients(f, m, inputs, dtype) for f, m, dtype in
                            ((loss, exact, torch.float64), (loss, model, torch.float32), (compiled, model, torch.float32)))
        assert len(want) == len(eager) == len(got)
        for w, e, g in zip(want, eager, got):
            rms = lambda t: t.square().mean().sqrt()
            assert rms(g - w) <= 2 * rms(e - w) + 5e-7 * rms(w) + 1e-9, (rms(g - w), rms(e - w), rms(w))


@pytest.mark.parametrize("name", MODELS)
def test_penalties_of_gradients(name):
    torch.manual_seed(0)
    model, batches = MODELS[name]()
    compare(derivatives.of_penalty, model, batches[:1])


@pytest.mark.parametrize("name", ["convolutions", "attention"])
def test_penalties_of_gradients_of_any_size(name):
    torch.manual_seed(0)
    model, batches = MODELS[name]()
    compare(derivatives.of_penalty, model, batches, dynamic=True)


@pytest.mark.parametrize("name", derivatives.ALL)
def test_models_of_the_benchmark(name):
    model, inputs = derivatives.build(name, tiny=True)
    compare(derivatives.ALL[name][1], model, [inputs])


def test_forces_without_gradients_of_weights():
    model, (places, kinds, pairs) = derivatives.build("force_field", tiny=True)

    def forces(places, kinds, pairs):
        with torch.enable_grad():
            places = places.detach().requires_grad_()
            return -torch.autograd.grad(model(places, kinds, pairs).sum(), places)[0]

    with torch.no_grad():
        got = torch.compile(forces, backend="tenon", fullgraph=True, options={"fallback": "error"})(places, kinds, pairs)
    torch.testing.assert_close(got, forces(places, kinds, pairs))


def test_a_whole_step_is_one_graph():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5))

    def step(model, x, y):
        weights = list(model.parameters())
        loss = F.cross_entropy(model(x), y)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for w, gradient in zip(weights, gradients):
                w.sub_(0.1 * gradient)
        return loss.detach()

    mine = copy.deepcopy(model)
    compiled = torch.compile(step, backend="tenon", fullgraph=True, options={"fallback": "error"})
    for _ in range(4):
        x, y = torch.randn(8, 12), torch.randint(5, (8,))
        torch.testing.assert_close(compiled(mine, x, y), step(model, x, y))
    for p, q in zip(mine.parameters(), model.parameters()):
        torch.testing.assert_close(p, q)

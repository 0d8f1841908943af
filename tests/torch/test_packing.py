"""options={"freeze": True} for one compiled function with several sets of parameters, or with parameters that change often."""

import gc
import threading

import pytest
import torch
from torch import nn

import tenon
from tenon.torch.runtime import packing

FREEZE = {"freeze": True}


class Layer(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a, self.b = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("table", torch.randn(width))

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x))) * self.table


def broken(layers):
    """Layers in sequence, with a graph break before each, so that Dynamo compiles the layer's code once."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            for layer in self.layers:
                torch._dynamo.graph_break()
                x = layer(x)
            return x

    return Model().eval()


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_that_share_a_function(library, dynamic):
    model = broken([Layer() for _ in range(5)])
    g = torch.compile(model, backend="tenon", options=FREEZE, dynamic=dynamic)
    for rows in (4, 4, 6, 3):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(g(x), model(x))
    made = len(library.texts)
    model.layers[2].a.weight.mul_(2)
    for _ in range(3):
        torch.testing.assert_close(g(x), model(x))
    assert library.updates == 1 and len(library.texts) == made and tenon.stats()["calls"] == 7 * 5
    assert not tenon.stats()["fallback_reasons"]


@torch.no_grad()
def test_replaced_parameters_are_packed_in_place(library):
    model, x = Layer().eval(), torch.randn(4, 8)
    g = torch.compile(model, backend="tenon", options=FREEZE)
    for _ in range(3):
        for _ in range(4):
            torch.testing.assert_close(g(x), model(x))
        model.a.weight = nn.Parameter(torch.randn(16, 8))
    assert len(library.texts) == 1 and library.updates == 2


@torch.no_grad()
@pytest.mark.parametrize("change", [
    lambda model: model.a.weight.mul_(2), lambda model: setattr(model.a, "weight", nn.Parameter(torch.randn(16, 8))),
    lambda model: setattr(model.a.weight, "data", torch.randn(16, 8)), lambda model: model.load_state_dict(Layer().state_dict())])
def test_new_values_without_guards_of_modules(library, change):
    """As docs/call.md says of guard_filter_fn."""
    model, x = Layer().eval(), torch.randn(4, 8)
    g = torch.compile(model, backend="tenon", options=FREEZE | {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe})
    for _ in range(3):
        torch.testing.assert_close(g(x), model(x))
    change(model)
    for _ in range(2):
        torch.testing.assert_close(g(x), model(x))
    assert len(library.texts) == 1 and library.updates == 1


def _fused_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    with torch.enable_grad():
        model(torch.randn(3, 8)).square().sum().backward()
    optimizer.step()


def _update_statistics(model):
    model.train()(torch.randn(3, 8))
    model.eval()


def _write_without_version(model):
    model[1].weight.data.mul_(2)


@torch.no_grad()
@pytest.mark.parametrize("change", [_fused_step, _update_statistics, _write_without_version])
def test_changes_without_a_version(change):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)).eval(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="tenon", options=FREEZE)
    before = compiled(x)
    versions = [t._version for t in model.state_dict().values() if t.is_floating_point()]
    for _ in range(2):
        change(model)
        torch.testing.assert_close(compiled(x), model(x))
        assert not torch.allclose(model(x), before)
    assert versions == [t._version for t in model.state_dict().values() if t.is_floating_point()]


@torch.no_grad()
def test_a_fused_step_that_leaves_the_compared_bytes():
    model = nn.Embedding(9, 8)
    compiled = torch.compile(model, backend="tenon", options=FREEZE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    for row in (1, 6):
        x = torch.tensor([0, row])
        torch.testing.assert_close(compiled(x), model(x))
        with torch.enable_grad():
            model(torch.tensor([row])).sum().backward()
        optimizer.step()
        torch.testing.assert_close(compiled(x), model(x))


@torch.no_grad()
def test_parameters_that_change_with_every_call(library):
    model, x = Layer().eval(), torch.randn(4, 8)
    g = torch.compile(model, backend="tenon", options=FREEZE)
    for _ in range(30):
        model.a.weight.mul_(1.01)
        torch.testing.assert_close(g(x), model(x))
    assert library.updates == packing.WASTED and len(library.texts) == 2
    assert all(" param" in text for text in library.texts)
    for _ in range(packing.STEADY + 2):
        torch.testing.assert_close(g(x), model(x))
    assert library.updates == packing.WASTED + 1
    assert tenon.stats()["calls"] == 32 + packing.STEADY


@torch.no_grad()
def test_new_parameters_with_every_call(library):
    model, x, kept = Layer().eval(), torch.randn(4, 8), []
    g = torch.compile(lambda w, x: torch.func.functional_call(model, {"a.weight": w}, x), backend="tenon", options=FREEZE)
    for _ in range(30):
        w = nn.Parameter(torch.randn(16, 8))
        kept.append(w)
        torch.testing.assert_close(g(w, x), torch.func.functional_call(model, {"a.weight": w}, x))


@torch.no_grad()
def test_sets_of_parameters_are_bounded(library, monkeypatch):
    monkeypatch.setattr(packing, "MOST", 2)
    model, x = broken([Layer() for _ in range(6)]), torch.randn(4, 8)
    g = torch.compile(model, backend="tenon", options=FREEZE)
    for _ in range(3):
        torch.testing.assert_close(g(x), model(x))
    assert len(library.texts) == 4 and library.updates == 0  # the first layer's, two others, and one with nothing packed


@torch.no_grad()
def test_packings_die_with_their_parameters(library, monkeypatch):
    layers, x = [Layer().eval() for _ in range(3)], torch.randn(4, 8)

    def run(layer, x):
        return layer(x)

    g = torch.compile(run, backend="tenon", options=FREEZE)
    for layer in layers:
        torch.testing.assert_close(g(layer, x), layer(x))
    monkeypatch.setattr(packing, "MOST", 3)
    del layer
    for i in range(4):
        layers[2] = Layer().eval()
        gc.collect()
        torch.testing.assert_close(g(layers[2], x), layers[2](x))
    assert tenon.stats()["fallbacks"] == 0


def test_threads_share_packings():
    model = broken([Layer() for _ in range(4)])
    x, wrong = torch.randn(4, 8), []
    g = torch.compile(model, backend="tenon", options=FREEZE)
    with torch.no_grad():
        g(x)

    def work():
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(g(x), model(x), atol=1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)

"""Tensor subclasses, which AOTAutograd takes apart: their tensors and sizes are inputs of the graph."""

import copy

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import tenon

STRICT = {"fallback": "error"}


def pair(*shape):
    return TwoTensor(torch.randn(shape), torch.randn(shape))


def same(a, b):
    assert type(a) is type(b)
    torch.testing.assert_close(a.a, b.a)
    torch.testing.assert_close(a.b, b.b)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 6)
        self.first.weight = nn.Parameter(pair(5, 4))

    def forward(self, x):
        return self.second(self.first(x).relu())


@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_of_a_function(dynamic):
    def f(x, y):
        return (x @ y).relu().sin() * 2, y + 1

    g = torch.compile(f, backend="tenon", options=STRICT, dynamic=dynamic)
    for rows in (3, 5):
        x, y = pair(rows, 4), torch.randn(4, 5)
        for a, b in zip(g(x, y), f(x, y)):
            (same if isinstance(b, TwoTensor) else torch.testing.assert_close)(a, b)


@torch.no_grad()
@pytest.mark.parametrize("freeze", [False, True])
def test_parameters(freeze):
    model = Model()
    g = torch.compile(model, backend="tenon", options=STRICT | {"freeze": freeze})
    for change in (lambda: None, lambda: model.second.weight.mul_(2), lambda: model.first.weight.b.mul_(2)):
        change()
        x = torch.randn(3, 4)
        same(g(x), model(x))
    assert tenon.stats()["programs"] == 1


@pytest.mark.parametrize("fallback", ["error", "count"])
def test_training(fallback):
    model = Model()
    expected = copy.deepcopy(model)
    g = torch.compile(model, backend="tenon", options={"fallback": fallback})
    for _ in range(2):
        x = torch.randn(3, 4)
        for run in (g, expected):
            run(x).square().sum().backward()
        for p, q in zip(model.parameters(), expected.parameters()):
            (same if isinstance(q.grad, TwoTensor) else torch.testing.assert_close)(p.grad, q.grad)


def test_an_input_that_is_written():
    def f(x, y, z):
        y.add_(1)
        return x * y + z

    g = torch.compile(f, backend="tenon", options=STRICT)
    x, y, z = pair(3, 4), torch.randn(4), torch.randn(4)
    mine = y.clone()
    same(g(x, mine, z), f(x, y, z))
    torch.testing.assert_close(mine, y)


def test_an_input_that_is_written_and_overlaps():
    def f(x, y, z):
        y.add_(1)
        return x * y + z

    g, h = torch.compile(f, backend="tenon"), torch.compile(f, backend="eager")
    x, y = pair(3, 4), torch.randn(6)
    mine = y.clone()
    g(x, mine[:4].clone(), mine[2:].clone())
    same(g(x, mine[:4], mine[2:]), h(x, y[:4], y[2:]))
    torch.testing.assert_close(mine, y)


def test_jagged_tensors():
    linear = nn.Linear(4, 3)
    g = torch.compile(lambda n: linear(n).relu(), backend="tenon", options=STRICT)
    for lengths in ((2, 5), (3, 1, 4)):
        n = torch.nested.nested_tensor([torch.randn(k, 4) for k in lengths], layout=torch.jagged)
        torch.testing.assert_close(g(n).values(), linear(n).relu().values())

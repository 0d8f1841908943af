"""Nodes that are lowered like an earlier node of the graph. conftest.py compares their lines with those that their rows write, in all tests
of this folder; the tests here have graphs whose nodes are nearly equal."""

import math

import pytest
import torch
from torch.nn import functional as F

from tenon.torch.lowering import node
from tenon.torch.lowering.operand import of_host
from tenon.torch.lowering.repeats import Repeats
from tenon.torch.lowering.tensors import CPU
from tenon.torch.ops import TABLE

import direct


@pytest.fixture
def found(monkeypatch):
    """The names of the nodes that were lowered like an earlier one."""
    names, find = [], Repeats.find

    def spy(self, key, name, operands):
        result = find(self, key, name, operands)
        if result is not None:
            names.append(name)
        return result

    monkeypatch.setattr(Repeats, "find", spy)
    return names


def same(f, *args):
    torch.testing.assert_close(direct.call(f, list(args)), f(*args), equal_nan=True)


def test_layers_are_lowered_once(found):
    """All nodes of the second and third layer are like those of the first."""
    layer = lambda x, w: F.layer_norm(F.gelu(x @ w) + x, [6])
    three = lambda x, a, b, c: layer(layer(layer(x, a), b), c)
    same(three, torch.randn(4, 6), *(torch.randn(6, 6) for _ in range(3)))
    assert len(found) % 2 == 0 and len(found) >= 8


def test_a_symbolic_batch(found):
    f = torch.compile(lambda x, w: ((x @ w).relu() @ w).relu(), backend="tenon", dynamic=True)
    for n in (3, 5):
        x, w = torch.randn(n, 6), torch.randn(6, 6)
        torch.testing.assert_close(f(x, w), ((x @ w).relu() @ w).relu())
    assert len(found) == 2


NEARLY = {
    "an int and a float": lambda x, i: (i * 1, i * 1.0, i + True, i + 1),
    "zeros of two signs": lambda x, i: (torch.copysign(x, torch.full_like(x, 0.0)), torch.copysign(x, torch.full_like(x, -0.0))),
    "one operand twice": lambda x, i: (x.neg() * x, x.neg() * x.neg(), x * x, x.neg() - x, x - x, x - x.neg()),
    "a view without effect": lambda x, i: (x - x.view(4, 6), x.t().t() - x, x.neg() - x.view(4, 6), x - x.neg()),
    "strides of an operand": lambda x, i: (x.t().contiguous().clone(), x.t().clone(memory_format=torch.preserve_format),
                                           torch.zeros_like(x.t()), x.t().contiguous()),
    "results that are read": lambda x, i: (x.max(1).values, (x + 1).max(1).indices, *(x + 2).max(1), *x.split(2, 1), (x + 1).split(2, 1)[1]),
    "orders of a list": lambda x, i: (torch.cat([x, x + 1]), torch.cat([x + 1, x]), torch.stack([x, x]), torch.stack([x, x + 1])),
    "dtypes of results": lambda x, i: (i.sum(0), i.sum(0, dtype=torch.float32), i.to(torch.int32).sum(0), i.sum(0, dtype=torch.float64)),
    "infinities": lambda x, i: (x.masked_fill(i > 2, math.inf), x.masked_fill(i > 2, -math.inf), x.masked_fill(i > 2, math.nan)),
    "bools": lambda x, i: (x.sum(1, True), x.sum(1, False), x.argsort(1, True), x.argsort(1, False)),
}


@pytest.mark.parametrize("name", NEARLY)
def test_nodes_that_are_nearly_equal(name):
    same(NEARLY[name], torch.randn(4, 6), torch.arange(24).view(4, 6) % 5)


def test_bags_with_other_offsets():
    """The row of embedding_bag looks at the node of the offsets."""
    def f(table, ids, offsets):
        return F.embedding_bag(ids, table, torch.arange(0, 12, 3)), F.embedding_bag(ids, table, offsets), F.embedding_bag(ids, table, offsets + 0)

    same(f, torch.randn(9, 4), torch.randint(0, 9, (12,)), torch.tensor([0, 1, 1, 7]))


def test_views_of_other_inputs(found):
    """The row of as_strided looks for the input whose memory it reads."""
    f = lambda x, y: (torch.as_strided(x, (2, 3), (3, 1), 6), torch.as_strided(y, (2, 3), (3, 1), 6))
    base = torch.randn(64)
    same(f, base[2:26].view(4, 6), base[30:54].view(4, 6))
    assert found == []


def test_the_comparison_can_fail(monkeypatch):
    """conftest.py finds a node that is taken for an earlier one and is not."""
    monkeypatch.setattr(Repeats, "key", lambda self, n, target, used: (target, [of_host(a) for a in n.all_input_nodes]))
    gm = torch.fx.symbolic_trace(lambda x: (torch.ops.aten.sum.dim_IntList(x, [0]), torch.ops.aten.sum.dim_IntList(x, [1])))
    x, first, second, _ = gm.graph.nodes
    for n, shape in ((x, (4, 6)), (first, (6,)), (second, (4,))):
        n.meta["val"] = torch.empty(shape)
    repeats = Repeats({}, CPU)
    node.lower_node(first, {}, TABLE, CPU, None, repeats)
    with pytest.raises(AssertionError, match="not as an earlier node"):
        node.lower_node(second, {}, TABLE, CPU, None, repeats)

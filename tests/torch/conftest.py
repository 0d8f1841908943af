"""Fixtures of the PyTorch tests: two threads, a fresh Dynamo and fresh counts for each test."""

import operator

import pytest
import torch
import torch._dynamo

import tenon
from tenon import _abi
from tenon.graph_text import line_texts
from tenon.torch import compile as compiling
from tenon.torch.lowering import node, sizes

# For its log only, PyTorch measures how long the guards take, after it has flushed the processor's cache: a quarter of a small compilation.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0


_lower_node = node.lower_node


def _lowered_twice(n, values, table, device, seed, repeats):
    """Lowers a node with the Repeats of its graph and without them, and compares the results."""
    result = _lower_node(n, values, table, device, seed, repeats)
    if repeats is not None and n.target is not operator.getitem:
        alone = _lower_node(n, values, table, device, seed)
        assert _told(result) == _told(alone), f"{n.format_node()} is not as an earlier node"
    return result


def _told(low):
    results = [v and (v.name, v.dtype, v.shape) for v in (low.result if isinstance(low.result, tuple) else (low.result,))]
    return line_texts(low.lines, sizes.text), [line.symbols for line in low.lines], results, low.cheap, low.faults, list(low.placed)


node.lower_node = _lowered_twice


_trace = compiling._Compilation.trace
_without_table = []  # the reasons of graphs that were traced without Tenon's decompositions


def _trace_recorded(compilation, table):
    traced = _trace(compilation, table)
    if table is None:
        _without_table.append(compilation.without_table)
    return traced


compiling._Compilation.trace = _trace_recorded


@pytest.fixture(autouse=True)
def fresh():
    _without_table.clear()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    torch._dynamo.reset()
    tenon.reset_stats()
    yield
    wrong = [why for why in tenon.stats()["fallback_reasons"] if any(text in why for text in ("inside Tenon", "no back end runs it", "internal:"))] + _without_table
    wrong = [why for why in wrong if "injected" not in why]
    torch._dynamo.reset()
    assert not wrong, wrong  # results are right then, but it is a defect


class Spy:
    """Records the uses of _abi.Program: texts of graphs, number of repacks. `refuse`: ops that it answers with "unsupported"."""

    def __init__(self):
        self.texts, self.updates, self.refuse = [], 0, ()


@pytest.fixture
def library(monkeypatch):
    spy, create, update = Spy(), _abi.Program.__init__, _abi.Program.update_params

    def init(self, text, *args):
        spy.texts.append(text)
        for op in spy.refuse:
            if f"= {op}(" in text:
                raise _abi.Error(2, f"{op} is refused")
        create(self, text, *args)

    def update_params(self, pointers):
        spy.updates += 1
        update(self, pointers)

    monkeypatch.setattr(_abi.Program, "__init__", init)
    monkeypatch.setattr(_abi.Program, "update_params", update_params)
    return spy

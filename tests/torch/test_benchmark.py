"""options={"benchmark": True}: who computes a segment after it has been measured. The clock of these tests advances by 1 in a turn, and
by `extra` more if PyTorch computes it.
"""

import concurrent.futures

import pytest
import torch
from torch import nn

import tenon
from tenon.torch.options import OptionError, Options
from tenon.torch.runtime import benchmark
from tenon.torch.runtime.refusal import InPyTorch, Rescue

FASTER, SLOWER, NEARLY = -0.5, 0.5, -0.05
OPTIONS = {"benchmark": True}


class Clock:
    def __init__(self, patch, extra):
        self.now, self.extra, self.in_pytorch = 0.0, extra, []  # in_pytorch: the errors with which PyTorch computed a segment
        rescue = Rescue.__call__

        def compute(this, error, args, *values):
            self.now += self.extra
            self.in_pytorch.append(error)
            return rescue(this, error, args, *values)

        patch.setattr(benchmark, "clock", self.read)
        patch.setattr(Rescue, "__call__", compute)

    def read(self):
        self.now += 1
        return self.now

    def count(self):
        """How many calls PyTorch has computed since the last count."""
        count, self.in_pytorch = len(self.in_pytorch), []
        return count


@pytest.fixture
def clock(monkeypatch):
    tenon.reset_stats()
    return lambda extra: Clock(monkeypatch, extra)


def reasons():
    return list(tenon.stats()["fallback_reasons"])


@pytest.mark.parametrize("extra, after", [(FASTER, 10), (SLOWER, 0), (NEARLY, 0)])
def test_who_computes(clock, extra, after):
    c = clock(extra)
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * 2, backend="tenon", options=OPTIONS)
    x = torch.randn(3, 5)
    want = torch.softmax(x, -1) * 2
    turns = []
    for _ in range(benchmark.CALLS):
        torch.testing.assert_close(compiled(x), want)
        turns.append(c.count())
    assert turns == [0] * benchmark.WARM_CALLS + [0, 1] * benchmark.ROUNDS
    for _ in range(10):
        torch.testing.assert_close(compiled(x), want)
    assert c.count() == after
    assert [why.split(",")[0] for why in reasons()] == ["measured: 500000.0 us in PyTorch"] * (after > 0)
    assert tenon.stats()["calls"] == benchmark.CALLS + 10


def test_without_the_option_nothing_is_measured(clock):
    c = clock(FASTER)
    compiled = torch.compile(lambda x: x.exp() + 1, backend="tenon")
    for _ in range(2 * benchmark.CALLS):
        compiled(torch.ones(4))
    assert c.count() == 0 and c.now == 0


def test_each_size_has_its_own_measurement(clock):
    c = clock(FASTER)
    compiled = torch.compile(lambda x: x.exp() + 1, backend="tenon", options=OPTIONS, dynamic=True)
    few, many = torch.randn(6, 7), torch.randn(60, 7)
    for _ in range(benchmark.CALLS):
        compiled(few)
    c.count()
    for _ in range(benchmark.WARM_CALLS):
        torch.testing.assert_close(compiled(many), many.exp() + 1)
        torch.testing.assert_close(compiled(few), few.exp() + 1)
    assert c.count() == benchmark.WARM_CALLS  # all of them with `few`
    assert [sorted(why.split(": ")[0].removeprefix("measured for sizes ").split(", ")) for why in reasons()] == [["6", "7"]]


def test_no_more_than_a_number_of_sizes_is_measured(clock, monkeypatch):
    monkeypatch.setattr(benchmark, "MOST_SIZES", 2)
    c = clock(FASTER)
    compiled = torch.compile(lambda x: x.exp() + 1, backend="tenon", options=OPTIONS, dynamic=True)
    for rows in (2, 3, 4, 5):
        for _ in range(benchmark.CALLS + 5):
            compiled(torch.ones(rows, 7))
        assert c.count() == (benchmark.ROUNDS + 5 if rows < 4 else 0)


def test_an_update_happens_once_in_each_call(clock):
    c = clock(FASTER)

    def step(state, x):
        state.mul_(0.5).add_(x)
        return state.sum()

    compiled = torch.compile(step, backend="tenon", options=OPTIONS)
    state, x = torch.randn(4, 3), torch.randn(4, 3)
    want = state.clone()
    for _ in range(benchmark.CALLS + 5):
        torch.testing.assert_close(compiled(state, x), step(want, x))
        torch.testing.assert_close(state, want)
    assert c.count() == benchmark.ROUNDS + 5


@pytest.mark.parametrize("rng", ["torch", "fast"])
def test_a_step_of_training(clock, rng):
    """Forward and backward segments are measured by themselves, and agree about the masks of dropouts."""
    c = clock(FASTER)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 8, bias=False))
    with torch.no_grad():
        model[3].weight.copy_(torch.eye(8))
    compiled = torch.compile(model, backend="tenon", options=OPTIONS | {"rng": rng})
    x = torch.randn(5, 6)
    for _ in range(benchmark.CALLS + 3):
        model.zero_grad()
        y = compiled(x)
        y.sum().backward()
        hidden = torch.nn.functional.gelu(model[0](x))
        mask = y.detach() / hidden.detach()
        want = torch.autograd.grad((hidden * mask).sum(), model[0].weight)[0]
        torch.testing.assert_close(model[0].weight.grad, want)
    assert c.count() == 2 * (benchmark.ROUNDS + 3)


def test_packed_weights(clock):
    c = clock(FASTER)
    model = nn.Linear(8, 4)
    compiled = torch.compile(model, backend="tenon", options=OPTIONS | {"freeze": True})
    x = torch.randn(3, 8)
    with torch.no_grad():
        for n in range(benchmark.CALLS + 5):
            if n == benchmark.CALLS:
                model.weight.add_(1)
            torch.testing.assert_close(compiled(x), model(x))
    assert c.count() == benchmark.ROUNDS + 5


def test_calls_of_several_threads(clock):
    clock(FASTER)
    compiled = torch.compile(lambda x: x.exp() + 1, backend="tenon", options=OPTIONS)
    compiled(torch.ones(4))

    def work(seed):
        x = torch.full((4,), float(seed))
        for _ in range(benchmark.CALLS):
            torch.testing.assert_close(compiled(x), x.exp() + 1)
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert len(reasons()) <= 1  # the times are disturbed, so either may win


def test_errors_in_both_turns(clock):
    clock(FASTER)
    compiled = torch.compile(lambda x, i: x[i] * 2, backend="tenon", options=OPTIONS)
    x = torch.randn(4, 2)
    for n in range(benchmark.CALLS + 4):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([1, 7]))
        torch.testing.assert_close(compiled(x, torch.tensor([1, 3])), x[[1, 3]] * 2)


def test_explain_measures(clock):
    c = clock(FASTER)
    text = str(tenon.explain(lambda x: x.cos() + 1, torch.ones(5), tenon_options=OPTIONS))
    assert "in PyTorch: a segment (a call): measured: 500000.0 us in PyTorch, 1000000.0 us in Tenon" in text
    assert all(isinstance(error, InPyTorch) for error in c.in_pytorch)


def test_pytorch_may_be_forbidden():
    with pytest.raises(OptionError, match="benchmark=True may choose PyTorch"):
        Options.parse({"benchmark": True, "fallback": "error"})

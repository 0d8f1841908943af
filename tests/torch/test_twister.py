"""twister.py draws the bits that PyTorch draws, whatever was drawn before, or leaves them to PyTorch. NumPy's Mersenne twister is the reference."""

import threading

import numpy as np
import pytest
import torch

from tenon.torch.runtime import marshal, runner, twister

in_c = pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension module is not built")


def generator(words):
    """A generator that has drawn some words, and NumPy's with the same state."""
    g, reference = torch.Generator().manual_seed(1234), np.random.MT19937()
    reference._legacy_seeding(1234)
    torch.rand(words, generator=g)  # one word each
    reference.random_raw(words)
    return g, reference


def unpacked(bits, count):
    return np.unpackbits(bits.numpy(), bitorder="little")[:count].astype(bool)


@in_c
@pytest.mark.parametrize("words", [0, 1, 2, 623, 624, 625])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 311, 312, 313, 624, 10_007])
def test_numbers(count, words):
    for p in (0.0, 1e-9, 0.1, 0.5, 1 - 0.1, 1.0):
        g, reference = generator(words)
        bits = twister._draw(marshal.chosen.draw, g, count, p)
        upper, lower = reference.random_raw(2 * count).reshape(-1, 2).T
        expected = (upper % 2**21 * 2**32 + lower) * 2.0**-53 < p
        assert bits.dtype == torch.uint8 and len(bits) == (count + 7) // 8
        assert np.array_equal(unpacked(bits, count), expected)
        assert not count % 8 or bits[-1] >> count % 8 == 0
        assert np.array_equal(torch.rand(9, generator=g).numpy(), (reference.random_raw(9) % 2**24 * 2.0**-24).astype(np.float32))


def test_its_bits_are_used_exactly_where_pytorch_draws_the_same():
    g, reference = generator(5)
    upper, lower = reference.random_raw(400).reshape(-1, 2).T
    same = np.array_equal(torch.empty(200, dtype=torch.bool).bernoulli_(0.3, generator=g).numpy(), (upper % 2**21 * 2**32 + lower) * 2.0**-53 < 0.3)
    assert (twister._function() is not None) == (same and marshal.chosen.in_c)


@pytest.mark.parametrize("shape, order", [((3, 5, 7), (0, 1, 2)), ((3, 5, 7), (2, 0, 1)), ((64, 33), (0, 1)), ((0, 4), (0, 1)), ((), ())])
def test_bits_of_masks(shape, order):
    strides = torch.empty(shape).permute(order).contiguous().permute([order.index(i) for i in range(len(order))]).stride()
    torch.manual_seed(3)
    bits, after = runner.draw_bits(shape, strides, 0.6, 0), torch.rand(1)
    torch.manual_seed(3)
    mask = runner.draw_mask(shape, strides, 0.6, 0)
    assert np.array_equal(unpacked(bits, mask.numel()), mask.flatten().numpy())
    assert torch.equal(after, torch.rand(1))


@in_c
@pytest.mark.parametrize("wrong", ["numbers", "refusal"])
def test_another_generator_is_left_to_pytorch(monkeypatch, wrong):
    """As where PyTorch draws with a library of the CPU's vendor."""
    real = marshal.chosen.draw

    def draw(generator, bits, count, p):
        if wrong == "refusal":
            raise ValueError("another state")
        real(generator, bits, count, p)
        bits[0] ^= 1

    twister._function.cache_clear()
    monkeypatch.setattr(marshal.chosen, "draw", draw)
    try:
        assert twister.bits(20, 0.5) is None
        torch.manual_seed(3)
        bits = runner.draw_bits((20,), (1,), 0.6, 0)
        torch.manual_seed(3)
        assert np.array_equal(unpacked(bits, 20), runner.draw_mask((20,), (1,), 0.6, 0).numpy())
    finally:
        twister._function.cache_clear()


class Source:
    """An object with the methods of a torch.Generator."""

    def __init__(self, *states):
        self.states, self.set = list(states), None

    def get_state(self):
        return self.states.pop(0).clone() if len(self.states) > 1 else self.states[0].clone()

    def set_state(self, state):
        self.set = state


@in_c
@pytest.mark.parametrize("change", [
    {"generator": Source(torch.zeros(100, dtype=torch.uint8))}, {"generator": Source(torch.zeros(5056, dtype=torch.uint8))}, {"generator": None},
    {"generator": Source("a")}, {"bits": torch.zeros(2, dtype=torch.uint8)}, {"bits": torch.zeros(6, dtype=torch.uint8)[::2]},
    {"bits": torch.zeros(3)}, {"bits": torch.zeros(3, 1, dtype=torch.uint8)}, {"bits": None}, {"count": -1}, {"count": 2**63}, {"count": 1.5},
    {"p": 1.5}, {"p": float("nan")}, {"p": "half"}], ids=lambda c: f"{next(iter(c))}")
def test_wrong_arguments_are_errors(change):
    given = {"generator": torch.Generator(), "bits": torch.zeros(3, dtype=torch.uint8), "count": 20, "p": 0.5} | change
    with pytest.raises((TypeError, ValueError, OverflowError, RuntimeError, AttributeError)):
        marshal.chosen.draw(*given.values())


@in_c
@pytest.mark.parametrize("word, value", [(2, 0), (2, 626), (4, 625), (4, 700), (5, -1)])
def test_a_damaged_state_is_an_error(word, value):
    state = torch.Generator().get_state()
    state.view(torch.int32)[word] = value
    with pytest.raises(ValueError, match="another state"):
        marshal.chosen.draw(Source(state), torch.zeros(3, dtype=torch.uint8), 20, 0.5)


@in_c
def test_a_state_that_changes_meanwhile_is_drawn_from_again():
    first, second = (torch.Generator().manual_seed(n).get_state() for n in (1, 2))
    source, bits = Source(first, second), torch.zeros(3, dtype=torch.uint8)
    marshal.chosen.draw(source, bits, 20, 0.5)
    alone, expected = Source(second), torch.zeros(3, dtype=torch.uint8)
    marshal.chosen.draw(alone, expected, 20, 0.5)
    assert torch.equal(bits, expected) and torch.equal(source.set, alone.set)


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_threads_draw_different_masks(needs_gradient):
    x, seen = torch.ones(4096, requires_grad=needs_gradient), []
    compiled = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="tenon")
    compiled(x)
    torch.manual_seed(0)

    def work():
        for _ in range(200):
            seen.append(compiled(x).detach())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    after = torch.rand(1)
    torch.manual_seed(0)
    expected = {tuple(torch.empty(4096, dtype=torch.bool).bernoulli_(0.5).tolist()) for _ in range(600)}
    assert {tuple((s != 0).tolist()) for s in seen} == expected and torch.equal(after, torch.rand(1))


def test_a_default_device_changes_nothing():
    x = torch.randn(9, 8, requires_grad=True)
    compiled = torch.compile(lambda x: torch.nn.functional.dropout(x.sin(), 0.3), backend="tenon")
    compiled(x)
    twister._function.cache_clear()
    with torch.device("meta"):
        y = compiled(x)
        y.sum().backward()
    assert y.device.type == "cpu" and (x.grad != 0).float().mean() > 0.5

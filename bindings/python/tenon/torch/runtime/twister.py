"""Bits of masks, drawn as PyTorch's default generator of the CPU draws them, but in a sixth of the time.

On most CPUs PyTorch draws masks with a Mersenne twister, one number after the other. twister.c computes whole blocks of its numbers at
once. On other CPUs PyTorch draws with a library of the CPU's vendor. So the first call compares both with each other.
Tested by tests/torch/test_twister.py.
"""

import functools

import torch

from . import marshal


def bits(count, p):
    """A mask of `count` elements that keeps each with probability p, as packed() returns it, or None if PyTorch has to draw. Other
    threads may draw meanwhile."""
    draw = _function()
    return draw and _draw(draw, torch.default_generator, count, p)


def packed(mask):
    """A mask as bytes of eight bits. Element i in row-major order is bit i % 8 of byte i // 8."""
    flat = mask.reshape(-1)
    if rest := len(flat) % 8:
        flat = torch.nn.functional.pad(flat, (0, 8 - rest))
    words = flat.view(torch.int64)  # of eight bytes that are 0 or 1; the product has byte k as bit 56 + k
    return words.mul(0x0102040810204080).bitwise_right_shift_(56).to(torch.uint8)


def _draw(draw, generator, count, p):
    result = torch.empty((count + 7) // 8, dtype=torch.uint8, device="cpu")
    draw(generator, result, count, p)
    return result


@functools.cache
def _function():
    """marshal.chosen.draw, or None if it is missing or draws other numbers than PyTorch."""
    draw = marshal.chosen.draw
    if draw is None:
        return None
    ours, theirs = (torch.Generator("cpu").manual_seed(89) for _ in range(2))
    for g in (ours, theirs):
        torch.rand(3, generator=g, device="cpu")  # numbers of one word each
    for count, p in ((2501, 0.7), (9, 0.2)):
        try:
            drawn = _draw(draw, ours, count, p)
        except ValueError:
            return None
        expected = torch.empty(count, dtype=torch.bool, device="cpu").bernoulli_(p, generator=theirs)
        if not torch.equal(drawn, packed(expected)) or not torch.equal(ours.get_state(), theirs.get_state()):
            return None
    return draw

"""Functions that write to an input, called with inputs that overlap in one storage, at the first call or later."""

import pytest
import torch

import tenon
from tenon.torch.runtime import marshal

def both(x, y):
    x.add_(1)
    y.mul_(2)
    return x + y


def whole_of(x, y):
    y[0] = 5
    return (x * 2).sum()


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", [both, whole_of])
@pytest.mark.parametrize("first", ["apart", "overlapping", "neighbours"])
def test_inputs_that_overlap(f, dynamic, first):
    views = {"apart": lambda b: (b[:6], b[6:12].clone()), "overlapping": lambda b: (b[:6], b[2:8]),
             "neighbours": lambda b: (b[:6], b[6:12]), "interleaved": lambda b: (b[:12:2], b[1:12:2]), "same": lambda b: (b[:6], b[:6].view(6))}
    g = torch.compile(f, backend="tenon", dynamic=dynamic)
    for name in (first, *views, *views):
        ours, theirs = torch.arange(16.0), torch.arange(16.0)
        want, got = f(*(kept := views[name](theirs))), g(*(mine := views[name](ours)))
        torch.testing.assert_close((got, ours, mine), (want, theirs, kept))
    assert any("overlap" in why for why in tenon.stats()["fallback_reasons"])


@torch.no_grad()
def test_a_call_without_overlap_stays_in_tenon():
    g = torch.compile(both, backend="tenon")
    for _ in range(3):
        g(*torch.arange(12.0).view(2, 6))
    assert tenon.stats()["fallbacks"] == 0 and tenon.stats()["calls"] == 3
    b = torch.arange(12.0)
    with pytest.raises(Exception, match="overlap"):
        torch.compile(both, backend="tenon", options={"fallback": "error"})(b[:6], b[3:9])


@pytest.mark.parametrize("way", [marshal.InPython(), marshal.load()], ids=["ctypes", "chosen"])
def test_apart(way):
    b, big = torch.zeros(1000), torch.zeros(50, 4)
    cases = [((b[:4], b[4:8]), 1, True), ((b[:5], b[4:8]), 1, False), ((b[:4], b[4:8], b[3:5]), 2, False),
             ((b[3:5], b[:4], b[4:8]), 1, False), ((b[:0], b[:8]), 1, True), ((b[:8], b[:8]), 0, True),
             ((b.view(10, 100)[:, :3], b.view(10, 100)[:, 5:]), 1, False), ((torch.zeros(2).expand(3, 2), b[:4]), 1, True),
             ((b[:4].view(torch.uint8), b[4:8]), 1, True), ((b[:4].view(torch.uint8), b[3:8].view(torch.int16)), 1, False),
             ((*big, b), 50, True), ((*big, big[17, 1:3]), 50, False), ((torch.eye(3).to_sparse(), b), 1, True)]
    cases += [((*(torch.zeros(3) for _ in range(80)), b[:3]), 80, True)]
    for tensors, first, apart in cases:
        assert way.apart(tensors, way.plan([first, *range(len(tensors))])) is apart, (tensors, first)

"""The number of threads: a call uses those that PyTorch has at the time, not those that it had when the plan was made. Sums at equal
indices do not depend on it."""

import os
import threading
import time

import pytest
import tenon
import torch

import direct


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def other_threads_ticks():
    """CPU ticks of all threads but the main one: user and system."""
    ticks = 0
    for thread in os.listdir("/proc/self/task"):
        if int(thread) != os.getpid():
            with open(f"/proc/self/task/{thread}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks


def share_of_other_threads(call):
    """Runs the call for a second. Returns the CPU time of all other threads over that of this thread."""
    before, start, end = other_threads_ticks(), time.thread_time(), time.monotonic() + 1
    while time.monotonic() < end:
        call()
    return (other_threads_ticks() - before) / ((time.thread_time() - start) * os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize("options", [None, {"freeze": True}])
def test_fewer_threads_after_the_first_call(two_threads, options):
    layer = torch.nn.Linear(512, 512).eval()
    fast, x = torch.compile(layer, backend="tenon", options=options), torch.randn(256, 512)
    with torch.no_grad():
        expected = layer(x)
        for _ in range(3):
            fast(x)
        torch.set_num_threads(1)
        misses = tenon.stats()["plan_misses"]
        torch.testing.assert_close(fast(x), expected)
        assert tenon.stats()["plan_misses"] == misses + 1
        assert share_of_other_threads(lambda: fast(x)) <= 0.1
        torch.set_num_threads(2)
        torch.testing.assert_close(fast(x), expected)
        assert tenon.stats()["plan_misses"] == misses + 1       # both plans are kept


def test_the_option_limits_products(two_threads):
    layer = torch.nn.Linear(512, 512).eval()
    fast, x = torch.compile(layer, backend="tenon", options={"num_threads": 1}), torch.randn(256, 512)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), layer(x))
        assert share_of_other_threads(lambda: fast(x)) <= 0.1
        assert share_of_other_threads(lambda: layer(x)) > 0.3       # eager mode uses both


SUMS = {
    "scatter_add": lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s),
    "scatter_reduce": lambda x, i, s: x.t().scatter_reduce(1, i.expand_as(s.t()), s.t(), "sum"),
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_put": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "index_put_pairs": lambda x, i, s: x.expand(2, -1, -1).index_put((i % 2, i), s, accumulate=True),
    "embedding": lambda x, i, s: torch.ops.aten.embedding_dense_backward(s, i, x.shape[0], -1, False),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("targets", [3, 64])
def test_sums_at_equal_indices_have_the_same_bits(two_threads, name, targets):
    """Hundreds of rows of mixed magnitude at an index: another order of the additions has other bits. Threads share the columns."""
    width, count = 2000, 1000
    arguments = [torch.randn(targets, width), torch.randint(targets, (count,)), torch.randn(count, width).exp()]
    f, found = torch.compile(SUMS[name], backend="tenon"), []
    with torch.no_grad():
        for threads in (1, 2, 4, 1):
            torch.set_num_threads(threads)
            found.append(f(*arguments))
        exact = SUMS[name](arguments[0].double(), arguments[1], arguments[2].double())
    torch.testing.assert_close(found[0].double(), exact, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(found[0], y) for y in found[1:]) and tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_the_library_compiles_on_another_thread(monkeypatch):
    """The caller's own thread compiles if the system refuses another one."""
    started, start = [], threading.Thread.start

    def refuse(self):
        started.append(self)
        raise RuntimeError("can't start new thread")

    def count(self):
        started.append(self)
        start(self)

    x = torch.randn(5, 11)
    for number, instead in enumerate((count, refuse)):
        monkeypatch.setattr(threading.Thread, "start", instead)
        f = lambda x: x.exp() * (number + 3.25)
        torch.testing.assert_close(direct.call(f, [x]), f(x))
        assert len(started) == number + 1
    assert tenon.stats()["fallbacks"] == 0

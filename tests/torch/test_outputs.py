"""Memory of large outputs on the CPU: it is found again, it is never shared by two living tensors, and its tensors behave as PyTorch's."""

import gc
import io
import os
import random
import threading

import numpy as np
import pytest
import torch

import tenon
from tenon.torch.runtime import marshal

pytestmark = pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension was not built: Python's headers are missing")
LARGE = (1280, 1000)  # 1.28 MB at least


@pytest.fixture(autouse=True)
def none_kept():
    gc.collect()
    tenon.empty_cache()
    yield
    gc.collect()
    tenon.empty_cache()


def in_use():
    return marshal.chosen.module.outputs_bytes()[0]


def kept():
    return marshal.chosen.module.outputs_bytes()[1]


def made(shape=LARGE, strides=None, dtype=torch.float32):
    return marshal.chosen.empty(shape, strides or torch.empty(shape, device="meta").stride(), dtype)


@pytest.mark.parametrize("dtype", list(marshal.DTYPES), ids=str)
@pytest.mark.parametrize("shape, strides", [(LARGE, None), (LARGE, (1, 1280)), ((8, 3, 400, 300), (360000, 1, 900, 3)), (LARGE, (1008, 1)),
                                            ((1 << 23,), None)])
def test_a_large_tensor_is_as_pytorchs(dtype, shape, strides):
    before = in_use()
    y, expected = made(shape, strides, dtype), torch.empty_strided(shape, strides or torch.empty(shape, device="meta").stride(), dtype=dtype)
    assert in_use() > before
    for name in ("dtype", "device", "layout", "shape", "requires_grad", "is_leaf", "_version"):
        assert getattr(y, name) == getattr(expected, name), name
    for name in ("stride", "is_contiguous", "storage_offset", "is_inference", "_is_view", "is_pinned"):
        assert getattr(y, name)() == getattr(expected, name)(), name
    assert y.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
    assert y.data_ptr() % 4096 == 0
    del y
    assert in_use() == before


def test_small_tensors_are_pytorchs():
    before = in_use()
    for shape in ((), (0,), (3, 4), (0, 1 << 30), (1 << 18,)):
        y = made(shape, dtype=torch.uint8)
        assert y.shape == shape and in_use() == before
        y.resize_(1 << 20)  # its storage can grow
    y = made((3,), dtype=torch.complex64)
    assert y.dtype == torch.complex64


def test_a_call_finds_the_memory_of_the_last_one():
    x = torch.randn(LARGE)
    with torch.no_grad():
        f = torch.compile(lambda x: torch.tanh(x) + 1, backend="tenon")
        y = f(x)
        address = y.data_ptr()
        del y
        assert kept() >= x.nbytes
        z = f(x)
        assert z.data_ptr() == address and kept() == 0
        torch.testing.assert_close(z, torch.tanh(x) + 1)


def test_freed_neighbors_serve_a_larger_tensor_and_a_freed_tensor_serves_smaller_ones():
    of_pages = lambda n: made((n << 12,), dtype=torch.uint8)
    a, b, c = of_pages(300), of_pages(301), of_pages(302)
    address, most = a.data_ptr(), in_use()
    del b, a
    large = of_pages(601)
    assert large.data_ptr() == address and kept() == 0
    del large
    a, b = of_pages(280), of_pages(321)
    assert a.data_ptr() == address and b.data_ptr() == address + a.nbytes and kept() == 0
    del a, b, c
    assert of_pages(903).data_ptr() == address and in_use() + kept() <= most


def test_random_sizes_and_lifetimes():
    """Each tensor keeps its elements until it is dropped, and all memory returns."""
    draw, living, before = random.Random(0), [], in_use()
    for i in range(3000):
        if draw.random() < 0.4 + len(living) / 100:
            y, number = living.pop(draw.randrange(len(living))) if living else (torch.empty(0), 0)
            assert y.eq(number).all()
            del y
        else:
            living.append((made((draw.randrange(1 << 18, 1 << draw.randrange(19, 23)),), dtype=torch.int32).fill_(i), i))
        assert kept() >= 0
    for y, number in living:
        assert y.eq(number).all()
    del y, living
    assert in_use() == before
    tenon.empty_cache()
    assert kept() == 0


def test_living_tensors_and_what_reads_their_memory_keep_it():
    x = torch.randn(LARGE)
    with torch.no_grad():
        f = torch.compile(lambda x: x * 2, backend="tenon")
        views = [f(x)[1:], f(x).numpy(), f(x).t(), f(x).detach(), np.from_dlpack(f(x))]
        storage, expected = f(x).untyped_storage(), [torch.as_tensor(v).clone() for v in views]
        for _ in range(3):
            f(x + 5)
        for v, e in zip(views, expected):
            assert torch.equal(torch.as_tensor(v), e)
        assert torch.equal(torch.empty(0).set_(storage).view(LARGE), x * 2)


def test_kept_memory_never_raises_the_peak():
    """Blocks of many sizes, one after the other: the memory kept and in use is at most the largest that was in use."""
    before, most = in_use(), 0
    living = []
    for i in range(200):
        living.append(made((1 + i * 7919 % 31, 1 << 19)))
        most = max(most, in_use())
        if len(living) > 3:
            living.pop(i % 3)
        assert in_use() + kept() <= most
    living.clear()
    assert in_use() == before and 0 < kept() <= most
    tenon.empty_cache()
    assert kept() == 0
    one = made((4, 1 << 19))  # the peak counts from here on
    large, (address, size) = one.nbytes, (one.data_ptr(), in_use())
    del one
    assert made((4, 1 << 19)).data_ptr() == address and large <= size
    other = made((3, 1 << 19))
    assert in_use() + kept() <= size
    del other


def test_memory_that_no_tensor_takes_is_returned():
    y, x = made((32 << 18,)), made()
    del y, x
    assert kept() >= 32 << 20
    for _ in range(8400):
        made()
    assert kept() < 8 << 20  # the block of the last one


def test_sizes_that_grow_find_their_memory():
    addresses = set()
    for n in range(1000, 1040):  # a cache of keys that grows by a token per step
        addresses.add(made((12, n, 64)).data_ptr())
    assert len(addresses) <= 3


def test_what_tensors_can_do():
    x = torch.randn(LARGE)
    f = torch.compile(lambda x: x * 2, backend="tenon")
    y, expected = f(x), x * 2
    file = io.BytesIO()
    torch.save(y, file)
    file.seek(0)
    assert torch.equal(torch.load(file), expected)
    assert torch.equal(y.clone().share_memory_(), expected)
    y.share_memory_()
    assert y.is_shared() and torch.equal(y, expected)
    z = f(x)
    z.set_(z.untyped_storage(), 0, (1000,), (1,))
    assert torch.equal(z, expected.flatten()[:1000])
    z = f(x).resize_(100, 100)
    assert torch.equal(z.flatten(), expected.flatten()[:10000])
    for resize in (lambda: z.resize_(3000, 3000), lambda: z.untyped_storage().resize_(0)):  # documented: the storage cannot change
        with pytest.raises(RuntimeError, match="not resizable"):
            resize()
    with torch.inference_mode():
        assert f(x).is_inference()


def test_gradients():
    x = torch.randn(LARGE, requires_grad=True)
    f = torch.compile(lambda x: torch.tanh(x).square(), backend="tenon")
    for i in range(3):
        x.grad = None
        y = f(x)
        y.sum().backward()
        e = x.detach().requires_grad_()
        torch.tanh(e).square().sum().backward()
        torch.testing.assert_close(x.grad, e.grad)


def test_threads():
    x = [torch.full(LARGE, float(i)) for i in range(4)]
    f = torch.compile(lambda x: x + 1, backend="tenon")
    f(x[0])
    wrong = []

    def work(i):
        for _ in range(100):
            if not f(x[i]).eq(i + 1).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_child_of_a_fork_has_its_own_memory():
    y = made().fill_(1)
    child = os.fork()
    if child == 0:
        z = made()  # few elements at a time: the child has no threads of OpenMP
        z[0].fill_(2)
        y[0].fill_(3)
        os._exit(0 if z[0].eq(2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert y.eq(1).all()


def test_wrong_arguments():
    empty = marshal.chosen.empty
    for arguments, error in (((), TypeError), (((2, 3), (3,), torch.float32), (TypeError, RuntimeError)), ((LARGE, LARGE, 3), (TypeError, RuntimeError)),
                             ((("a",), (1,), torch.float32), TypeError), (((1 << 62,), (1,), torch.float32), RuntimeError),
                             (((1 << 45,), (1,), torch.float32), RuntimeError)):
        with pytest.raises(error):
            empty(*arguments)
    with pytest.raises(TypeError):
        marshal.chosen.module.outputs(empty, 3)

"""Antialiased resizing, and the gradients of all resizing, against eager."""

import contextlib

import pytest
import torch
import torch.nn.functional as F

import direct
import tenon

SIZES = [(5, 9), (40, 31), (17, 9), (17, 23), (4, 4), (3, 60)]


def run(f, *args, dynamic=False, native=True):
    torch._dynamo.reset()
    tenon.reset_stats()
    compiled = torch.compile(f, backend="tenon", fullgraph=True, dynamic=True) if dynamic else lambda x: direct.call(f, [x])
    for x in args:
        with torch.no_grad():
            want, got = f(x), compiled(x)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
        assert got.stride() == want.stride()
    assert bool(tenon.stats()["fallback_reasons"]) != native, tenon.stats()["fallback_reasons"]


def layouts(*shape, dtype=torch.float32):
    yield torch.randn(shape, dtype=dtype)
    yield torch.randn(shape, dtype=dtype).mT.contiguous().mT
    yield torch.randn(shape[0] + 2, *shape[1:3], 2 * shape[3], dtype=dtype)[1:-1, ..., 1::2]
    yield torch.randn(1, 1, *shape[2:], dtype=dtype).expand(shape)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_sizes(mode, corners):
    op = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa")
    for batch, dtype in ((1, torch.float32), (3, torch.float64)):
        for x in layouts(batch, 2, 17, 23, dtype=dtype):
            run(lambda x: op(x, SIZES[0], corners), x)
    x = torch.randn(2, 3, 17, 23)
    for size in SIZES:
        run(lambda x: op(x, size, corners), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("scale", [0.5, 0.3, 1.7, (2.0, 0.75), 0.7])
def test_scales_of_symbolic_sizes(mode, scale):
    f = lambda x: F.interpolate(x, scale_factor=scale, mode=mode, antialias=True)
    run(f, torch.randn(2, 3, 20, 30), torch.randn(3, 1, 12, 18))
    images = [torch.randn(2, 3, 20, 30), torch.randn(3, 1, 40, 8), torch.randn(1, 2, 10, 50)]
    run(f, *images, dynamic=True)


def test_left_to_pytorch():
    f = lambda x: F.interpolate(x, size=(7, 9), mode="bilinear", antialias=True)
    run(f, torch.randint(0, 256, (1, 3, 12, 13), dtype=torch.uint8), native=False)
    run(f, torch.randn(2, 3, 12, 13).contiguous(memory_format=torch.channels_last), native=False)
    run(f, torch.randn(2, 3, 1200, 1300), native=False)  # windows of more than 64 elements
    run(f, torch.randn(2, 3, 12, 13), torch.randn(2, 3, 22, 23), dynamic=True, native=False)
    run(lambda x: F.interpolate(x, size=(24, 9), mode="bicubic", antialias=True), torch.randn(2, 3, 12, 13).double(), native=False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("how", [dict(scale_factor=2.0), dict(scale_factor=0.3), dict(scale_factor=1.7), dict(size=(20, 5)), dict(size=(1, 23))], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
def test_gradients(mode, how, dynamic):
    """The gradient is one operator, not a scatter for each element that is read. Its strides are eager's
    where sizes are known."""
    for corners in (False, True) if "near" not in mode else (None,):
        torch._dynamo.reset()
        tenon.reset_stats()
        f = lambda x: F.interpolate(x.sin(), mode=mode, align_corners=corners, **how)
        compiled = torch.compile(f, backend="tenon", fullgraph=True, dynamic=dynamic)
        for x in (*layouts(2, 3, 13, 10), torch.randn(2, 3, 13, 10).contiguous(memory_format=torch.channels_last)):
            x = x.requires_grad_()
            y = f(x)
            head = torch.randn_like(y)
            (want,), (got,) = (torch.autograd.grad(z, x, head) for z in (y, compiled(x)))
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
            if not dynamic:
                assert got.stride() == want.stride()
        assert not tenon.stats()["fallback_reasons"], tenon.stats()["fallback_reasons"]
        assert "index_put" not in str(tenon.explain(f, torch.randn(2, 3, 13, 10, requires_grad=True)))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_training_of_resized_images_of_any_size(mode, dtype):
    """The gradient of resizing has symbolic sizes, and the batch norm before it is decomposed."""
    norm = torch.nn.BatchNorm2d(4)
    f = lambda x: F.interpolate(norm(F.conv2d(x, w)), scale_factor=1.5, mode=mode)
    compiled, w = torch.compile(f, backend="tenon"), torch.randn(4, 3, 3, 3)
    tenon.reset_stats()
    for shape in ((2, 3, 7, 6), (2, 3, 10, 9), (3, 3, 12, 5)):
        x = torch.randn(shape, requires_grad=True)
        results = []
        for call in (f, compiled):
            with torch.autocast("cpu", dtype) if dtype else contextlib.nullcontext():
                y = call(x)
            results.append((y, *torch.autograd.grad(y.float().pow(3).mean(), [x, *norm.parameters()])))
        (want, *by_eager), (got, *by_tenon) = results
        close = {"rtol": 2e-2, "atol": 2e-2} if dtype else {}
        torch.testing.assert_close(got, want, **close)
        torch.testing.assert_close(by_tenon, by_eager, **close)
    assert not tenon.stats()["fallback_reasons"], tenon.stats()["fallback_reasons"]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "smooth"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_training_of_resized_signals_and_volumes_of_any_size(axes, mode):
    """The gradient of the group norm before the resizing is decomposed."""
    mode = mode if mode != "smooth" else ("linear", "bilinear", "trilinear")[axes - 1]
    norm = torch.nn.GroupNorm(2, 4)
    f = lambda x: F.interpolate(norm(x), scale_factor=(2.0,) * axes, mode=mode)
    compiled = torch.compile(f, backend="tenon")
    tenon.reset_stats()
    for shape in ((2, 4, 3, 4, 5), (2, 4, 5, 3, 6), (3, 4, 4, 5, 3)):
        x = torch.randn(shape[: axes + 2], requires_grad=True)
        want, got = (torch.autograd.grad(call(x).pow(3).mean(), [x, *norm.parameters()]) for call in (f, compiled))
        torch.testing.assert_close(got, want)
    assert not tenon.stats()["fallback_reasons"], tenon.stats()["fallback_reasons"]

"""Dtypes that few operations support (floats of 8 bits), and the dtypes in which long sums are computed."""

import pytest
import torch
import torch.nn.functional as F

import tenon


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_floats_of_8_bits_are_cast_as_pytorch_casts(dtype, wide):
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    ends = torch.tensor([0.0, -0.0, 448, 464, 464.1, 480, 57344, 61439, 61440, 1e30, float("inf"), float("nan"), 1e-40, 2**-10, 2**-17])
    some = torch.randint(-2**31, 2**31 - 1, (50_000,), dtype=torch.int32).view(torch.float32)
    values = torch.cat([every.float(), (every[:-1].float() + every[1:].float()) / 2, ends, -ends, some]).to(wide)

    def both(x, small):
        narrow = x.to(dtype)
        return narrow, narrow.to(wide), small.to(wide), small.float() + 1

    options = {"fallback": "error"}
    with torch.no_grad():
        got = torch.compile(both, backend="tenon", options=options)(values, every)
        want = both(values, every)
    assert got[0].dtype == dtype
    same = got[0].view(torch.uint8) == want[0].view(torch.uint8)
    assert (same | (got[1].isnan() & want[1].isnan())).all()
    for a, b in zip(got[1:], want[1:]):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_what_is_not_computed_in_8_bits_runs_in_pytorch():
    """The library refuses the node; Tenon computes the nodes that read it."""
    x = torch.tensor([1.0, -2.0, float("nan")]).to(torch.float8_e4m3fn)
    f = lambda x: (x.abs().float() + 1, x.float() * 2)  # noqa: E731
    with torch.no_grad():
        got = torch.compile(f, backend="tenon")(x)
    for a, b in zip(got, f(x)):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    s = tenon.stats()
    assert s["programs"] and s["fallbacks"] == 1 and "f8e4m3fn is not computed with" in next(iter(s["fallback_reasons"]))


def test_quantization_to_8_bits_is_fused():
    def quantize(x):
        scale = 448 / x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12)
        return (x.float() * scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale

    x = torch.randn(7, 300, dtype=torch.bfloat16)
    with torch.no_grad():
        fast = torch.compile(quantize, backend="tenon", dynamic=True, options={"fallback": "error"})
        for n in (7, 1, 64):
            (narrow, scale), (want, wanted) = fast(x[:n].contiguous()), quantize(x[:n])
            assert torch.equal(scale, wanted) and torch.equal(narrow.view(torch.uint8), want.view(torch.uint8))
    assert tenon.stats()["kernels_compiled"] == 2  # for rows of any length and for short rows


def test_tensors_of_8_bits_move_and_what_computes_with_them_stays():
    small = torch.randn(6, 8).to(torch.float8_e5m2)

    def moves(x):
        return torch.cat([x.view(torch.uint8), x.t().contiguous().view(torch.uint8).reshape(6, 8)]), x.float().sum(1), x == x

    with torch.no_grad():
        for a, b in zip(torch.compile(moves, backend="tenon")(small), moves(small)):
            assert torch.equal(a, b)


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("fold", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shape, dim", [((1, 100003), 1), ((3, 8191), -1), ((8191, 3), 0)], ids=str)
def test_long_running_folds_keep_their_digits(shape, dim, fold, dynamic):
    """For running sums and products of f32, PyTorch computes in f64."""
    x = 1 + torch.randn(shape, generator=torch.Generator().manual_seed(0)) / 100
    got = torch.compile(lambda x: getattr(x, fold)(dim), backend="tenon", dynamic=dynamic)(x)
    exact = getattr(x.double(), fold)(dim)
    assert ((got.double() - exact) / exact).abs().max() < 2 ** -23
    assert tenon.stats()["fallback_reasons"] == {}


# name -> function of two tensors of 16-bit floats: a sum that a tensor would round, and a reader whose result jumps.
JUMPS = {
    "to integers": lambda x, y: ((x + y).to(torch.int64), (x * y).to(torch.int32)),
    "comparisons": lambda x, y: (x + y > x - y, (x + y).isfinite(), x + y == x + 1.01 * y),
    "floor": lambda x, y: ((x + y).floor(), (x + y).ceil(), (x + y).round(), (x + y).trunc()),
    "remainder": lambda x, y: ((x + y).remainder(y), (x + y).fmod(y)),
    "numbers": lambda x, y: (x + y > 1, x * y == 0.25, (x + y) // 0.25, (x + y) % 1 == 0, (x + y).sigmoid() > 0.5),
    "wide": lambda x, y: (((x + y).float() * 64).floor(), (x + y).double() <= y.double(), (x + y).float().argmax(-1)),
    "bits": lambda x, y: ((x + y).view(torch.int16) if x.dtype == torch.bfloat16 else x, (x + y).float().view(torch.int32)),
    "argmax": lambda x, y: ((x + y).argmax(-1), (x - y).argmin(0)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", JUMPS)
def test_what_jumps_reads_16_bit_floats_as_tensors_hold_them(name, dtype, dynamic):
    f = JUMPS[name]
    g = torch.compile(f, backend="tenon", dynamic=dynamic, options={"fallback": "error"})
    with torch.no_grad():
        for rows in (3, 40):
            x, y = (torch.randn(2, 257, rows, generator=torch.Generator().manual_seed(rows)) * scale for scale in (60, 7))
            for a in (x.to(dtype), x.to(dtype).transpose(0, 1)[3:]):
                b = y.to(dtype)[:, :1].expand(2, 257, rows).transpose(0, 1)[3:] if a.shape[0] != 2 else y.to(dtype)
                for got, want in zip(g(a, b), f(a, b)):
                    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("filters, stays", [(8, True), (7, False)])
def test_convolutions_of_f64_over_many_channels_stay_in_pytorch(filters, stays):
    torch._dynamo.reset()
    tenon.reset_stats()
    layer, x = torch.nn.Conv2d(8, filters, 3).double(), torch.randn(2, 8, 6, 5, dtype=torch.float64, requires_grad=True)
    got, want = (torch.autograd.grad(f(x).sin().sum(), (x, *layer.parameters())) for f in (torch.compile(layer, backend="tenon"), layer))
    torch.testing.assert_close(got, want)
    assert bool(tenon.stats()["fallback_reasons"]) == stays


@pytest.mark.parametrize("size, kernel", [(9, 2), (9, 3), (8, 2)])
def test_gradients_of_strided_convolutions_of_nhwc_images_in_bf16(size, kernel):
    """The windows may leave pixels over. The library would take long in bf16."""
    layer = torch.nn.Conv2d(16, 16, kernel, 2).bfloat16()
    x = torch.randn(2, size, size, 16).bfloat16().requires_grad_()
    f = lambda x: layer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # noqa: E731
    heads = torch.randn_like(f(x))
    compiled = torch.compile(f, backend="tenon", options={"fallback": "error"})
    got, want = (torch.autograd.grad(g(x), (x, *layer.parameters()), heads) for g in (compiled, f))
    torch.testing.assert_close(got, want)


OPS_WITH_NUMBERS = {
    "add": lambda x, n: x + n, "add_alpha": lambda x, n: torch.add(x, x.flip(0), alpha=n), "sub": lambda x, n: x - n,
    "rsub": lambda x, n: n - x, "mul": lambda x, n: x * n, "div": lambda x, n: x / n, "floor_div": lambda x, n: x // n,
    "remainder": lambda x, n: x % n, "fmod": lambda x, n: torch.fmod(x, n), "pow": lambda x, n: x.abs() ** n,
    "eq": lambda x, n: x == n, "le": lambda x, n: x <= n, "hardshrink": lambda x, n: F.hardshrink(x, n),
    "threshold": lambda x, n: F.threshold(x, n, 0.0), "leaky_relu": lambda x, n: F.leaky_relu(x, n),
    "mul_scalar": lambda x, n: x * torch.tensor(n), "sub_scalar": lambda x, n: x - torch.tensor(n)}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPS_WITH_NUMBERS)
def test_numbers_are_rounded_to_16_bits_where_pytorch_rounds_them(name, dtype):
    f = OPS_WITH_NUMBERS[name]
    x = torch.cat([torch.randn(2045), torch.full((3,), 0.3)]).to(dtype)
    assert torch.equal(torch.compile(f, backend="tenon", dynamic=False)(x, 0.3), f(x, 0.3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_slices_of_16_bits_are_added_in_f32(dtype):
    x, index, rows = torch.zeros(4, 33, dtype=dtype), torch.arange(3000) % 2, torch.rand(3000, 33).to(dtype)

    def f(x, index, rows):
        return x.index_add(0, index, rows)

    got, want = torch.compile(f, backend="tenon")(x, index, rows), f(x.double(), index, rows.double())
    assert ((got - want).abs() <= want.abs() * torch.finfo(dtype).eps).all()

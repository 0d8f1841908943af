"""Matrix products of integers, of quantized operands, of 16-bit floats and of groups of rows, and attention with a symbolic scale, against
eager."""

import math

import pytest
import torch
import torch.nn.functional as F

import direct
import tenon


def run(f, *args, dynamic=False, native=True):
    """The results of eager and of Tenon for f. Checks whether Tenon computed all of f, as `native` says."""
    tenon.reset_stats()
    torch._dynamo.reset()
    with torch.no_grad():
        want = f(*args)
        got = torch.compile(f, backend="tenon", fullgraph=True, dynamic=True)(*args) if dynamic else direct.call(f, args)
    assert bool(tenon.stats()["fallback_reasons"]) != native, tenon.stats()["fallback_reasons"]
    for a, b in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
        assert a.dtype == b.dtype and a.shape == b.shape
    return want, got


def integers(*shape, dtype=torch.int8, low=-128):
    return torch.randint(0 if dtype == torch.uint8 else low, 256 if dtype == torch.uint8 else 128, shape, dtype=dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_int_products(dtype, dynamic):
    """Exact in i32, also for sums that f32 cannot represent."""
    for m, k, n in ((5, 7, 3), (33, 1024, 17), (16, 4097, 64), (2, 8191, 5)):
        for low in (-128, 100):
            a, b = integers(m, k, dtype=dtype, low=low), integers(k, n, low=low)
            wide_a, wide_b = integers(m + 2, 2 * k + 3, dtype=dtype, low=low), integers(n, k + 4, low=low)
            for x, y in ((a, b), (a.t().contiguous().t(), b.t().contiguous().t()), (wide_a[1:-1, 2:-1:2], wide_b[:, 3:-1].t()),
                         (a[:1].expand(m, k), b[:, :1].expand(k, n))):
                _, got = run(torch._int_mm, x, y, dynamic=dynamic)
                assert torch.equal(got, (x.double() @ y.double()).to(torch.int32))  # eager rounds those of strided operands to f32


@pytest.mark.parametrize("sizes", [(4, 0, 5), (0, 4, 5), (4, 5, 0)])
def test_int_products_of_nothing(sizes):
    m, k, n = sizes
    want, got = run(lambda a, b: torch._int_mm(a, b) + 1, integers(m, k), integers(k, n))
    assert torch.equal(got, want)


@pytest.mark.parametrize("k", [64, 2000])
def test_int_products_with_scales(k):
    """The ops of a quantized linear layer: a scale for each row and column, a bias, an activation."""
    def f(a, w, rows, columns, bias):
        return torch.relu(torch._int_mm(a, w.t()).to(torch.float32) * rows * columns + bias)

    want, got = run(f, integers(9, k), integers(21, k), torch.rand(9, 1) / k, torch.rand(21), torch.rand(21))
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("shapes", [((1, 64), (64, 32)), ((32, 64), (64, 1))])
def test_int_products_by_a_vector_are_pytorchs(shapes):
    want, got = run(torch._int_mm, integers(*shapes[0]), integers(*shapes[1]), native=False)
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("f", [
    lambda c, a, b: torch.addmm(c, a, b, beta=-4.775, alpha=2.0315),
    lambda c, a, b: torch.baddbmm(c[None], a[None], b[None], beta=-4.775, alpha=2.0315),
    lambda c, a, b: F.linear(a, b, c[0]),
], ids=["addmm", "baddbmm", "linear"])
def test_products_of_16_bits_are_rounded_once(f, dtype):
    """A scale, a bias or another sum that follows rounds the product no second time, as in eager."""
    for n in (6, 16, 64):
        c, a, b = (torch.randn(n, n).to(dtype) for _ in range(3))
        want, got = run(f, c, a, b)
        exact = f(c.double(), a.double(), b.double())
        assert (got - exact).norm() < 1.3 * (want - exact).norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_casts_of_products_round(dtype, wide):
    """A cast that the program writes rounds, also if the kernel that computes the product reads the value again. The products are exact."""
    a, b = (torch.randint(-99, 99, (n, 300)).to(wide) for n in (9, 1))
    for y in (b[0], b.T):
        want, got = run(lambda a, b: (a @ b).to(dtype).to(wide) * 3, a, y)
        assert torch.equal(got, want) and not torch.equal(want, (a @ y) * 3)


def ends(groups, rows, dtype=torch.int32):
    e = torch.randint(0, rows + 1, (groups,)).sort()[0].to(dtype)
    e[-1] = rows
    return e


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_grouped_products(dtype, dynamic):
    pytest.importorskip("transformers.integrations.moe")
    grouped = torch.ops.transformers.grouped_mm_fallback
    for groups, m, k, n in ((4, 37, 24, 16), (3, 100, 7, 9), (8, 5, 16, 8), (1, 12, 8, 8), (5, 3, 1, 1)):
        a, b = torch.randn(m, k).to(dtype), torch.randn(groups, k, n).to(dtype)
        for x, y, e in ((a, b, ends(groups, m)), (a, b.mT.contiguous().mT, ends(groups, m, torch.int64)),
                        (torch.randn(m + 3, 2 * k).to(dtype)[2:-1, ::2], torch.randn(groups * 2, k, n + 5).to(dtype)[1::2, :, 2:-3], ends(2 * groups, m)[1::2]),
                        (a[:1].expand(m, k), b[:1].expand(groups, k, n), ends(groups, m)), (a, b, torch.full((groups,), m)),
                        (a, b, torch.zeros(groups, dtype=torch.int64))):
            want, got = run(grouped, x, y, e, dynamic=dynamic)
            exact, start = torch.zeros(m, n, dtype=torch.float64), 0
            for g, end in enumerate(e.tolist()):
                exact[start:end], start = x[start:end].double() @ y[g].double(), end
            torch.testing.assert_close(got.double(), exact, rtol=2e-2 if dtype != torch.float32 else 1e-5, atol=3e-2 if dtype != torch.float32 else 1e-4)
            assert not got[start:].any()


@pytest.mark.parametrize("shapes", [((0, 8), (3, 8, 8)), ((5, 0), (3, 0, 8)), ((5, 8), (3, 8, 0))])
def test_grouped_products_of_nothing(shapes):
    pytest.importorskip("transformers.integrations.moe")
    a, b = torch.randn(shapes[0]), torch.randn(shapes[1])
    e = torch.tensor([0, a.shape[0], a.shape[0]])
    want, got = run(lambda a, b, e: torch.ops.transformers.grouped_mm_fallback(a, b, e) + 1, a, b, e)
    assert torch.equal(got, want)


def test_grouped_products_of_columns():
    a, b = torch.randn(3, 6, 16).bfloat16(), torch.randn(16, 40).bfloat16()
    want, got = run(lambda a, b, e: torch._grouped_mm(a, b, offs=e), a, b, ends(3, 40))
    torch.testing.assert_close(got, want, rtol=2e-2, atol=3e-2)


def summed(a, e, b):
    """For each group, the transpose of its rows of a times its rows of b, in f64."""
    starts = [0, *e.tolist()]
    return torch.stack([a[i:j].double().T @ b[i:j].double() for i, j in zip(starts, starts[1:])])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 40, 37 * 8])
def test_grouped_sums_of_rows(rows, dynamic):
    a, b, e = torch.randn(rows, 16).bfloat16().T, torch.randn(rows, 24).bfloat16(), ends(6, rows)
    _, got = run(lambda a, b, e: torch._grouped_mm(a, b, offs=e), a, b, e, dynamic=dynamic)
    torch.testing.assert_close(got.double(), summed(a.T, e, b), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_of_grouped_products(dtype):
    pytest.importorskip("transformers.integrations.moe")
    gradients = torch.ops.transformers.grouped_mm_fallback_backward
    for groups, m, k, n in ((4, 37, 24, 16), (3, 100, 7, 9), (8, 5, 16, 8), (1, 12, 8, 8), (5, 3, 1, 1)):
        a, b, dy, e = torch.randn(m, k).to(dtype), torch.randn(groups, k, n).to(dtype), torch.randn(m, n).to(dtype), ends(groups, m)
        for x, d in ((a, dy), (torch.randn(m + 3, 2 * k).to(dtype)[2:-1, ::2], dy.T.contiguous().T), (a[:1].expand(m, k), dy)):
            want, got = run(gradients, x, b, e, d)
            torch.testing.assert_close(got[0], want[0], **({"rtol": 2e-2, "atol": 3e-2} if dtype != torch.float32 else {}))
            torch.testing.assert_close(got[1].double(), summed(x, e, d), rtol=2e-2 if dtype != torch.float32 else 1e-5, atol=3e-2 if dtype != torch.float32 else 1e-4)


def test_infinities_stay_in_their_group():
    a, b, e = torch.randn(8, 40).bfloat16(), torch.randn(40, 8).bfloat16(), torch.tensor([7, 20, 33], dtype=torch.int32)
    a[0, 7], b[20, 1], b[39] = math.inf, math.nan, math.nan
    want, got = run(lambda a, b, e: torch._grouped_mm(a, b, offs=e), a, b, e)
    assert got[0].isfinite().all()
    assert got[1, 1:].isfinite().all() and not got[1, 0].isfinite().any()
    assert got[2, :, [0, *range(2, 8)]].isfinite().all() and got[2, :, 1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [lambda q: q.shape[1] ** -0.5, lambda q: 1 / math.sqrt(q.shape[2] * 2), lambda q: None])
def test_attention_by_a_scale_of_sizes(scale, dtype):
    def f(q, k, mask):
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask, scale=scale(q))

    g = torch.compile(f, backend="tenon", fullgraph=True, dynamic=True)
    torch._dynamo.reset()
    tenon.reset_stats()
    for batch, heads, rows, columns, size in ((2, 3, 5, 7, 8), (1, 4, 9, 3, 16), (3, 2, 4, 4, 12)):
        q, k, mask = torch.randn(batch, heads, rows, size).to(dtype), torch.randn(batch, heads, columns, size).to(dtype), torch.randn(rows, columns).to(dtype)
        with torch.no_grad():
            tolerance = 1e-5 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(g(q, k, mask), f(q, k, mask), rtol=tolerance, atol=tolerance)
    assert tenon.stats()["fallback_reasons"] == {}


@pytest.mark.parametrize("dynamic", [False, True])
def test_linear_layers_quantized_by_export(dynamic):
    """The form that PT2E writes: operands are quantized and dequantized before a linear in f32."""
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    q = torch.ops.quantized_decomposed

    def f(x, w, scales, zeros, bias):
        x = q.quantize_per_tensor(x, 0.05, 3, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor(x, 0.05, 3, 0, 255, torch.uint8)
        y = F.linear(x, q.dequantize_per_channel(w, scales, zeros, 0, -128, 127, torch.int8), bias)
        return q.quantize_per_tensor(y, 2.0, -7, -128, 127, torch.int8), q.quantize_per_channel(x, scales, zeros, 1, -128, 127, torch.int8)

    args = torch.randn(7, 24) * 5, integers(24, 24), torch.rand(24) + 0.1, torch.zeros(24, dtype=torch.int64), torch.randn(24)
    for i in range(2):
        want, got = run(lambda *args: f(*args)[i], *args, dynamic=dynamic)
        assert (want.int() - got.int()).abs().max() <= 1 - i  # the product's sum may round another way


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_products_by_a_matrix_with_gaps(rows, dtype):
    """The strides of the matrix, an input of the graph, have no 1."""
    x, matrix = torch.randn(rows, 64).to(dtype), torch.randn(64, 600).to(dtype)
    wanted = x.double() @ matrix[:, ::2].double()
    for got in (direct.call(lambda x, w: x @ w, [x, matrix[:, ::2]]), direct.call(F.linear, [x, matrix[:, ::2].T])):
        assert (got - wanted).abs().max() <= torch.finfo(dtype).eps * 64

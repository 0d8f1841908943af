"""The gradient of attention on a CPU: values in all dtypes, layouts, masks and sizes against f64; no scores, and no log-sum-exp, are kept."""

import pytest
import torch
import torch.nn.functional as F
from operands import heads
from torch.utils.checkpoint import checkpoint

import tenon
from tenon import report
from tenon.torch.whole.attention import FORWARD, GRADIENT


def attend(causal, mask=None):
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return function


def gradients(function, operands, dy):
    operands = [t.detach().to(dy.dtype).requires_grad_() for t in operands]
    return torch.autograd.grad(function(*operands), operands, dy)


def check(operands, causal=False, mask=None, compiled=None):
    """The gradients have at most twice the error of eager mode's, and its strides."""
    function = attend(causal, mask)
    compiled = compiled or torch.compile(function, backend="tenon")
    q, _, v = operands
    dy = torch.randn(*q.shape[:-1], v.shape[-1], dtype=q.dtype).transpose(1, 2).contiguous().transpose(1, 2)
    exact = gradients(attend(causal, mask.double() if mask is not None and mask.dtype != torch.bool else mask), operands, dy.double())
    got, want = (gradients(f, operands, dy) for f in (compiled, function))
    for g, w, e in zip(got, want, exact):
        assert g.dtype == w.dtype and g.shape == w.shape and g.stride() == w.stride()
        error = lambda t: (t.double() - e).square().mean().sqrt() if t.numel() else torch.tensor(0.0)
        assert error(g) <= 2 * error(w) + 1e-7 * e.abs().amax().nan_to_num() if e.numel() else True, (error(g), error(w))
    s = tenon.stats()
    assert s["fallbacks"] == 0 and s["reference_steps"] == 0, s["fallback_reasons"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", ["first", "last", "sliced", "one", "turned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_layouts_and_dtypes(layout, dtype, causal):
    check([heads(2, 3, 37, 16, layout, dtype) for _ in range(3)], causal)


@pytest.mark.parametrize("batch, count, shared, length, keys, size", [
    (1, 1, 1, 1, 1, 1), (3, 2, 2, 1, 70, 8), (1, 1, 1, 97, 5, 33), (2, 12, 12, 130, 130, 64), (1, 9, 3, 50, 50, 40), (2, 4, 1, 49, 61, 80),
    (1, 2, 2, 300, 1100, 32)])
def test_sizes(batch, count, shared, length, keys, size):
    operands = [heads(batch, count, length, size), heads(batch, shared, keys, size), heads(batch, shared, keys, size, "last")]
    for causal in (False, True):
        check(operands, causal)


@pytest.mark.parametrize("shape", [(2, 3, 19, 23), (2, 1, 1, 23), (1, 1, 19, 23), (19, 23), (1, 3, 19, 1)])
@pytest.mark.parametrize("kind", ["float", "bool", "hidden"])
def test_masks(shape, kind):
    mask = torch.randn(shape) > -0.5 if kind == "bool" else torch.randn(shape)
    if kind == "bool":
        mask[..., 0] = True
    if kind == "hidden":
        mask = mask.masked_fill(mask < -1.5, -torch.inf)
        mask[..., 0] = 0.0
    check([heads(2, 3, n, 8) for n in (19, 23, 23)], mask=mask)


def test_one_program_for_all_sizes():
    compiled = torch.compile(attend(True), backend="tenon", dynamic=True)
    check([heads(2, 2, 40, 16) for _ in range(3)], True, compiled=compiled)
    programs = tenon.stats()["programs"]
    for batch, length in ((3, 7), (2, 200), (5, 48)):
        check([heads(batch, 2, length, 16) for _ in range(3)], True, compiled=compiled)
    assert tenon.stats()["programs"] == programs


def test_neither_scores_nor_their_log_sum_exp_are_kept():
    former, saved = set(report._programs), []
    operands = [heads(2, 3, 2000, 16) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        y = torch.compile(attend(True), backend="tenon")(*operands)
    y.sum().backward()
    assert saved and all(shape == (2, 3, 2000, 16) for shape in saved), saved
    programs = [p for p in report._programs if p not in former]
    assert len(programs) == 2
    for p in programs:
        assert "(attention): attention" in p.explain()
        assert p.stats()["workspace_bytes"] < 2 * 3 * 2000 * 2000 * 4 / 8  # an eighth of the scores


def test_scores_that_are_all_large_lose_nothing():
    """Weights that are the exponentials of scores minus a log-sum-exp have an error of 1e-4 here."""
    q, k, v = (heads(1, 2, 64, 16) for _ in range(3))
    mask = torch.full((64, 64), 3000.0)
    shifted, plain = (gradients(torch.compile(attend(False, m), backend="tenon"), (q, k, v), torch.ones(1, 2, 64, 16)) for m in (mask, None))
    for a, b in zip(shifted, plain):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-3)


def test_the_operator_in_pytorch():
    """Parts of a graph that fall back call it."""
    q, k, v = (heads(2, 3, 11, 8).detach() for _ in range(3))
    dy, mask = torch.randn_like(q), torch.randn(11, 11)
    for arguments in ((dy, q, k, v, None, True, None), (dy, q, k, v, mask, False, 0.5)):
        *_, m, causal, scale = arguments
        y, logsumexp = FORWARD(q, k, v, 0.0, causal, attn_mask=m, scale=scale)
        expected = GRADIENT(dy, q, k, v, y, logsumexp, 0.0, causal, attn_mask=m, scale=scale)
        assert all(map(torch.equal, torch.ops.tenon.attention_gradient(*arguments), expected))
        torch.library.opcheck(torch.ops.tenon.attention_gradient.default, arguments, test_utils=("test_schema", "test_faketensor"))


def test_a_log_sum_exp_that_is_read_is_computed():
    def function(q, k, v):
        y, logsumexp = FORWARD(q, k, v, 0.0, True)
        return y, logsumexp.detach() * 2

    operands = [heads(2, 3, 12, 8) for _ in range(3)]
    (y, logsumexp), (other, expected) = torch.compile(function, backend="tenon")(*operands), function(*operands)
    torch.testing.assert_close((y, logsumexp), (other, expected))
    got, want = (torch.autograd.grad(t.square().sum(), operands) for t in (y, other))
    torch.testing.assert_close(got, want)


def test_a_gradient_that_the_library_refuses_runs_in_pytorch(library):
    library.refuse = ("attention_gradient",)
    operands = [heads(2, 3, 26, 8) for _ in range(3)]
    dy = torch.randn(2, 3, 26, 8)
    got, want = (gradients(f, operands, dy) for f in (torch.compile(attend(True), backend="tenon"), attend(True)))
    torch.testing.assert_close(got, want)
    assert tenon.stats()["fallbacks"] > 0


@pytest.mark.parametrize("length, options", [(41, None), (42, {"memory_budget": 0.3}), (43, {"recompute": "none"}), (44, {"rng": "fast"})], ids=str)
def test_a_checkpointed_region_runs_in_tenon(length, options):
    """PyTorch wraps its own operator there, as one that draws random numbers."""
    def function(q, k, v):
        return checkpoint(attend(True), q.sin(), k, v, use_reentrant=False).cos()

    operands = [heads(2, 3, length, 8) for _ in range(3)]
    dy = torch.randn(2, 3, length, 8)
    got, want = (gradients(f, operands, dy) for f in (torch.compile(function, backend="tenon", options=options), function))
    torch.testing.assert_close(got, want)
    s = tenon.stats()
    assert s["fallbacks"] == 0 and s["programs"] >= 2, s["fallback_reasons"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [None, lambda q: q.shape[2] ** -0.5], ids=["of the head", "of the length"])
def test_scales_that_depend_on_sizes(scale, dtype):
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale and scale(q))

    compiled = torch.compile(function, backend="tenon", dynamic=True)
    for length, size in ((9, 8), (21, 12), (50, 33)):
        operands = [heads(2, 3, length, size, dtype=dtype) for _ in range(3)]
        dy = torch.randn(2, 3, length, size, dtype=dtype)
        tolerance = {} if dtype != torch.bfloat16 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(gradients(compiled, operands, dy), gradients(function, operands, dy), **tolerance)
    assert tenon.stats()["fallbacks"] == 0, tenon.stats()["fallback_reasons"]

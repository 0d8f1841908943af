"""Attention with dropout inside on a CPU: the masks are those of eager mode, no weights are kept, and what the library's step cannot take stays in
PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from operands import heads
from torch.utils.checkpoint import checkpoint

import tenon
from tenon import report
from tenon.torch.whole import attention


def attend(p=0.3, **keywords):
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, **keywords)

    return function


def step(function, operands, seed=5):
    """The result and the gradients of the operands that have one, all for the same random numbers."""
    torch.manual_seed(seed)
    y = function(*operands)
    wanted = [t for t in operands if t.requires_grad]
    dy = torch.linspace(-1, 2, y.numel()).reshape(y.shape).to(y.dtype)
    return y, *torch.autograd.grad(y, wanted, dy), torch.rand(1)


def check(function, operands, compiled=None, tolerance={}, programs=2):
    before = tenon.stats()["programs"]
    got = step(compiled or torch.compile(function, backend="tenon"), operands)
    for g, w in zip(got, step(function, operands), strict=True):
        assert g.dtype == w.dtype and g.stride() == w.stride()
        torch.testing.assert_close(g, w, **tolerance)
    s = tenon.stats()
    assert s["fallbacks"] == 0 and s["reference_steps"] == 0, s["fallback_reasons"]
    assert s["programs"] - before == programs


def attentions(former):
    """The programs since `former` that have the step."""
    return ["with dropout, in blocks of scores" in p.explain() for p in report._programs if p not in former]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", ["first", "last", "sliced", "one", "turned"])
def test_masks_and_values_are_those_of_eager_mode(layout, dtype, causal):
    tolerance = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    check(attend(is_causal=causal), [heads(2, 3, n, 24, layout, dtype) for n in (37, 39, 39)], tolerance=tolerance)


@pytest.mark.parametrize("batch, count, shared, length, keys, size, width", [
    (1, 1, 1, 1, 1, 1, 1), (3, 4, 2, 1, 71, 8, 8), (2, 6, 1, 53, 61, 33, 7), (1, 9, 3, 50, 54, 40, 48), (2, 2, 2, 301, 1100, 16, 16)])
def test_sizes(batch, count, shared, length, keys, size, width):
    check(attend(enable_gqa=shared != count), [heads(batch, count, length, size), heads(batch, shared, keys, size), heads(batch, shared, keys, width)])


@pytest.mark.parametrize("shape", [(2, 3, 21, 27), (2, 1, 1, 27), (21, 27), (1, 3, 21, 1)])
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_added_masks(shape, kind):
    mask = torch.randn(shape) > -0.5 if kind == "bool" else torch.randn(shape)
    check(attend(attn_mask=mask), [heads(2, 3, n, 8) for n in (21, 27, 27)])


def test_a_query_that_sees_nothing():
    mask = torch.ones(22, 28, dtype=torch.bool)
    mask[3] = False
    check(attend(attn_mask=mask), [heads(2, 3, n, 8) for n in (22, 28, 28)])


def test_scale():
    check(attend(scale=0.7), [heads(2, 3, 23, 8) for _ in range(3)])


def test_the_order_of_draws():
    def function(q, k, v):
        q = F.dropout(q, 0.2)
        y = attend(0.1)(q, k, v)
        return F.dropout(attend(0.4, is_causal=True)(y, k, F.dropout(v, 0.5)), 0.25)

    check(function, [heads(2, 3, 29, 8) for _ in range(3)])


def test_sizes_that_change_compile_nothing():
    compiled = torch.compile(attend(is_causal=True), backend="tenon", dynamic=True)
    check(attend(is_causal=True), [heads(5, 2, 41, 13) for _ in range(3)], compiled)
    for batch, length in ((3, 7), (4, 203), (6, 48)):
        check(attend(is_causal=True), [heads(batch, 2, length, 13) for _ in range(3)], compiled, programs=0)


@pytest.mark.parametrize("length, options", [(45, None), (46, {"memory_budget": 0.3}), (47, {"recompute": "none"})], ids=str)
def test_options_and_checkpoints(length, options):
    def function(q, k, v):
        return checkpoint(attend(), q.sin(), k, v, use_reentrant=False).cos()

    operands = [heads(2, 3, length, 8) for _ in range(3)]
    check(function, operands, torch.compile(function, backend="tenon", options=options))
    check(attend(), operands, torch.compile(attend(), backend="tenon", options=options))


def test_numbers_of_tenon():
    """With values that are unit vectors, the result is the weights that dropout kept, so the gradient of the values follows from it."""
    q, k = heads(2, 3, 33, 8), heads(2, 3, 35, 8)
    v = torch.eye(35).expand(2, 3, 35, 35).clone().requires_grad_()
    compiled = torch.compile(attend(0.4), backend="tenon", options={"rng": "fast"})
    y, _, _, dv, _ = step(compiled, (q, k, v))
    kept = y != 0
    assert abs(kept.float().mean() - 0.6) < 0.03
    weights = torch.where(kept, (q @ k.mT * 8**-0.5).softmax(-1) / 0.6, 0)
    torch.testing.assert_close(y, weights)
    dy = torch.linspace(-1, 2, y.numel()).reshape(y.shape)
    torch.testing.assert_close(dv, weights.mT @ dy)
    assert not torch.equal(step(compiled, (q, k, v), seed=6)[0], y)
    assert tenon.stats()["fallbacks"] == 0


def test_without_gradients():
    operands = [heads(2, 3, 34, 8).detach() for _ in range(3)]
    former = set(report._programs)
    compiled = torch.compile(attend(), backend="tenon")
    torch.manual_seed(1)
    y = compiled(*operands)
    torch.manual_seed(1)
    torch.testing.assert_close(y, attend()(*operands))
    assert attentions(former) == [True]


@pytest.mark.parametrize("gradients", [False, True])
def test_autocast(gradients):
    operands = [heads(2, 3, 36 + gradients, 8).detach().requires_grad_(gradients) for _ in range(3)]
    mask = torch.randn(36 + gradients, 36 + gradients)
    function, results = attend(attn_mask=mask), []
    for f in (torch.compile(function, backend="tenon"), function):
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16):
            y = f(*operands)
        results.append((y, *(torch.autograd.grad(y.float().square().sum(), operands) if gradients else ())))
    for g, w in zip(*results, strict=True):
        assert g.dtype == w.dtype
        torch.testing.assert_close(g, w, rtol=3e-2, atol=3e-2)
    assert tenon.stats()["fallbacks"] == 0


def test_no_weights_are_kept():
    former, saved = set(report._programs), []
    operands = [heads(2, 3, 1600, 16) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = torch.compile(attend(), backend="tenon")(*operands)
    y.sum().backward()
    count = 2 * 3 * 1600 * 1600
    assert sorted(t.numel() for t in saved) == [2 * 3 * 1600 * 16] * 3 + [count // 8]
    assert attentions(former) == [True, True]
    for p in report._programs:
        assert p in former or p.stats()["workspace_bytes"] < 2 * count  # the mask, a byte each, but no weights of 4 bytes


@pytest.mark.parametrize("refused, length", [("attention", 30), ("attention_gradient", 31)])
def test_what_the_library_refuses_runs_in_pytorch(library, refused, length):
    library.refuse = (refused,)
    function, operands = attend(enable_gqa=True), [heads(2, 3, 31, 9), heads(2, 1, length, 9), heads(2, 1, length, 14)]
    for g, w in zip(step(torch.compile(function, backend="tenon"), operands), step(function, operands), strict=True):
        torch.testing.assert_close(g, w)
        assert g.stride() == w.stride()
    assert tenon.stats()["fallbacks"] > 0


def test_the_operator():
    for shared, mask in ((3, None), (1, torch.randn(11, 13))):
        operands = [heads(2, n, m, 8).detach().requires_grad_() for n, m in ((3, 11), (shared, 13), (shared, 13))]
        kept = torch.rand(2, 3, 11, 13) < 0.7
        torch.library.opcheck(torch.ops.tenon.attention.default, (*operands, mask, False, None, kept, 0.3),
                              test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))
        gradients = torch.ops.tenon.attention_gradient.default
        torch.library.opcheck(gradients, (torch.randn(2, 3, 11, 8), *(t.detach() for t in operands), mask, False, None, kept, 0.3),
                              test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("case", ["f64", "rank 3", "rank 5", "broadcast", "a gradient of the mask", "all dropped", "nothing dropped", "no queries", "no heads"])
def test_other_calls_stay_with_pytorch(case):
    """PyTorch decomposes them as before, and the results are those of eager mode."""
    operands, p, mask = [heads(2, 3, 32, 8) for _ in range(3)], 0.3, None
    if case == "f64":
        operands = [t.detach().double().requires_grad_() for t in operands]
    elif case == "rank 3":
        operands = [t.detach()[0].requires_grad_() for t in operands]
    elif case == "rank 5":
        operands = [t.detach()[None].requires_grad_() for t in operands]
    elif case == "broadcast":
        operands[1:] = [heads(1, 3, 32, 8), heads(1, 3, 32, 8)]
    elif case == "a gradient of the mask":
        mask = torch.randn(32, 32, requires_grad=True)
    elif case == "no queries":
        operands[0] = heads(2, 3, 0, 8)
    elif case == "no heads":
        operands = [heads(2, 0, 32, 8) for _ in range(3)]
    elif case.endswith("dropped"):
        p = 1.0 if case == "all dropped" else 0.0
    former, operands = set(report._programs), [*operands, *([mask] if mask is not None else [])]
    function = lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask, p, enable_gqa=case == "no heads")
    for g, w in zip(step(torch.compile(function, backend="tenon"), operands), step(function, operands), strict=True):
        assert g.dtype == w.dtype
        torch.testing.assert_close(g, w)
    assert not any(attentions(former))


def test_errors_are_those_of_eager_mode():
    operands = [heads(2, 3, 30, 8) for _ in range(3)]
    for function in (attend(attn_mask=torch.randn(30, 30), is_causal=True), attend(attn_mask=torch.randn(30, 31)), attend(1.5)):
        with pytest.raises(Exception) as eager:
            function(*operands)
        with pytest.raises(type(eager.value)):
            torch.compile(function, backend="tenon")(*operands)


def test_gradients_of_functions():
    """torch.func transforms a decomposed attention."""
    gradient = torch.func.grad(lambda q: attend()(q, q, q).square().sum())
    q = heads(2, 2, 26, 8).detach()
    torch.manual_seed(4)
    got = torch.compile(gradient, backend="tenon")(q)
    torch.manual_seed(4)
    torch.testing.assert_close(got, gradient(q))


def test_a_failure_inside_a_transform_leaves_none_active(monkeypatch):
    def fail(*args, **keywords):
        raise RuntimeError("injected")

    monkeypatch.setattr(attention, "_attention", fail)
    q = heads(2, 2, 25, 8).detach()
    gradient = torch.func.grad(lambda q: attend(0.0)(q, q, q).square().sum())
    torch.testing.assert_close(torch.compile(gradient, backend="tenon")(q), gradient(q), rtol=1e-4, atol=1e-4)


def test_layers_of_pytorch():
    torch.manual_seed(0)
    layer = torch.nn.TransformerDecoderLayer(24, 3, 40, dropout=0.2, batch_first=True)
    x, memory = torch.randn(2, 18, 24, requires_grad=True), torch.randn(2, 25, 24, requires_grad=True)
    former = set(report._programs)
    function = lambda x, memory: layer(x, memory, tgt_is_causal=True, tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(18))
    check(function, [x, memory], tolerance={"rtol": 1e-4, "atol": 1e-5})
    assert attentions(former) == [True, True]

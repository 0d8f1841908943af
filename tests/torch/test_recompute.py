"""Tests check which values the forward pass saves with the options recompute and memory_budget, with PyTorch's own budgets and with
checkpoints, and that explain() lists these values."""

import copy
import unittest.mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import tenon
from tenon.torch import rng


class Block(nn.Module):
    """A transformer's perceptron with norms, dropout and residuals."""

    def __init__(self, width=32):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        for _ in range(2):
            x = x + F.dropout(self.down(F.gelu(self.up(self.norm(x)))), 0.25)
        return x


def saved_bytes(f, model, x):
    """(result, bytes that the forward pass saves without inputs and parameters)."""
    known, kept = {t.untyped_storage().data_ptr() for t in (x, *model.parameters())}, {}

    def pack(t):
        if t.untyped_storage().data_ptr() not in known:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        return f(x), sum(kept.values())


def trained(model, x, options=None, backend="tenon", f=None):
    """(result, gradients, saved bytes)"""
    torch._dynamo.reset()
    model = copy.deepcopy(model)
    torch.manual_seed(3)
    result, size = saved_bytes(torch.compile(f(model) if f else model, backend=backend, options=options) if backend else model, model, x)
    result.square().sum().backward()
    return result.detach(), [p.grad for p in model.parameters()], size


def in_budget(model, budget):
    def f(x):
        with torch.autograd.graph.region_activation_memory_budget(budget):
            return model(x)

    return f


CASES = {"cheap": {}, "none": {"recompute": "none"}, "half": {"memory_budget": 0.5}, "least": {"memory_budget": 0}}


def test_what_is_saved():
    model, x = Block(), torch.randn(4, 16, 32)
    want = trained(model, x, backend=None)
    found = {name: trained(model, x, options) for name, options in CASES.items()}
    for result, gradients, _ in found.values():
        torch.testing.assert_close((result, gradients), want[:2], rtol=2e-4, atol=2e-5)
    size = {name: saved for name, (_, _, saved) in found.items()} | {"eager": want[2]}
    assert size["cheap"] < 0.65 * size["eager"] and size["cheap"] < size["none"] <= size["eager"], size
    assert size["least"] < size["half"] < 0.6 * size["none"] and size["half"] <= size["cheap"], size
    masks = 2 * x.numel() // 8
    assert size["least"] == masks  # random numbers are saved, whatever the budget
    assert tenon.stats()["fallbacks"] == 0


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_fast_masks_are_computed_again(options, checkpointed):
    """With seeds, the forward pass saves no masks, and the gradients are those of saved masks: bit for bit, if nothing else changes."""
    def f(model):
        return (lambda x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)) if checkpointed else model

    model, x = Block(), torch.randn(4, 16, 32)
    again = trained(model, x, {**options, "rng": "fast"}, f=f)
    with unittest.mock.patch.object(rng, "plant_seeded_masks", lambda *_, **__: None):
        saved = trained(model, x, {**options, "rng": "fast"}, f=f)
    if checkpointed:  # `saved` is no reference, because PyTorch's checkpoint draws without Tenon
        ones = torch.ones(64, 64, requires_grad=True)
        y = torch.compile(f(lambda x: F.dropout(x, 0.25)), backend="tenon", options={**options, "rng": "fast"})(ones)
        y.sum().backward()
        assert torch.equal(ones.grad, y.detach()) and 0 < (y == 0).sum() < y.numel()
    else:
        exact = "memory_budget" not in options
        torch.testing.assert_close(again[:2], saved[:2], rtol=0 if exact else 1e-4, atol=0 if exact else 1e-5)
    assert tenon.stats()["fallbacks"] == 0 or checkpointed
    masks, seeds = 2 * x.numel(), 2 * 8
    if checkpointed or options == CASES["least"]:
        assert again[2] == seeds
    elif options == {"recompute": "none"}:
        assert again[2] == saved[2]
    elif options == CASES["cheap"]:
        assert again[2] == saved[2] - masks + seeds
    else:
        assert again[2] < 0.5 * trained(model, x, backend=None)[2]


def test_explain_counts_all_parts_of_one_memory():
    """The queries, keys and values of one product are saved as three tensors; eager mode keeps the product."""
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    x = torch.randn(2, 8, 16)
    report, _ = tenon.explain(model, x).to_dict()["graphs"]
    assert report["saved"]["bytes"] == saved_bytes(torch.compile(model, backend="tenon"), model, x)[1]
    assert report["saved"]["eager_bytes"] == saved_bytes(model, model, x)[1]


def test_batch_norm_saves_less():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    x = torch.randn(2, 3, 16, 16)
    want, got = trained(model, x, backend=None), trained(model, x)
    torch.testing.assert_close(got[:2], want[:2], rtol=2e-4, atol=2e-4)
    assert got[2] < 0.65 * want[2], (got[2], want[2])


@pytest.mark.parametrize("rng", ["torch", "fast"])
@pytest.mark.parametrize("budget", ["option", "config", "region", "aggressive"])
def test_masks_are_not_drawn_again(budget, rng):
    """The gradient of a dropout has the zeros of its result, whatever the budget and its source."""
    def f(x):
        with torch.autograd.graph.region_activation_memory_budget(0.0):
            return F.dropout(x.exp(), 0.5)

    options = {"rng": rng, **({"memory_budget": 0.0} if budget == "option" else {})}
    patch = {"config": {"activation_memory_budget": 0.0}, "aggressive": {"aggressive_recomputation": True}}.get(budget, {})
    x = torch.zeros(64, requires_grad=True)
    with torch._functorch.config.patch(patch):
        y = torch.compile(f if budget == "region" else lambda x: F.dropout(x.exp(), 0.5), backend="tenon", options=options)(x)
        y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert 10 < (y == 0).sum() < 54 and tenon.stats()["fallbacks"] == 0


def test_pytorchs_own_budget_and_checkpoints_come_first():
    model, x = Block(), torch.randn(4, 16, 32)

    def checkpointed(model):
        return lambda x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

    by_option = trained(model, x, {"memory_budget": 0.0})[2]
    with torch._functorch.config.patch(activation_memory_budget=0.0):
        assert trained(model, x, {"memory_budget": 0.9})[2] == trained(model, x, {"recompute": "none"})[2] == by_option
    for inner, outer in ((0.0, 0.9), (0.9, 0.0)):
        in_region, options = trained(model, x, {"memory_budget": outer}, f=lambda model: in_budget(model, inner)), {"memory_budget": inner}
        assert in_region[2] == trained(model, x, options)[2] != trained(model, x, {"memory_budget": outer})[2]
    assert trained(model, x, {"recompute": "none"}, f=checkpointed)[2] <= 2 * x.numel() // 8  # masks only
    want, got = trained(model, x, backend=None), trained(model, x, f=checkpointed)
    torch.testing.assert_close(got[:2], want[:2], rtol=2e-4, atol=2e-5)


def test_a_checkpoint_inside_a_model_keeps_its_tags():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x):
            x = self.norm(self.a(x))
            x = torch.utils.checkpoint.checkpoint(lambda x: self.b(F.dropout(x.sin(), 0.5)).cos(), x, use_reentrant=False)
            return self.norm(x)

    model, x = Net().double(), torch.randn(5, 8).double()
    torch.testing.assert_close(trained(model, x)[:2], trained(model, x, backend=None)[:2])


@pytest.mark.parametrize("drops", [lambda: nn.Dropout2d(0.5), lambda: nn.AlphaDropout(0.5), lambda: nn.Sequential(nn.BatchNorm2d(4), nn.Dropout2d(0.5))],
                         ids=["channels", "alpha", "behind a norm"])
def test_a_checkpoint_repeats_what_pytorch_draws(drops):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(4, 4, 3), drops(), nn.Conv2d(4, 2, 1))
    x = torch.randn(2, 4, 7, 6)

    def f(model):
        return lambda x: checkpoint(model, x, use_reentrant=False)

    torch.testing.assert_close(trained(model, x, f=f)[:2], trained(model, x, backend=None)[:2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d((3, 2), (2, 1), (1, 0), dilation=(2, 3), ceil_mode=True),
                                  nn.MaxPool2d([2]), nn.MaxPool2d([3], [2], [1], [2]), nn.MaxPool2d(17), nn.MaxPool2d((17,)), nn.MaxPool3d(3, 2, 1),
                                  nn.MaxPool3d([2]), nn.MaxPool2d(3, 1, return_indices=True)], ids=str)
def test_places_of_max_pooling_are_saved_as_bytes(pool, dynamic):
    torch._dynamo.reset()
    f = torch.compile(lambda x: pool(x.sin()), backend="tenon", dynamic=dynamic)
    for size in (35, 36) if dynamic else (35,):
        x, kept, results = torch.randn(2, 3, size, *[size - 1] * (2 if isinstance(pool, nn.MaxPool3d) else 1)), {}, []
        x[0, 0, 1, 1], x[:, 1] = float("nan"), 0.5  # equal elements: the first counts
        for g in (f, lambda x: pool(x.sin())):
            x = x.detach().requires_grad_()
            with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.setdefault(g, []).append(t), t)[1], lambda t: t):
                y = g(x)
            (y[0] if isinstance(y, tuple) else y).square().sum().backward()
            results.append((y, x.grad))
        torch.testing.assert_close(*results, equal_nan=True)
        dtypes = {t.dtype for t in kept[f] if t.numel() > 3}
        assert (torch.uint8 in dtypes, torch.int64 in dtypes) == ((False, True) if pool.kernel_size in (17, (17,)) else (True, False))
    assert tenon.stats()["fallbacks"] == 0


@pytest.mark.parametrize("rng", ["torch", "fast"])
def test_only_the_selection_runs_in_pytorch_where_sizes_depend_on_values(rng):
    def pooled(x):
        return F.max_pool2d(x[x[:, 0] > 0].sin().unsqueeze(0), 2)

    def dropped(x):
        return F.dropout(x[x > 0].exp(), 0.5)

    x = torch.randn(19, 8, requires_grad=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for f in (pooled, dropped):
            y, x.grad = torch.compile(f, backend="tenon", fullgraph=True, options={"rng": rng})(x), None
            y.sum().backward()
            if f is pooled:
                torch.testing.assert_close((y, x.grad), (f(x), torch.autograd.grad(f(x).sum(), x)[0]))
            else:
                torch.testing.assert_close(x.grad[x > 0], y.detach())
                assert 0 < (y == 0).sum() < len(y)
    reasons = set(tenon.stats()["fallback_reasons"])
    assert "indexing by a mask: the size of the result depends on values" in reasons and not any("AOTAutograd" in why for why in reasons), reasons


def test_equal_selections_keep_the_symbols_of_their_sizes():
    def f(x, i):
        return x[i[i != 3]].sum() + x[i[i != 3]].sin().sum()

    x, i = torch.randn(5, 4, requires_grad=True), torch.randint(0, 5, (9,))
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got = torch.compile(f, backend="tenon")(x, i)
    torch.testing.assert_close((got, *torch.autograd.grad(got, x)), (f(x, i), *torch.autograd.grad(f(x, i), x)))


def test_explain_tells_what_is_saved():
    model, x = Block(), torch.randn(4, 16, 32)
    sizes = {name: trained(model, x, options)[2] for name, options in CASES.items()}
    eager = trained(model, x, backend=None)[2]
    for name, options in CASES.items():
        report = tenon.explain(copy.deepcopy(model), x, tenon_options=options)
        forward, backward = report.to_dict()["graphs"]
        saved = forward["saved"]
        assert saved["bytes"] == sizes[name] and saved["eager_bytes"] == eager
        assert sum(row["bytes"] for row in saved["values"]) == saved["bytes"] and sum(row["bytes"] for row in saved["eager_values"]) == eager
        assert backward["name"] == forward["name"] + "_backward" and backward["programs"] and backward["saved"] is None
        text = str(report)
        assert f"  saves {sizes[name]} bytes for the backward pass; eager mode saves {eager} bytes\n" in text
        assert "    512 bytes in 2 of u8[256]: draw_bits\n" in text
        assert "  eager mode saves 65536 bytes in 2 of f32[4, 16, 128]: linear\n" in text
        again = {(row["op"], row["why"]) for row in saved["computed_again"]}
        assert ("gelu.default", {"half": "the memory budget", "least": "the memory budget"}.get(name, "cheap")) in again or name == "none"
        assert (("native_layer_norm.default", "cheap") in again) == (name == "cheap")
        assert (("addmm.default", "the memory budget") in again) == (name in ("half", "least"))
    assert "computes again" not in str(tenon.explain(copy.deepcopy(model), x, tenon_options={"recompute": "none"}))


@pytest.mark.parametrize("why, options", [("cheap", {}), ("the memory budget", {"memory_budget": 0.0}), ("checkpointed", {})])
def test_explain_tells_why_masks_are_computed_again(why, options):
    def f(x):
        block = lambda x: F.dropout(x.sin(), 0.5).cos()
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if why == "checkpointed" else block(x)

    report = tenon.explain(f, torch.randn(40, requires_grad=True), tenon_options={"rng": "fast", **options})
    again = {row["op"]: row["why"] for row in report.to_dict()["graphs"][0]["saved"]["computed_again"]}
    assert again["dropout_mask.default"] == why


def test_explain_keeps_state_and_names_checkpoints_and_fallbacks():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(lambda x: torch.linalg.inv(self.a(x).sin() + 4 * torch.eye(4)).exp(), self.norm(x), use_reentrant=False)

    model, x = Net(), torch.randn(4, 4)
    report = tenon.explain(model, x)
    forward, backward = report.to_dict()["graphs"]
    assert model.norm.num_batches_tracked == 1 and all(p.grad is None for p in model.parameters())
    assert {"op": "sin.default", "type": "f32[4, 4]", "count": 1, "bytes": 64, "why": "checkpointed"} in forward["saved"]["computed_again"]
    assert any("linalg" in f["op"] for f in forward["fallbacks"]) and any("linalg" in f["op"] for f in backward["fallbacks"])
    report.result.sum().backward()
    assert model.a.weight.grad is not None


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("largest", [
    lambda z: z.amax(1),
    lambda z: z.flatten(1).amin(1),
    lambda z: z.max(),
    lambda z: torch.linalg.vector_norm(z, float("inf"), 1),
    lambda z: torch.where(z >= z.detach().topk(3, 1).values[:, 2:], z, 0)])
def test_values_that_are_compared_with_their_extremes_are_saved(largest, options):
    """A 16-bit factor is rounded where a tensor is stored. Computed again without this rounding, no element would equal the maximum."""
    def f(x, s):
        return largest(x * torch.sigmoid(s))

    grads = []
    for g in (f, torch.compile(f, backend="tenon", options=options)):
        torch.manual_seed(0)
        x = 1.1 ** torch.rand(3, 64, 48).argsort(1)  # far enough from each other that roundings change no order
        x, s = x.requires_grad_(), torch.full((3, 64, 1), 1.1).bfloat16().requires_grad_()
        g(x, s).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-2, atol=1e-2)
    assert torch.equal(grads[1] != 0, grads[0] != 0)
    assert tenon.stats()["fallbacks"] == 0

"""Random numbers with the default options={"rng": "torch"}: graphs draw the numbers of eager mode, in its order, without cutting segments."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import tenon


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    tenon.reset_stats()


def drawn(f, x, gradients=True):
    """(result, gradient, state of the generator behind both)"""
    x = x.detach().clone().requires_grad_(gradients)
    torch.manual_seed(7)
    y = f(x)
    if gradients:
        y.square().sum().backward()
    return y.detach(), x.grad, torch.get_rng_state()


def same(f, x, gradients=True, **keywords):
    """Checks that the compiled function draws as f does. Returns the statistics."""
    want, got = drawn(f, x, gradients), drawn(torch.compile(f, backend="tenon", **keywords), x, gradients)
    torch.testing.assert_close(got[:2] if gradients else got[0], want[:2] if gradients else want[0], rtol=1e-4, atol=1e-5)
    assert torch.equal(got[2], want[2])
    return tenon.stats()


def drop_path(x):
    kept = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(0.8)
    return x * kept.div_(0.8)


def stochastic_depth(x):
    return x / 0.8 * (0.8 + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype)).floor_()


EARLY = {
    "drop_path": lambda x: F.dropout(drop_path(F.dropout(x, 0.1).tanh()), 0.3) + stochastic_depth(x.exp()),
    "dropout2d": lambda x: F.dropout(F.dropout2d(x.cos(), 0.3) + x, 0.2),
    "alpha_dropout": lambda x: F.dropout(F.alpha_dropout(x.tanh(), 0.3, True), 0.2) * F.feature_alpha_dropout(x, 0.3, True),
    "numbers_like": lambda x: x.sin() * torch.randn_like(x) + F.dropout(x, 0.2) * torch.rand_like(x) + torch.randint_like(x, 3, 8),
    "numbers": lambda x: x.sin() * torch.randn(x.shape) + F.dropout(x, 0.5) + torch.randint(0, 5, x.shape) + torch.randint(7, (3, 1, 1, 1)),
    "normal": lambda x: x.sin() * torch.normal(0.5, 2.0, x.shape) + torch.empty_like(x).normal_(0.1, 3.0) + F.dropout(x, 0.5),
    "in_place": lambda x: torch.empty_like(x).uniform_(-1, 2) * x.sin() + torch.empty_like(x).exponential_(lambd=2.0) + F.dropout(x, 0.5),
    "f64": lambda x: x.sin() * torch.rand_like(x, dtype=torch.float64).float() + F.dropout(x, 0.5),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", EARLY)
def test_draws_that_read_no_data_cut_no_segment(kind, dynamic):
    x = torch.randn(3, 4, 5, 6)
    for gradients in (False, True):
        tenon.reset_stats()
        stats = same(EARLY[kind], x, gradients, dynamic=dynamic)
        assert stats["fallback_reasons"] == {} and stats["calls"] == (2 if gradients else 1), stats


def test_draws_without_a_generator():
    def f(x):
        return (x.sin() * torch.randn(x.shape, generator=None) + torch.rand(x.shape, generator=None)
                + torch.randint(5, x.shape, generator=None) + torch.randint(2, 5, x.shape, generator=None))

    for gradients in (False, True):
        assert same(f, torch.randn(3, 4), gradients)["fallback_reasons"] == {}
    tenon.reset_stats()
    torch.compile(f, backend="tenon", options={"rng": "fast", "fallback": "error"})(torch.randn(3, 4))


@pytest.mark.parametrize("kind", ["drop_path", "numbers_like", "in_place"])
def test_operands_in_another_layout(kind):
    """The elements of a channels-last tensor are drawn in the order of memory."""
    same(EARLY[kind], torch.randn(3, 4, 5, 6).contiguous(memory_format=torch.channels_last))


def test_a_draw_that_reads_data_keeps_later_ones_behind_it():
    stats = same(lambda x: x.exp() * torch.rand_like(x) + torch.bernoulli(x.sigmoid().detach()) + F.dropout(x, 0.5) + torch.randn_like(x), torch.randn(4, 5))
    assert sorted(r.split()[0] for r in stats["fallback_reasons"]) == ["aten.bernoulli.default", "aten.native_dropout.default", "aten.randn_like.default"]


@pytest.mark.parametrize("f", [lambda x: torch.rand_like(torch.randn_like(x)), lambda x: torch.rand_like(torch.randn_like(x).exp()),
                               lambda x: torch.rand_like(F.dropout(x, 0.5)), lambda x: torch.rand_like(torch.randn_like(x)) + torch.rand_like(x.cos())])
def test_draws_for_drawn_tensors(f):
    """Numbers that nobody reads are drawn too: the later ones follow them."""
    same(lambda x: x.sin() + f(x) * torch.rand_like(x.exp()) + F.dropout(x, 0.2), torch.randn(4, 5))


def test_draws_for_a_result_of_a_dropout():
    def f(x):
        h = F.dropout(x.sin(), 0.5)
        return h + torch.randn_like(h)

    assert same(f, torch.randn(4, 5))["fallback_reasons"] == {}


@pytest.mark.parametrize("dynamic", [None, True])
def test_few_numbers_of_a_checkpoint_are_saved(dynamic):
    stats = same(lambda x: checkpoint(EARLY["dropout2d"], x, use_reentrant=False), torch.randn(3, 4, 5, 6), dynamic=dynamic)
    assert stats["fallback_reasons"] == {}


def test_many_numbers_of_a_checkpoint_are_drawn_again():
    stats = same(lambda x: checkpoint(lambda x: (x.sin() * torch.randn_like(x)).cos(), x, use_reentrant=False), torch.randn(1 << 16, 2))
    assert any("run_with_rng_state" in r for r in stats["fallback_reasons"])


EQUAL = {
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 9),
    "uniform": lambda x: torch.empty_like(x).uniform_(),
    "normal": lambda x: torch.empty_like(x).normal_(),
    "exponential": lambda x: torch.empty_like(x).exponential_(),
    "cauchy": lambda x: torch.empty_like(x).cauchy_().atan(),
    "bernoulli": lambda x: torch.empty_like(x).bernoulli_(0.5),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": F.gumbel_softmax,
}


@pytest.mark.parametrize("draw", EQUAL)
def test_equal_draws_stay_apart(draw):
    """PyTorch's min-cut merges equal calls of most operators that draw."""
    same(lambda x: x.exp() + EQUAL[draw](x) + 3 * EQUAL[draw](x), torch.linspace(-2, 2, 40).reshape(5, 8))


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like, EQUAL["uniform"]])
def test_equal_draws_of_tenon_stay_apart(draw):
    x = torch.randn(40, requires_grad=True)
    y, first, second = torch.compile(lambda x: (x.exp(), draw(x), draw(x)), backend="tenon", options={"rng": "fast"})(x)
    assert y.requires_grad and not (first == second).any()


def windows_of(x):
    whole = F.pad(x, (0, 0, 0, 6 - x.shape[1] % 6))
    return whole.view(x.shape[0], -1, 6, x.shape[2]).tanh()


def stretched(x):
    return F.interpolate(x * 2, scale_factor=1.5).tanh()


@pytest.mark.parametrize("rng", ["torch", "fast"])
@pytest.mark.parametrize("shape, fallbacks", [(windows_of, 0), (stretched, 1)])
def test_sizes_that_no_nodes_compute(shape, fallbacks, rng):
    """The strides of windows_of() hold maxima of products, the sizes of stretched() a product with a float. PyTorch draws the mask of the latter
    in its place; all else runs in Tenon."""
    f = torch.compile(lambda x: F.dropout(shape(x), 0.2) * 3, backend="tenon", dynamic=True, options={"rng": rng})
    for size in ((2, 20, 8), (3, 33, 5)):
        x = torch.randn(size)
        y, grad, _ = drawn(f, x)
        kept = y != 0
        want = x.clone().requires_grad_()
        z = shape(want) * kept / 0.8 * 3
        z.square().sum().backward()
        torch.testing.assert_close((y, grad), (z.detach(), want.grad), rtol=1e-4, atol=1e-5)
        assert 0.1 < (~kept)[shape(x) != 0].float().mean() < 0.3
        if rng == "torch":
            torch.testing.assert_close(y, drawn(lambda x: F.dropout(shape(x), 0.2) * 3, x)[0])
    assert sum(tenon.stats()["fallback_reasons"].values()) == (fallbacks if rng == "torch" else 0)


def test_places_of_a_pooling_whose_size_no_nodes_compute():
    f = lambda x: F.max_pool2d(F.interpolate(x * 2, scale_factor=1.5), 3, 2)
    same(f, torch.randn(2, 3, 12, 14), dynamic=True)
    assert not tenon.stats()["fallback_reasons"]

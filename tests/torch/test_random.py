"""options={"rng": "fast"}: Tenon's kernels draw random numbers. Tests the numbers and seeds, 16-bit floats, symbolic sizes, frozen and
saved functions, and that PyTorch draws where Tenon does not."""

import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import tenon

aten = torch.ops.aten
FAST = {"rng": "fast"}
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def fast(f, **options):
    return torch.compile(f, backend="tenon", fullgraph=True, dynamic=options.pop("dynamic", None), options={**FAST, **options})


def words(seed, count):
    """A reference of random_bits (docs/ops.md), number by number."""
    numbers, low = [], 0xFFFFFFFF
    for place in range(count):
        x, y, key = place >> 1 & low, (place >> 1 ^ seed) >> 32 & low, seed & low
        for _ in range(10):
            product = x * 0xD256D193
            x, y, key = product >> 32 ^ key ^ y, product & low, key + 0x9E3779B9 & low
        numbers.append(y if place & 1 else x)
    return torch.tensor(numbers, dtype=torch.int64)


def uniform(seed, count):
    """A reference of random_uniform (docs/ops.md)."""
    return (words(seed, count) >> 8) / 2**24


def seeds(manual_seed, count):
    torch.manual_seed(manual_seed)
    return torch.randint(-2**63, 2**63 - 1, [count]).tolist()


def about(mask, q):
    """Whether the share of set elements is within five standard deviations."""
    return abs(mask.sum().item() - mask.numel() * q) <= 5 * math.sqrt(mask.numel() * q * (1 - q))


@torch.no_grad()
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout(dtype, p):
    x = torch.randn(128, 257).to(dtype)
    x[0, :4] = torch.tensor([math.inf, -math.inf, math.nan, -0.0])
    y, mask = fast(lambda x: aten.native_dropout(x, p, True))(x)
    assert mask.dtype == torch.bool and mask.shape == x.shape and y.dtype == dtype
    assert about(mask, 1 - p)
    torch.testing.assert_close(y, (x * mask).mul(1 / (1 - p)), rtol=0, atol=0, equal_nan=True)  # as PyTorch has it
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_the_numbers_are_those_of_the_seeds():
    def f(x):
        return F.dropout(x, 0.25), torch.rand_like(x), torch.rand(7), torch.bernoulli(x, 0.75), F.dropout(x, 0.5)

    x = torch.ones(6, 5)
    a, b, c, d, e = seeds(3, 5)
    torch.manual_seed(3)
    got = fast(f)(x)
    expected = [(uniform(a, 30) < 0.75) / 0.75, uniform(b, 30), uniform(c, 7), uniform(d, 30) < 0.75, (uniform(e, 30) < 0.5) * 2]
    for g, want in zip(got, expected, strict=True):
        torch.testing.assert_close(g.flatten(), want.float())
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_other_distributions_are_functions_of_uniform_numbers():
    def f(x, like):
        new = lambda: torch.empty(6, 5)
        return (torch.randn(30), torch.randn_like(x), new().normal_(2, 3), torch.normal(0.5, 2.0, (6, 5)), torch.normal(x, 0.25), torch.normal(x, x),
                torch.normal(2.0, x), new().uniform_(-1, 3), new().exponential_(0.5), new().log_normal_(0.5, 0.25), new().cauchy_(1, 2), new().geometric_(0.3),
                torch.randn_like(like))

    normal = torch.special.ndtri
    x = torch.rand(6, 5) + 0.5
    expected = [normal, lambda v: normal(v).view(6, 5), lambda v: normal(v) * 3 + 2, lambda v: normal(v) * 2 + 0.5, lambda v: normal(v) / 4 + x.flatten(),
                lambda v: (normal(v) + 1) * x.flatten(), lambda v: normal(v) * x.flatten() + 2, lambda v: v * 4 - 1, lambda v: v.log() * -2,
                lambda v: (normal(v) / 4 + 0.5).exp(), lambda v: (math.pi * (v - 0.5)).tan() * 2 + 1, lambda v: (v.log() / math.log(0.7)).ceil(), normal]
    numbers = seeds(5, len(expected))
    torch.manual_seed(5)
    like = torch.empty(6, 5, dtype=torch.bfloat16)
    got = fast(f)(x, like)
    for g, seed, want in zip(got, numbers, expected, strict=True):
        slack = {"rtol": 1e-2, "atol": 1e-2} if g.dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(g.flatten().double(), want(uniform(seed, 30).double() + 2**-25).flatten(), **slack)
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_integers_are_functions_of_random_words():
    def f(x, i):
        return (torch.randint(10, (6, 5)), torch.randint(-3, 4, (30,), dtype=torch.int32), torch.randint_like(x, 2), torch.randint_like(i, 1, 1 << 31),
                torch.bernoulli(x), torch.empty(6, 5).bernoulli_(x))

    x, i = torch.rand(6, 5), torch.zeros(6, 5, dtype=torch.int64)
    ranges = [(0, 10), (-3, 4), (0, 2), (1, 1 << 31)]
    numbers = seeds(5, len(ranges) + 2)
    torch.manual_seed(5)
    got = fast(f)(x, i)
    for g, seed, (low, high) in zip(got, numbers, ranges):
        assert torch.equal(g.flatten().long(), (words(seed, 30) * (high - low) >> 32) + low)
    for g, seed in zip(got[-2:], numbers[-2:]):
        assert torch.equal(g.flatten(), (uniform(seed, 30) < x.flatten()).float())
    assert [g.dtype for g in got[:4]] == [torch.int64, torch.int32, torch.float32, torch.int64] and tenon.stats()["fallbacks"] == 0
    large = lambda: torch.randint(-2**62, 2**62, (4,))
    fast(large)()
    assert list(tenon.stats()["fallback_reasons"]) == ["random integers of a range that is symbolic or larger than 2^31"]


@torch.no_grad()
@pytest.mark.parametrize("dtype", FLOATS)
def test_rrelu(dtype):
    x = torch.randn(64, 65).to(dtype)
    seed, = seeds(5, 1)
    torch.manual_seed(5)
    got = fast(lambda x: F.rrelu(x, 0.25, 0.75, training=True))(x)
    if dtype != torch.float64:
        share = (uniform(seed, x.numel()).view(x.shape) / 2 + 0.25).to(dtype)
        torch.testing.assert_close(got, torch.where(x <= 0, x * share, x))
        assert tenon.stats()["fallbacks"] == 0
    tenon.reset_stats()
    torch.testing.assert_close(torch.compile(lambda x: F.rrelu(x, 0.25, 0.75), backend="tenon")(x), F.rrelu(x, 0.25, 0.75))
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_distributions_have_their_means_and_ends():
    n = 1 << 20
    for draw, mean, deviation in ((lambda x: torch.randn_like(x), 0, 1), (lambda x: x.clone().exponential_(2.0), 0.5, 0.5),
                                  (lambda x: x.clone().uniform_(2, 5), 3.5, 3 / 12**0.5), (lambda x: x.clone().geometric_(0.25), 4, 12**0.5)):
        y = fast(draw)(torch.empty(n))
        assert y.isfinite().all() and abs(y.mean().item() - mean) < 6 * deviation / n**0.5 and abs(y.std().item() / deviation - 1) < 0.02
    y = fast(lambda x: x.clone().uniform_(2, 5))(torch.empty(n))
    assert y.min() >= 2 and y.max() < 5
    assert fast(lambda x: torch.randn_like(x))(torch.empty(5, dtype=torch.float64)).dtype == torch.float64     # PyTorch's
    assert list(tenon.stats()["fallback_reasons"]) == ["random numbers of f64"]


@torch.no_grad()
def test_bias_dropout_and_residual_are_one_kernel(library):
    def f(x, b, r):
        return F.layer_norm(F.dropout(x + b, 0.1) + r, (48,))

    x, b, r = torch.randn(4, 9, 48), torch.randn(48), torch.randn(4, 9, 48)
    g = fast(f)
    torch.manual_seed(1)
    y = g(x, b, r)
    kept = (uniform(*seeds(1, 1), x.numel()) < 1 - 0.1).reshape(x.shape)
    torch.testing.assert_close(y, F.layer_norm((x + b) * kept / (1 - 0.1) + r, (48,)), rtol=1e-4, atol=1e-4)
    s = tenon.stats()
    assert len(library.texts) == 1 and s["kernels_compiled"] == 1 and s["fallbacks"] == 0


@torch.no_grad()
def test_manual_seed_reproduces_and_calls_differ():
    g, x = fast(lambda x: (F.dropout(x, 0.5), F.dropout(x, 0.5))), torch.ones(1000)
    torch.manual_seed(7)
    first, second = g(x), g(x)
    torch.manual_seed(7)
    again = g(x)
    assert all(map(torch.equal, first, again))
    masks = [y != 0 for y in (*first, *second)]
    for i, a in enumerate(masks):
        for b in masks[:i]:
            assert about(a == b, 0.5)  # as those of two independent coins


@torch.no_grad()
def test_sizes_that_change(library):
    g = fast(lambda x: F.dropout(x * 2, 0.3), dynamic=True)
    for shape in ((4, 8), (3, 5), (40, 33), (9, 2)):
        n = math.prod(shape)
        expected = (uniform(*seeds(n, 1), n) < 0.7).reshape(shape) * (1 / 0.7) * 2
        torch.manual_seed(n)
        torch.testing.assert_close(g(torch.ones(shape)), expected)
    assert len(library.texts) == 1


@torch.no_grad()
def test_what_draws_nothing():
    def f(x):
        return (F.dropout(x, 0.5, False), F.dropout(x, 0.0), F.dropout(x, 1.0), *aten.native_dropout(x, 0.5, False),
                *aten.native_dropout(x, 0.0, True), *aten.native_dropout(x, 1.0, True), torch.bernoulli(x, 1.0), torch.bernoulli(x, 0.0))

    x = torch.randn(5, 6)
    for got, want in zip(fast(f)(x), f(x), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3, 4, 5)])
def test_shapes(shape):
    y = fast(lambda x: F.dropout(x, 0.5))(torch.ones(shape))
    assert y.shape == shape and set(y.flatten().tolist()) <= {0.0, 2.0}
    x = torch.ones(4, 3, 16, 16).contiguous(memory_format=torch.channels_last)
    y = fast(lambda x: F.dropout2d(x, 0.5))(x)  # whole channels
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert all(set(c.flatten().tolist()) in ({0.0}, {2.0}) for image in y for c in image)
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_pytorch_draws_what_the_library_refuses(library):
    library.refuse = ("random_uniform",)
    x = torch.ones(300, 300)
    y = fast(lambda x: F.dropout(x + 1, 0.25).exp())(x)
    assert about(y != 1, 0.75) and tenon.stats()["fallbacks"] >= 1
    torch._dynamo.reset()
    torch.manual_seed(2)
    y = fast(lambda x: F.dropout(x, 0.25))(x)  # nobody reads a seed, so none is drawn
    torch.manual_seed(2)
    assert torch.equal(y, aten.native_dropout(x, 0.25, True)[0])


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("shape", [(7, 11), (2, 3, 4, 5), (0, 3), (1,), (64, 65)])
def test_masks_of_a_training_step_are_those_of_their_seeds(library, refused, shape):
    """A mask is the same function of its seed in Tenon and in PyTorch, whatever PyTorch's default dtype is."""
    library.refuse = ("random_uniform",) if refused else ()
    x = torch.ones(shape, requires_grad=True)
    images = x.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else x
    torch.manual_seed(6)
    p = 0.125 if refused else 0.25  # another p, because otherwise the library would reuse the program of the other case, which has nothing refused
    torch.set_default_dtype(torch.bfloat16)
    try:
        y = fast(lambda x: F.dropout(F.dropout(x, p) + 1, 0.5))(images)
        y.sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    a, b = ((uniform(seed, x.numel()) < q).view(shape) for seed, q in zip(seeds(6, 2), (1 - p, 0.5)))
    torch.testing.assert_close(y, (a / (1 - p) + 1) * b * 2)
    torch.testing.assert_close(x.grad, a / (1 - p) * b * 2)
    assert bool(tenon.stats()["fallbacks"]) == refused


@torch.no_grad()
def test_halves_and_integers_that_pytorch_draws():
    y = fast(lambda x: torch.rand_like(x))(torch.ones(1000, dtype=torch.bfloat16))
    assert 0 <= y.min() and y.max() < 1  # rounded to 8 bits, 24 would reach 1
    y = fast(lambda x: torch.bernoulli(x, 0.5))(torch.ones(1000, dtype=torch.int64))
    assert y.dtype == torch.int64 and about(y, 0.5)


@torch.no_grad()
def test_frozen():
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Dropout(0.5), torch.nn.ReLU())
    model[0].bias.fill_(10)  # no zeros but dropped ones
    g, x = fast(model, freeze=True), torch.randn(20, 32)
    torch.manual_seed(4)
    first, second = g(x), g(x)
    torch.manual_seed(4)
    assert torch.equal(g(x), first) and about((first != 0) == (second != 0), 0.5)
    torch.testing.assert_close(first, torch.relu(model[0](x)) * (first != 0) * 2)
    model[0].bias.add_(1)
    y = g(x)
    torch.testing.assert_close(y, torch.relu(model[0](x)) * (y != 0) * 2)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_gradients_belong_to_what_was_kept(checkpointed):
    def block(x, w):
        return F.dropout(x * w, 0.5) * x

    def f(x, w):
        return checkpoint(block, x, w, use_reentrant=False) if checkpointed else block(x, w)

    x, w = torch.rand(40, 50) + 1, torch.ones(40, 50, requires_grad=True)
    y = fast(f)(x, w)
    y.sum().backward()
    assert about(y != 0, 0.5)
    torch.testing.assert_close(w.grad, (y != 0) * 2 * x * x)


SOURCE = """
import torch
def dropped(x):
    return torch.nn.functional.dropout(x, 0.5) * 3
"""
LOAD = """
import sys, torch, tenon, source
with torch.no_grad():
    loaded = torch.compiler.load_compiled_function(open(sys.argv[1], "rb"))
    x = torch.ones(1000)
    torch.manual_seed(9)
    a, b = loaded(x), loaded(x)
    torch.manual_seed(9)
    assert torch.equal(loaded(x), a) and 400 < ((a != 0) == (b != 0)).sum() < 600
    print(int((a != 0).sum()))
assert tenon.stats()["fallbacks"] == 0
"""


@pytest.mark.parametrize("rng", ["fast", "torch"])
def test_saved_functions_draw_anew(tmp_path, monkeypatch, rng):
    (tmp_path / "source.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "source", raising=False)  # of another test
    import source

    with torch.no_grad():
        saved = torch.compile(source.dropped, backend="tenon", fullgraph=True, options={"rng": rng}).aot_compile(((torch.ones(1000),), {}))
        torch.manual_seed(9)
        kept = int((saved(torch.ones(1000)) != 0).sum())
    saved.save_compiled_function(str(tmp_path / "dropped"))
    here = subprocess.run([sys.executable, "-c", LOAD, str(tmp_path / "dropped")], cwd=tmp_path, capture_output=True, text=True,
                          env={**__import__("os").environ, "PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"})
    assert here.returncode == 0, here.stderr
    assert int(here.stdout) == kept

"""New shapes: Tenon causes no guards or recompiles, one program runs all sizes, and a later size compiles nothing."""

import gc
import itertools
import os
import random
import re
import sys
import weakref
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends.debugging import aot_eager

import tenon
from tenon.torch import backend, program_cache

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.models import zoo        # noqa: E402


def whole():
    stats = tenon.stats()
    assert stats["fallback_reasons"] == {}
    return stats


def run(function, shapes, make, dynamic=None, tolerance=1e-4, **options):
    """Runs all shapes, compares each with eager; returns kernels compiled up to and including each."""
    g = torch.compile(function, backend="tenon", dynamic=dynamic, fullgraph=True, options=options or None)
    kernels = []
    with torch.no_grad():
        for shape in shapes:
            args = make(*shape)
            torch.testing.assert_close(g(*args), function(*args), rtol=tolerance, atol=tolerance, equal_nan=True)
            kernels.append(whole()["kernels_compiled"])
    return kernels


# --- one program for all sizes ---
class Logits(nn.Module):
    """A model of one layer."""

    def __init__(self, name):
        super().__init__()
        self.model, _ = zoo.build(name, tiny=True)
        for module in self.model.modules():
            for child, layers in list(module.named_children()):
                if isinstance(layers, nn.ModuleList):
                    setattr(module, child, layers[:1])

    def forward(self, x):
        return self.model(x)[0]


@pytest.mark.parametrize("name", ["bert_base", "gpt2"] if os.environ.get("TENON_TESTS") == "all" else ["gpt2"])
def test_sixty_batches_and_lengths(name):
    """Includes size 1, which PyTorch traces again, and for which it and the model leave out views without effect."""
    r = random.Random(name)
    shapes = [(r.randint(1, 8), r.randint(1, 64)) for _ in range(57)] + [(1, 9), (5, 1), (1, 1)]
    kernels = run(Logits(name), shapes, lambda *s: (torch.randint(200, s),), tolerance=1e-3, freeze=True)
    distinct = [len(set(shapes[: i + 1])) for i in range(60)]
    assert kernels[-1] == kernels[distinct.index(5)]
    assert whole()["programs"] <= 3  # of one size, of a batch or a length, of both


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_of_any_head_size_converts_no_operand(dtype):
    f = torch.compile(F.scaled_dot_product_attention, backend="tenon", dynamic=True)
    for heads, head in ((3, 16), (2, 40)):
        q, k, v = (torch.randn(2, heads, n, head).to(dtype) for n in (7, 33, 33))
        with tenon.profile() as profile:
            y = f(q, k, v)
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
        torch.testing.assert_close(y.double(), exact, rtol=1e-2, atol=1e-2)
        assert "cast" not in profile.table(20)


def test_cache_of_keys_grows_by_one():
    def step(q, k, v, cache_k, cache_v):
        k, v = torch.cat([cache_k, k], 2), torch.cat([cache_v, v], 2)
        return F.scaled_dot_product_attention(q, k, v), k, v

    torch.manual_seed(0)
    g = torch.compile(step, backend="tenon", fullgraph=True)
    ours = theirs = (torch.zeros(1, 2, 0, 8),) * 2
    kernels = []
    with torch.no_grad():
        for _ in range(40):
            new = [torch.randn(1, 2, 1, 8) for _ in range(3)]
            (a, *ours), (b, *theirs) = g(*new, *ours), step(*new, *theirs)
            torch.testing.assert_close(a, b)
            kernels.append(whole()["kernels_compiled"])
    assert kernels[-1] == kernels[2]


SIZES = [0, 1, 2, 3, 5, 7, 8, 16, 31, 64, 97]
CASES = {
    "join": lambda x: x.reshape(x.shape[0] * x.shape[1], 4) @ torch.ones(4, 3),
    "split": lambda x: x.reshape(-1, 2, 2).sum(1),
    "product": lambda x: (x.view(-1) * (x.shape[0] * x.shape[1])).view(x.shape),
    "quotient": lambda x: x[: x.shape[0] // 2] * 2 + (x.shape[1] // 3),
    "remainder": lambda x: x * (x.shape[0] % 4 + 1),
    "pad": lambda x: F.pad(x, (0, 0, 1, 2)).relu(),
    "heads": lambda x: x.view(*x.shape[:2], 2, 2).transpose(1, 2).softmax(-1),
    "mask": lambda x: x + torch.ones(x.shape[1], x.shape[1]).tril().sum(1)[:, None],
    "norm": lambda x: F.layer_norm(x, (4,)) + x.mean(1, keepdim=True),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CASES)
def test_sizes(name, dynamic):
    r = random.Random(name)
    shapes = [(r.choice(SIZES), r.choice(SIZES)) for _ in range(12)]
    with torch._dynamo.config.patch(recompile_limit=32):
        run(CASES[name], shapes, lambda a, b: (torch.randn(a, b, 4),), dynamic)


def test_image_sizes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3),
                          nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    shapes = [(random.Random(i).randint(1, 3), 20 + 3 * i % 17, 20 + 5 * i % 23) for i in range(12)]
    kernels = run(model, shapes, lambda b, h, w: (torch.randn(b, 3, h, w),), freeze=True)
    assert kernels[-1] == kernels[6]


class Filter(nn.Module):
    """Filters each channel of each image by itself, as libraries of image processing do: the images are channels of one image."""

    def __init__(self, window, stride=1, dilation=1, bias=False, per_group=1):
        super().__init__()
        self.window, self.stride, self.dilation, self.bias, self.per_group = window, stride, dilation, bias, per_group

    def forward(self, x):
        n, c, h, w = x.shape
        taps = (torch.arange(self.per_group * self.window[0] * self.window[1], dtype=x.dtype) * 0.7).cos()
        taps = taps.reshape(1, self.per_group, 1, *self.window).expand(n * c, -1, -1, -1, -1).reshape(-1, 1, *self.window)
        shift = torch.arange(self.per_group * n * c, dtype=x.dtype) if self.bias else None
        y = F.conv2d(x.reshape(1, n * c, h, w), taps, shift, self.stride, (1, 2), self.dilation, n * c)
        return y.reshape(n, self.per_group * c, *y.shape[2:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("window, how", [((3, 3), {}), ((11, 1), {"bias": True}), ((1, 5), {"stride": 2}), ((3, 2), {"stride": 2, "dilation": 2}),
                                         ((7, 7), {}), ((3, 3), {"per_group": 2})])
def test_filters_of_any_number_of_channels(window, how, dtype):
    shapes = [(2, 3, 20, 17), (3, 2, 13, 30), (4, 5, 16, 18), (2, 6, 15, 11), (3, 4, 15, 15)]
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-4
    kernels = run(Filter(window, **how), shapes, lambda *s: (torch.randn(s, dtype=dtype),), dynamic=True, tolerance=tolerance)
    assert kernels[-1] == kernels[0]


@pytest.mark.parametrize("function, shapes", [
    (lambda x, w, b: F.conv1d(x, w, b, padding=1), [((n, c, 40 + n), (m, c, k), (m,)) for n, c, m, k in ((2, 3, 4, 5), (3, 4, 8, 4), (2, 16, 32, 7))]),
    (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=2).relu(),
     [((n, 2 * c, 20, 17), (2 * m, c, k, k + 2), (2 * m,)) for n, c, m, k in ((2, 3, 4, 5), (3, 4, 8, 4), (2, 16, 32, 6))]),
    (lambda x, w, b: F.conv2d(x, w, b, padding=w.shape[-1] // 2, groups=x.shape[1]),
     [((n, c, 20, 17), (c, 1, k, k), (c,)) for n, c, k in ((2, 3, 5), (3, 4, 3), (2, 16, 7))]),
    (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
     [((n, c, 7, 9), (c, m, k, k), (m,)) for n, c, m, k in ((2, 3, 4, 5), (3, 4, 8, 4), (2, 16, 32, 6))]),
    (lambda x, w, b: F.conv2d(x, w, b).sigmoid(), [((n, c, 7, 9), (m, c, k, k), (m,)) for n, c, m, k in ((2, 3, 4, 5), (3, 4, 8, 4), (2, 16, 32, 6))]),
], ids=["conv1d", "groups", "depthwise", "transposed", "activation"])
@pytest.mark.parametrize("train", [False, True])
def test_convolutions_by_weights_of_any_size(function, shapes, train):
    """Weights that are arguments: one program for all sizes, forward and backward."""
    compiled = torch.compile(function, backend="tenon", dynamic=True, fullgraph=True)
    kernels = []
    for sizes in shapes:
        given = [torch.randn(size, requires_grad=train) for size in sizes]
        copies = [t.detach().clone().requires_grad_(train) for t in given]
        got, want = compiled(*given), function(*copies)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        if train:
            (got * got).sum().backward()
            (want * want).sum().backward()
            for t, copy in zip(given, copies):
                torch.testing.assert_close(t.grad, copy.grad, rtol=1e-4, atol=1e-3)
        kernels.append(whole()["kernels_compiled"])
    assert kernels[-1] == kernels[0]


def test_mark_dynamic():
    def f(x):
        return (x * 2).softmax(-1)

    g = torch.compile(f, backend="tenon", fullgraph=True)
    with torch.no_grad():
        for n in (4, 9, 300):
            x = torch.randn(n, 6)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(g(x), f(x))
    assert whole()["programs"] == 1


# --- guards ---
def guards_with(backend, function, shapes, make, dynamic):
    """Per graph, in order: the guards of Dynamo, and the guards on sizes among them. dynamic: or the axes to mark."""
    torch._dynamo.reset()
    found, environments = [], []

    def spy(gm, inputs):
        environments.append(torch._guards.TracingContext.get().fake_mode.shape_env)
        return backend(gm, inputs)

    def keep_all(guards):
        names = sorted((g.guard_type, re.sub(r"\d+", "0", g.name)) for g in guards)  # some names carry running numbers
        found.append((names, sorted(str(guard.expr) for guard in environments[-1].guards)))
        return [True] * len(guards)

    marked = dynamic if isinstance(dynamic, tuple) else ()
    g = torch.compile(function, backend=spy, dynamic=None if marked else dynamic, options={"guard_filter_fn": keep_all})
    with torch.no_grad():
        for shape in shapes:
            args = make(*shape)
            for axis in marked:
                for x in args:
                    if x.dim() > 1:
                        torch._dynamo.mark_dynamic(x, axis)
            for a, b in zip(*map(torch.utils._pytree.tree_leaves, (g(*args), function(*args)))):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    return found


def compile_here(gm, inputs, **_):
    return backend.tenon(gm, inputs, options={"fallback": "error"})


def eager_here(gm, inputs, **_):
    return aot_eager(gm, inputs)


def one_more(gm, inputs, **_):
    """A backend that asks whether two sizes are equal."""
    sizes = [n for n in inputs if isinstance(n, torch.SymInt)]
    bool(sizes[0] == 3 * sizes[0] - 10)
    return aot_eager(gm, inputs)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (y.view(*x.shape[:2], 2, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + F.gelu(self.out(y.transpose(1, 2).reshape(x.shape)))


class Picture(nn.Module):
    """Down, up, and the two joined, over sizes that need not be even."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 1, 1)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Linear(7, 2)

    def forward(self, x):
        y = F.interpolate(self.up(F.silu(self.norm(self.down(x)))), scale_factor=2.0)
        y = F.pad(y, (0, x.shape[3] - y.shape[3], 0, x.shape[2] - y.shape[2]))
        return self.head(torch.cat([x, y], 1).mean((2, 3)))


GUARDED = {name: (function, ((6, 5), (6, 7), (1, 7)), (0, 1), lambda *s: (torch.randn(*s, 4),))
           for name, function in CASES.items()}
GUARDED["block"] = (Block().eval(), ((3, 5), (3, 7), (1, 9)), (0, 1), lambda *s: (torch.randn(*s, 8),))
GUARDED["picture"] = (Picture().eval(), ((2, 12, 14), (3, 12, 14), (3, 13, 17)), (0, 2),
                      lambda b, h, w: (torch.randn(b, 3, h, w),))


@pytest.mark.parametrize("name, dynamic", [(name, dynamic) for name in GUARDED for dynamic in (None, True)] +
                         [(name, "marked") for name in ("norm", "heads", "block", "picture")])
def test_no_guard_is_ours(name, dynamic):
    function, shapes, axes, make = GUARDED[name]
    dynamic = axes if dynamic == "marked" else dynamic
    ours = guards_with(compile_here, function, shapes, make, dynamic)
    assert ours == guards_with(eager_here, function, shapes, make, dynamic)
    assert ours and all(names for names, _ in ours)


def test_a_guard_more_is_seen():
    function, shapes, _, make = GUARDED["norm"]
    theirs, more = (guards_with(b, function, shapes, make, True) for b in (eager_here, one_more))
    assert more != theirs and len(more[0][1]) == len(theirs[0][1]) + 1


def more_of(inputs, times):
    """The same inputs in a batch `times` as large."""
    return [x.repeat(times, *[1] * (x.dim() - 1)) if x.dim() > 1 else x for x in inputs]


@pytest.mark.parametrize("name", ["llama", "resnet50", "unet_block"])
def test_models_in_batches_of_any_size(name):
    """Right, whole, and with aot_eager's guards."""
    model, inputs = zoo.build(name, tiny=True)
    make = lambda batch: more_of(inputs, batch)
    ours = guards_with(compile_here, model, ((2,), (3,)), make, (0,))
    assert ours == guards_with(eager_here, model, ((2,), (3,)), make, (0,)) and len(ours) >= 1


# --- one program for several graphs ---
numbers = itertools.count()


def fresh(function):
    """A function of its own, so that Dynamo traces it anew, and has seen no size of it."""
    scope = {"function": function}
    exec(compile("def call(*args): return function(*args)", f"<fresh {next(numbers)}>", "exec"), scope)
    return scope["call"]


def test_size_one_runs_the_program_of_all_sizes(library):
    f = lambda x: (x.exp() + x.shape[1]).sum(1)
    g = torch.compile(f, backend="tenon", dynamic=True)
    with torch.no_grad():
        for n in (4, 1, 7):
            x = torch.randn(n, 5)
            torch.testing.assert_close(g(x), f(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 2
    assert len(library.texts) == 1 == whole()["programs"]


def test_views_that_do_nothing_at_size_one(library):
    """PyTorch leaves out x[:, :1] where it is all of x, and the function an expand."""
    def f(x, y):
        y = y if y.shape[0] == x.shape[0] else y.expand(x.shape[0], -1)
        x = torch.cat([x[:, :1] - 1, x], 1)[:, 1:] * y
        rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None]
        return torch.cat([x[rows, columns], x[:1, :1].expand(x.shape[0], 1)], 1)

    g = torch.compile(f, backend="tenon", dynamic=True)
    with torch.no_grad():
        for a, b in ((4, 5), (1, 5), (4, 1), (1, 1), (7, 2)):
            x, y = torch.randn(a, b), torch.randn(1, b)
            torch.testing.assert_close(g(x, y), f(x, y))
    assert len(library.texts) == 1


def test_equal_layers_share_a_program(library):
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)) for _ in range(3)).eval()
    x = torch.randn(4, 8)
    with torch.no_grad():
        for layer in layers:
            torch.testing.assert_close(torch.compile(fresh(layer), backend="tenon")(x), layer(x))
    assert len(library.texts) == 1


def test_frozen_programs_are_shared_by_the_same_parameters_only(library):
    torch.manual_seed(0)
    a, b = nn.Linear(8, 8).eval(), nn.Linear(8, 8).eval()
    freeze = {"freeze": True}
    with torch.no_grad():
        one, two = (torch.compile(fresh(m), backend="tenon", options=freeze) for m in (a, b))
        x = torch.randn(4, 8)
        torch.testing.assert_close(one(x), a(x))
        torch.testing.assert_close(two(x), b(x))
        assert len(library.texts) == 2
        for n in (6, 7, 1):             # now dynamic: another program; size 1 is the dynamic one again
            x = torch.randn(n, 8)
            torch.testing.assert_close(one(x), a(x))
        assert len(library.texts) == 3
        a.weight.mul_(2)                # packed once for the functions that share
        updates = library.updates
        for n in (5, 1, 4, 9):
            x = torch.randn(n, 8)
            torch.testing.assert_close(one(x), a(x))
        assert library.updates == updates + 1
        a.weight = nn.Parameter(torch.randn(8, 8))
        for n in (1, 5, 4):
            x = torch.randn(n, 8)
            torch.testing.assert_close(one(x), a(x))


def test_what_differs_is_not_shared(library):
    x = torch.randn(4, 6)
    functions = [lambda x: x * 2, lambda x: x * 3, lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x + x.t().t(),
                 lambda x: x[:2] + 1, lambda x: x[1:3] + 1, lambda x: (x * 2).t(),
                 lambda x: torch.cat([x + 1, x], 0), lambda x: torch.cat([x, x + 1], 0)]
    with torch.no_grad():
        for f in functions:
            torch.testing.assert_close(torch.compile(f, backend="tenon")(x), f(x))
            torch.testing.assert_close(torch.compile(fresh(f), backend="tenon")(x.double()), f(x.double()))
    assert len(library.texts) == 2 * len(functions)


@pytest.mark.parametrize("freeze", [False, True])
def test_the_program_of_all_sizes_takes_the_place_of_the_first(library, freeze):
    """Dynamo's graphs: of (4, 5); of (n, 5); of (n, m); of (1, m)."""
    torch.manual_seed(0)
    layer = nn.Linear(8, 8).eval()
    f = lambda x: layer(x).softmax(1)
    g = torch.compile(f, backend="tenon", options={"freeze": freeze})
    before, calls = program_cache.living(), 0
    with torch.no_grad():
        for a, b, programs in ((4, 5, 1), (6, 5, 2), (4, 5, 2), (6, 7, 3), (1, 7, 3), (6, 5, 3), (4, 5, 3), (1, 5, 3)):
            x = torch.randn(a, b, 8)
            torch.testing.assert_close(g(x), f(x))
            calls += 1
            assert len(library.texts) == programs == whole()["programs"] and program_cache.living() == before + 1
            assert whole()["calls"] == calls
        layer.weight.mul_(2)
        updates = library.updates
        for a, b in ((4, 5), (6, 7), (1, 3), (6, 5), (4, 5)):
            x = torch.randn(a, b, 8)
            torch.testing.assert_close(g(x), f(x))
        assert library.updates == updates + freeze
        layer.weight = nn.Parameter(torch.randn(8, 8))
        for a, b in ((6, 5), (4, 5), (6, 7)):
            x = torch.randn(a, b, 8)
            torch.testing.assert_close(g(x), f(x))
        assert whole()["calls"] == calls + 8


def test_no_place_is_taken_by_a_program_of_other_sizes(library):
    f = lambda x: x.exp().sum(1)
    living = program_cache.living()
    functions = [torch.compile(fresh(f), backend="tenon") for _ in range(3)]
    with torch.no_grad():
        for i, (g, mark) in enumerate(zip(functions, (None, 0, 1))):
            x = torch.randn(4, 6)
            if mark is not None:
                torch._dynamo.mark_dynamic(x, mark)
            torch.testing.assert_close(g(x), f(x))
            assert program_cache.living() == living + max(i, 1)  # of (4, 6); of (n, 6), which serves it; of (4, n) as well
    assert len(library.texts) == 3


# --- what is held ---
def test_a_saved_result_with_an_axis_that_is_known_to_be_1():
    """Its strides are equal, but its elements do not overlap."""
    x = torch.randn(5, 2, 4, 3, 5, requires_grad=True)
    z = x.detach().clone().requires_grad_()
    compiled = torch.compile(lambda x: F.avg_pool3d(x, 2).quantile(0.3, 1), backend="tenon", dynamic=True)
    torch.testing.assert_close(compiled(x), F.avg_pool3d(z, 2).quantile(0.3, 1))
    compiled(x).sum().backward()
    F.avg_pool3d(z, 2).quantile(0.3, 1).sum().backward()
    torch.testing.assert_close(x.grad, z.grad)
    whole()


@pytest.mark.parametrize("step", [1, 2])
def test_results_that_overlap_themselves(step):
    """Windows of a padded row, returned and saved for the backward pass."""
    def f(x):
        windows = F.pad(x, (1, 1)).unfold(1, 3, step)
        return windows, (windows * windows.exp()).sum(2)

    compiled = torch.compile(f, backend="tenon", dynamic=True)
    for shape in ((4, 9), (5, 12)):
        x = torch.randn(shape, requires_grad=True)
        z = x.detach().clone().requires_grad_()
        got, want = compiled(x), f(z)
        torch.testing.assert_close(got, want)
        assert [t.stride() for t in got] == [t.stride() for t in want]
        got[1].sum().backward()
        want[1].sum().backward()
        torch.testing.assert_close(x.grad, z.grad)
    whole()


def test_empty_result_of_symbolic_strides():
    f = lambda x, i, y: x.put(i, y, True)
    g = torch.compile(f, backend="tenon", dynamic=True)
    args = torch.randn(5, 5)[:0, :0], torch.zeros(0, dtype=torch.int64), torch.randn(0)
    with torch.no_grad():
        torch.testing.assert_close(g(*args), f(*args))
    whole()


@pytest.mark.parametrize("dynamic", [False, True])
def test_memory_that_starts_elsewhere(dynamic):
    """PyTorch does not guard the storage offset of an input, so as_strided must not rely on the offset of the first call."""
    f = lambda x: (torch.as_strided_copy(x, (2, 2), (1, 2)), torch.as_strided_copy(x, (2, 2), (1, 2), 3), x.as_strided((2, 2), (1, 2), 3) * 2,
                   x[1:].as_strided((2,), (2,)) * 2, (x * 2).as_strided((2,), (2,), 1) * 2)
    g = torch.compile(f, backend="tenon", dynamic=dynamic)
    big = torch.randn(100)
    with torch.no_grad():
        for start in (0, 1, 3):
            x = big[start:start + 20]
            for got, want in zip(g(x), f(x)):
                torch.testing.assert_close(got, want)


def test_reset_frees_programs():
    torch._dynamo.reset()
    gc.collect()
    before = program_cache.living()  # of other tests' functions that live on
    model = nn.Linear(8, 8).eval()
    g = torch.compile(model, backend="tenon", options={"freeze": True})
    with torch.no_grad():
        for n in (4, 5, 1):
            g(torch.randn(n, 8))
    assert program_cache.living() == before + 1
    weight = weakref.ref(model.weight)
    torch._dynamo.reset()
    del g, model
    gc.collect()
    assert program_cache.living() == before and weight() is None


@pytest.mark.parametrize("arange", [lambda n: torch.arange(n, -n, -1.0), lambda n: torch.arange(2.0, n), lambda n: torch.arange(-n, n, 3.0, dtype=torch.float16)],
                         ids=["down", "from a float", "f16"])
def test_ranges_of_whole_floats_and_sizes(arange):
    def f(x):
        return x.sum() + arange(x.shape[0])

    g = torch.compile(f, backend="tenon", dynamic=True)
    with torch.no_grad():
        for n in (4, 7, 12):
            x = torch.randn(n, 5)
            torch.testing.assert_close(g(x), f(x))
    whole()


def test_fractions_of_sizes_keep_their_fractions():
    def f(x):
        part = x.shape[0] / 4
        return (x.sum() + torch.arange(0.5, x.shape[0]), x.sum() + torch.arange(part, 9), x.sum() + torch.arange(0, 9, part), x.sum() + torch.linspace(part, 3, 5),
                torch.linspace(0, part, 5, dtype=torch.float64), x + torch.full((5,), part), torch.full((5,), part, dtype=torch.int64), x.long() + int(part),
                nn.functional.softplus(x, beta=part))

    g = torch.compile(f, backend="tenon", dynamic=True)
    with torch.no_grad():
        for n in (4, 7, 12):
            x = torch.randn(n, 5)
            torch.testing.assert_close(g(x), f(x))


def test_sizes_of_tensors_that_the_function_owns():
    """Dynamo gives a tensor that is no argument symbolic sizes, and no size of it is an argument."""
    p = torch.randn(4, 3, requires_grad=True)
    before, optimizer = p.detach().clone(), torch.optim.SGD([p], lr=0.5)
    step = torch.compile(optimizer.step, backend="tenon", dynamic=True)
    for _ in range(2):
        p.grad = torch.ones(4, 3)
        step()
    torch.testing.assert_close(p.detach(), before - 1)
    whole()

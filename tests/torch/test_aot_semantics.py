"""Functions that do more than return new tensors: they mutate, alias, share memory, return nothing, change shapes and strides.

Each case runs eager and compiled on equal inputs and compares results, inputs afterwards, strides, and aliasing.
"""

import copy

import pytest
import torch
import torch.nn.functional as F

import tenon
from tenon import _abi

from foreign import foreign


def leaves(x):
    return torch.utils._pytree.tree_leaves(x)


def copied(args):
    """Equal tensors in equal memory: strides, gaps and sharing between arguments are kept."""
    return copy.deepcopy(args)


def same(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        if isinstance(x, torch.Tensor):
            torch.testing.assert_close(x, y, equal_nan=True)
            assert x.dtype == y.dtype and x.shape == y.shape
            assert x.numel() == 0 or all(n == 1 or s == t for n, s, t in zip(x.shape, x.stride(), y.stride())), (x.stride(), y.stride())
        else:
            assert type(x) is type(y) and x == y


def check(f, *args, calls=2, native=True, mode=torch.no_grad, **options):
    """Calls several times with the same inputs, which detects stale buffers and early writes."""
    ours, theirs = copied(args), copied(args)
    compiled = torch.compile(f, backend="tenon", fullgraph=True, options=options or None)
    with mode():
        for _ in range(calls):
            expected, got = f(*theirs), compiled(*ours)
            same(got, expected)
            same(ours, theirs)
    if native:
        s = tenon.stats()
        assert s["fallback_reasons"] == {}, s
    return compiled


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes(mode):
    check(lambda x: x.relu() + 1, torch.randn(3, 4), mode=mode)


# --- mutation ---
@pytest.mark.parametrize("f", [
    lambda x, y: x.mul_(2), lambda x, y: (x.add_(y), x + 1), lambda x, y: (y.mul_(2), x.add_(y)), lambda x, y: x.t().mul_(3),
    lambda x, y: (x.add_(1), x[1:]), lambda x, y: x.copy_(y).add_(1)], ids=range(6))
def test_a_mutated_input_is_returned(f):
    g = check(f, torch.randn(4, 4), torch.randn(4, 4))
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with torch.no_grad():
        result = leaves(g(x, y))
    for got, want in zip(result, leaves(f(x, y)), strict=True):
        assert got.data_ptr() == want.data_ptr() or want.data_ptr() not in (x.data_ptr(), y.data_ptr())


def test_input_mutation():
    def f(x, y):
        x.add_(y)
        y.mul_(2)
        return x + y

    check(f, torch.randn(3, 4), torch.randn(3, 4))


def test_mutation_without_reading_writes_straight_into_the_input():
    def f(x, out):
        out.copy_(x.relu() * 2)

    compiled = check(f, torch.randn(3, 4), torch.zeros(3, 4))
    for mode in (torch.no_grad, torch.enable_grad):
        x, out = torch.randn(3, 4), torch.zeros(3, 4)
        pointer, version = out.data_ptr(), out._version
        with mode():
            compiled(x, out)
        assert out.data_ptr() == pointer and out._version > version and torch.equal(out, x.relu() * 2)
    with torch.no_grad():
        (graph,) = tenon.explain(f, torch.randn(3, 4), torch.zeros(3, 4)).to_dict()["graphs"]
    assert "empty" not in graph["host_steps"] and "copy_" not in graph["host_steps"]
    check(f, torch.randn(3, 4), torch.zeros(4, 3).t())
    check(f, torch.randn(3, 4), torch.zeros(3, 4, dtype=torch.float64))


def test_a_mutated_input_that_is_read_is_updated_in_place(library):
    def f(p, v, g):
        v.mul_(0.9).add_(g)
        p.sub_(v * 0.1)

    def g(p, v, g):
        return p.copy_(p.flip(0) + g)  # reads elsewhere than it writes, so the program writes it elsewhere first

    tensors = torch.randn(3, 5), torch.randn(3, 5), torch.randn(3, 5)
    for function in (f, g):
        check(function, *tensors)
        compiled = torch.compile(function, backend="tenon")
        with torch.no_grad():
            compiled(*tensors)
        before = [t.data_ptr() for t in tensors]
        with torch.profiler.profile() as profile, torch.no_grad():
            compiled(*tensors)
        assert not any(event.name == "aten::copy_" for event in profile.events()) and [t.data_ptr() for t in tensors] == before
    assert [text.count(" updates ") for text in library.texts] == [2, 1] and tenon.stats()["workspace_bytes"] > 0


UPDATES = {  # function of x, y, z -> how many updates the programs make
    "also returned": (lambda x, y, z: (s := x + y, x.copy_(s), s * 2)[::2], 1),
    "into two inputs": (lambda x, y, z: (x.copy_(s := x + y), z.copy_(s), s)[2], 2),
    "of itself": (lambda x, y, z: (x.copy_(x.clone()), y.copy_(x))[0].sum(), 2),
    "a view": (lambda x, y, z: (x.copy_(y.t()), x.t().add_(z))[0] + 1, 1),
    "a ring": (lambda x, y, z: (t := x.clone(), x.copy_(y), y.copy_(z), z.copy_(t))[0] * 1, None),
    "read by the host later": (lambda x, y, z: (x.add_(y), foreign(x - y) + 1)[1], 1),
    "read by a later segment": (lambda x, y, z: (old := x * 1, x.add_(foreign(y)), foreign(old) + z)[2], 1),
    "old value read by the host": (lambda x, y, z: (r := foreign(x) + y, x.copy_(y * 3), r)[2], None),
    "old value read by a later segment": (lambda x, y, z: (r := foreign(y * 2) + x.t(), x.copy_(y * 3), r)[2], 0),
    "two segments": (lambda x, y, z: (x.mul_(2), y.copy_(foreign(x) + y), z.copy_(y * y))[0].sum(), 3),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", UPDATES)
def test_values_that_update_inputs(name, dynamic, library):
    f, updates = UPDATES[name]
    layouts = [lambda: torch.randn(4, 4), lambda: torch.randn(4, 4).t(), lambda: torch.randn(4, 8)[:, ::2]]
    for make in layouts:
        torch._dynamo.reset()
        theirs = [make() for _ in range(3)]
        mine, compiled = copied(theirs), torch.compile(f, backend="tenon", fullgraph=True, dynamic=dynamic)
        library.texts.clear()
        with torch.no_grad():
            for _ in range(3):
                got, want = leaves(compiled(*mine)), leaves(f(*theirs))
                same([got, mine], [want, theirs])
                for g, w in zip(got, want):
                    inputs = {t.data_ptr() for t in theirs}
                    assert w.data_ptr() in inputs or g.data_ptr() not in {t.data_ptr() for t in mine}
        assert updates is None or sum(text.count(" updates ") for text in library.texts) == updates
    assert not any("inside" in why for why in tenon.stats()["fallback_reasons"])


@pytest.mark.parametrize("f", [
    lambda x, y, i: (x.mul_(2), y[i]), lambda x, y, i: (x.mul_(2), foreign(y), x.add_(foreign(y)[i]))[::2],
    lambda x, y, i: (x.mul_(2), (foreign(y * 2) + y)[i])], ids=["one segment", "the same", "a later segment"])
def test_a_fault_leaves_updated_inputs_unchanged(f):
    compiled = torch.compile(f, backend="tenon", fullgraph=True)
    x, y, i = torch.randn(4), torch.randn(4), torch.tensor([1])
    with torch.no_grad():
        want = copied((x, y, i))
        same(compiled(x, y, i), f(*want))
        same((x, y), want[:2])
        with pytest.raises(IndexError):
            compiled(x, y, torch.tensor([7]))
    same(x, want[0])


def test_functions_that_update_other_inputs_share_no_program(library):
    def f(x, y):
        x.copy_(x + y)

    def g(x, y):
        y.copy_(x + y)

    check(f, torch.randn(5), torch.randn(5))
    check(g, torch.randn(5), torch.randn(5))
    assert len(library.texts) == 2


def test_an_update_of_a_call_that_the_library_refuses(library, monkeypatch):
    def f(x, y, z):
        a = x.clone()
        x.copy_(y)
        y.copy_(a)
        return z.mul_(x), y + 1

    from tenon.torch.runtime import marshal
    step = type(marshal.chosen).step

    def refusing(self, *given):
        made = step(self, *given)

        def run(*arguments):
            raise _abi.Error(2, "refused")
        return run if made else made

    monkeypatch.setattr(type(marshal.chosen), "step", refusing)
    check(f, torch.randn(5), torch.randn(5), torch.randn(5), native=False)
    assert list(tenon.stats()["fallback_reasons"]) == ["Tenon's library: unsupported: refused"]


def test_mutated_input_that_shares_memory_with_another():
    base = torch.randn(8)
    f = lambda x, out: out.copy_(x.flip(0) * 2).sum()
    theirs, ours = base.clone(), base.clone()
    with torch.no_grad():
        g = torch.compile(f, backend="tenon")
        for b, h in ((theirs, f), (ours, g)):
            b.result = h(b[:6], b[2:])
    same(ours, theirs)
    assert ours.result == theirs.result


class Center(torch.nn.Module):
    """A buffer that gets another tensor's memory in each call, as the running mean of a loss may."""

    def __init__(self, renewed):
        super().__init__()
        self.register_buffer("center", torch.ones(4))
        self.renewed = renewed

    def forward(self, x):
        y = x.sin() * self.center
        self.center.data = self.renewed(self.center, x.detach())
        return y.sum()


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("renewed", [lambda c, x: c * 0.9 + x.mean(0) * 0.1, lambda c, x: x[1], lambda c, x: x.cumsum(0)[-1]],
                         ids=["computed", "a view of an input", "a view of a result"])
def test_memory_that_an_input_gets(renewed, freeze):
    theirs = Center(renewed)
    ours = copy.deepcopy(theirs)
    g = torch.compile(ours, backend="tenon", fullgraph=True, options={"freeze": freeze})
    for grad in (True, False):
        for _ in range(3):
            x = torch.randn(3, 4)
            xs = [x.clone().requires_grad_(grad) for _ in range(2)]
            with torch.set_grad_enabled(grad):
                expected, got = theirs(xs[0]), g(xs[1])
            if grad:
                expected.backward()
                got.backward()
                same(xs[1].grad, xs[0].grad)
            same((got, ours.center), (expected, theirs.center))
            assert (ours.center.data_ptr() == xs[1][1].data_ptr()) == (theirs.center.data_ptr() == xs[0][1].data_ptr())
    assert tenon.stats()["fallback_reasons"] == {}


def test_swap():
    def f(a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)

    check(f, torch.randn(3), torch.randn(3), calls=3)


def test_mutation_through_views_and_scalars():
    def f(x):
        x[0] = 3
        x[:, 1:3].mul_(2)
        x.t()[2].add_(1)
        return x[1]

    check(f, torch.randn(3, 4))


def test_cache_update():
    def f(cache, new, at):
        cache[:, at] = new
        return cache.sum(1)

    check(f, torch.zeros(2, 8, 3), torch.randn(2, 1, 3), torch.tensor([5]))


def test_batch_norm_in_training_mode():
    bn = torch.nn.BatchNorm1d(4)

    def run(model, compiled, x):
        with torch.no_grad():
            return compiled(x)

    counterpart = copy.deepcopy(bn)
    g = torch.compile(bn, backend="tenon")
    for _ in range(2):
        x = torch.randn(6, 4)
        same(run(bn, g, x), run(counterpart, counterpart, x))
    same(list(bn.buffers()), list(counterpart.buffers()))


# --- aliasing ---
def test_views_of_inputs_alias_them():
    def f(x):
        return x.t(), x[1:], x.view(-1), x

    g = check(f, torch.randn(3, 4), native=False)
    x = torch.randn(3, 4)
    with torch.no_grad():
        results = g(x)
        x.zero_()
    assert all(r.abs().sum() == 0 for r in results)


def test_outputs_that_alias_each_other():
    def f(x):
        y = x * 2
        return y, y.t(), y[:, :1], y.expand(2, 3, 4)

    g = check(f, torch.randn(3, 4))
    with torch.no_grad():
        y, transposed, column, wide = g(torch.randn(3, 4))
        y.zero_()
    assert transposed.sum() == 0 and column.sum() == 0 and wide.sum() == 0 and wide.stride() == (0, 4, 1)


def test_expanded_output():
    check(lambda x: (x * 2).expand(5, 3, 4), torch.randn(3, 4))
    check(lambda x: (x.sum(1, keepdim=True)).expand(3, 4), torch.randn(3, 4))


def test_sliced_output_has_the_gap_of_its_base():
    check(lambda x: (x * 2)[:, 1:3], torch.randn(3, 4))


def test_duplicate_outputs_and_fresh_ones():
    def f(x):
        y = x + 1
        return y, y, x.clone(), x * 1

    g = check(f, torch.randn(3))
    x = torch.randn(3)
    with torch.no_grad():
        a, b, c, d = g(x)
        c.zero_(), d.zero_()
    assert a.data_ptr() == b.data_ptr() and x.abs().sum() > 0


def test_views_of_a_reshaped_result_share_its_memory():
    def f(x):
        y = x.reshape(-1)  # copies x, which is transposed
        return y[::2], y.abs_(), y.view(2, -1)

    g = check(f, torch.randn(4, 6).t())
    with torch.no_grad():
        results = g(torch.randn(4, 6).t())
    assert len({t.data_ptr() for t in results}) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_views_of_an_expanded_input(dynamic):
    def f(x):
        flat = x.reshape(x.shape[0], -1)
        return x[:, : x.shape[1] // 2], x.split([1, x.shape[1] - 1], 1)[1].mT, flat[:, 1], flat.select(0, 1).exp()

    g = torch.compile(f, backend="tenon", dynamic=dynamic, fullgraph=True)
    for rows, n in ((3, 9), (5, 12)):
        row, results = torch.randn(1, n, 2), []
        for h in (f, g):
            x = row.expand(rows, n, 2).detach().requires_grad_()
            views = h(x)
            sum((v * torch.arange(v.numel()).view(v.shape)).sum() for v in views).backward()
            results.append((*views, x.grad))
        same(*results)
    assert tenon.stats()["fallback_reasons"] == {}


def test_none_and_constants():
    def f(x):
        return None, x + 1, 3, None, "text", (x.shape[0], [x.dim()])

    check(f, torch.randn(3, 4))


def test_output_is_an_input():
    check(lambda x, y: (x, y + 1, y), torch.randn(3), torch.randn(3))


def test_only_inputs():
    check(lambda x: (x,), torch.randn(3), native=False)


# --- parameters ---
def test_tied_parameters():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).relu())

    check(Tied(), torch.randn(2, 4))
    torch._dynamo.reset()
    check(Tied(), torch.randn(2, 4), freeze=True)


@pytest.mark.parametrize("freeze", [False, True])
def test_changed_weights_are_seen(freeze, library):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval()
    g = torch.compile(model, backend="tenon", options={"freeze": freeze})
    x = torch.randn(3, 4)

    def agree():
        with torch.no_grad():
            same(g(x), model(x))

    agree()
    agree()
    assert library.updates == 0
    with torch.no_grad():
        model[0].weight.mul_(2)
    agree()
    model[2].bias.data = torch.randn(4)
    agree()
    model[0].weight = torch.nn.Parameter(torch.randn(4, 4))
    agree()
    with torch.no_grad():
        model[3].running_mean.add_(1)
    agree()
    model.load_state_dict({k: torch.rand_like(v) if v.is_floating_point() else v for k, v in model.state_dict().items()})
    agree()
    agree()
    assert library.updates == (5 if freeze else 0)
    assert tenon.stats()["programs"] == 1
    assert (" param" in library.texts[0])


def test_frozen_address_that_comes_back():
    """A new tensor at the old address with the old version would be invisible; the alias kept prevents it."""
    model = torch.nn.Linear(64, 64)
    g = torch.compile(model, backend="tenon", options={"freeze": True})
    x = torch.randn(3, 64)
    with torch.no_grad():
        g(x)
        for _ in range(20):
            model.weight.data = torch.randn(64, 64)
            model.weight.data = torch.randn(64, 64)
            same(g(x), model(x))


def test_frozen_functions_in_threads():
    import threading

    model = torch.nn.Linear(8, 8)
    g = torch.compile(model, backend="tenon", options={"freeze": True})
    x, wrong, stop = torch.randn(4, 8), [], threading.Event()
    with torch.no_grad():
        g(x)

    def work():
        with torch.no_grad():
            while not stop.is_set():
                if not torch.isfinite(g(x)).all():
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    with torch.no_grad():
        for _ in range(20):
            model.weight.mul_(1.01)
            g(x)
    stop.set()
    [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)
    with torch.no_grad():
        same(g(x), model(x))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("weight, packs", [
    (torch.randn(4, 8)[:, ::2], False), (torch.randn(1, 4).expand(4, 4), False), (torch.empty(0, 4), False), (torch.randn(4, 4).t(), True), (torch.randn(4, 4), True),
], ids=["sliced", "repeated", "empty", "turned", "dense"])
def test_what_cannot_be_packed_stays_an_input(weight, packs, dynamic, library):
    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(weight)

        def forward(self, x):
            return torch.cat([x * 2, self.w]) + 1

    model = Rows()
    g = torch.compile(model, backend="tenon", dynamic=dynamic, options={"freeze": True})
    with torch.no_grad():
        for rows in (2, 3):
            x = torch.randn(rows, 4)
            same(g(x), model(x))
        model.w[:1].as_strided((4 * len(model.w[:1]),), (1,)).mul_(2)
        same(g(x), model(x))
    assert not tenon.stats()["fallback_reasons"] and bool(library.updates) == packs


def test_buffers_that_change_are_not_frozen():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(2))
            self.w = torch.nn.Parameter(torch.randn(2))

        def forward(self, x):
            self.n.add_(1)
            return x * self.n + self.w

    model = Counter()
    counterpart = copy.deepcopy(model)
    g = torch.compile(model, backend="tenon", options={"freeze": True})
    for _ in range(3):
        x = torch.randn(2)
        with torch.no_grad():
            same(g(x), counterpart(x))
    same(model.n, counterpart.n)


# --- shapes, strides, dtypes ---
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1), (5, 1, 3)])
def test_odd_shapes(shape):
    check(lambda x: (x * 2 + 1, x.sum(), x.reshape(-1) + 1, x.unsqueeze(0) * 3), torch.randn(shape))


def test_channels_last_in_and_out():
    conv = torch.nn.Conv2d(3, 4, 3).eval()
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        y = check(conv, x)(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    check(lambda x: F.max_pool2d(x.relu(), 2), x)
    check(lambda x: x.contiguous(), x)
    check(lambda x: x.to(memory_format=torch.channels_last) + 1, torch.randn(2, 3, 4, 4))


def test_transposed_outputs():
    g = check(lambda x: (x.t() + 1, (x + 1).permute(1, 0), x.t().exp().t()), torch.randn(3, 4))
    with torch.no_grad():
        assert [y.stride() for y in g(torch.randn(3, 4))] == [(1, 4), (1, 4), (4, 1)]


def test_inputs_with_gaps_offsets_and_size_one_strides():
    f = lambda x: x * 2 + 1
    base = torch.randn(100)
    check(f, base[1:13].view(3, 4))  # misaligned
    check(f, base.as_strided((3, 4), (10, 2), 5))
    check(f, base.as_strided((1, 4, 1), (77, 1, 55)))
    check(f, base.as_strided((3, 4), (0, 1)))
    check(f, base.as_strided((3, 4), (1, 1)))  # overlapping
    check(lambda x: x.sum(0), base.as_strided((4, 1, 3), (3, 50, 1)))


def test_integer_and_bool_inputs():
    check(lambda x, m: (x + 1, x // 2, x.sum(), m & (x > 2), ~m, x.float() * 0.5, m.sum()), torch.arange(-5, 5), torch.rand(10) > 0.5)


def test_python_scalars_as_arguments():
    g = torch.compile(lambda x, n, s: x * n + s, backend="tenon")
    with torch.no_grad():
        for n, s in ((2, 0.5), (3, 0.5), (4, 1.5), (5, 2.5)):
            x = torch.randn(4)
            same(g(x, n, s), x * n + s)


def test_autocast():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    ours = torch.compile(f, backend="tenon")
    x = torch.randn(4, 8)
    with torch.no_grad():
        got, expected = ours(x), f(x)
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(model, backend="tenon")(x), model(x), rtol=2e-2, atol=2e-2)


def test_grad_mode_without_gradients_is_inference():
    check(lambda x: x * 2 + 1, torch.randn(3), mode=torch.enable_grad)


def test_detached_parameters_in_grad_mode():
    w = torch.nn.Parameter(torch.randn(3))
    with torch.enable_grad():
        y = torch.compile(lambda x: x * w.detach(), backend="tenon")(torch.randn(3))
    assert not y.requires_grad


# --- dynamic shapes ---
def recompiles(f, shapes, *more, backend="tenon", dynamic=True):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    g = torch.compile(f, backend=backend, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        for shape in shapes:
            x = torch.randn(shape)
            same(g(x.clone(), *more), f(x.clone(), *more))
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


SYMBOLIC = {
    "map": lambda x: x.relu() * 2 + 1,
    "views": lambda x: ((x.t() + 1).reshape(-1), x.view(-1)[1:] * 2, x[:, None] + x[None], x.unsqueeze(1).expand(-1, 3, -1).reshape(x.shape[0] * 3, -1) + 1),
    "sizes": lambda x: (x * x.shape[0], x.sum() / x.numel(), x + torch.arange(x.shape[1]), torch.zeros(x.shape[0], 2), torch.full((x.shape[1],), x.shape[0])),
    "reduce": lambda x: (x.softmax(-1), x.mean(0), x.var(1), F.layer_norm(x, (x.shape[1],)), x.argmax(1)),
    "matmul": lambda x: (x @ x.t(), (x.t() @ x).tril()),
    "concat": lambda x: (torch.cat([x, x * 2], 0), F.pad(x, (1, 2)), torch.stack([x, x]), x.repeat(2, 1), x[-2:] + 1, x[:, : x.shape[1] // 2] * 2, x[:-1] + x[1:]),
    "transposed": lambda x: ((x * 2).t(), (x * 2)[:, 1:], (x * 2).expand(3, *x.shape)),
    "int_outputs": lambda x: (x + 1, x.shape[0], x.shape[0] * 2 + x.shape[1], x.numel() // 2),
    "fallback": lambda x: foreign(x * 2).relu().view(-1) + x.shape[0],
    "pool": lambda x: (F.avg_pool1d(x[None], 2), F.conv1d(x[None, None].flatten(2), torch.ones(1, 1, 3), padding=1)),
    "mutation": lambda x: (x.add_(1), x * 2)[1],
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_dynamic_shapes_add_no_guards(name):
    """As many graphs as a backend that adds no guards, for sizes 4 to 7."""
    shapes = [(4, 6), (5, 4), (6, 7), (7, 5)]
    ours = recompiles(SYMBOLIC[name], shapes)
    assert ours == recompiles(SYMBOLIC[name], shapes, backend="aot_eager")
    assert ours == 1


def test_dynamic_program_is_made_once(library):
    recompiles(lambda x: x.exp().sum(1), [(4, 6), (5, 4), (6, 7)])
    assert len(library.texts) == 1 and "assume" in library.texts[0]


def test_dynamic_strides():
    def f(x):
        return x * 2 + 1, x.t().contiguous()

    torch._dynamo.reset()
    g = torch.compile(f, backend="tenon", dynamic=True)
    with torch.no_grad():
        for n, m in ((4, 6), (5, 7), (6, 9)):
            for x in (torch.randn(m, n).t(), torch.randn(n, m + 3)[:, 1:-2], torch.randn(n, m)):
                same(g(x), f(x))


def test_automatic_dynamic_and_size_one():
    f = lambda x: (x * 2).softmax(0)
    g = torch.compile(f, backend="tenon")
    with torch.no_grad():
        for n in (4, 6, 1, 9, 0, 12):
            x = torch.randn(n, 3)
            same(g(x), f(x))


def test_unbacked_sizes():
    def f(x):
        i = torch.nonzero(x > 0)
        return i * 2 + 1, i.shape[0]

    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        g = torch.compile(f, backend="tenon", fullgraph=True)
        for n in (5, 8):
            x = torch.randn(n)
            same(g(x), f(x))
    assert list(tenon.stats()["fallback_reasons"]) == ["aten.nonzero.default has no row in Tenon's op table"]


def test_size_that_a_slice_finds():
    def f(x, i):
        return [y * 2 for y in torch.tensor_split(x, i)]

    with torch.no_grad(), torch._dynamo.config.patch(capture_scalar_outputs=True):
        g = torch.compile(f, backend="tenon", fullgraph=True)
        for i in ((1, 3), (0, 5), (4, 4), (-5, -1)):
            x = torch.randn(6, 5)
            same(g(x, torch.tensor(i)), f(x, torch.tensor(i)))


def test_item():
    def f(x, n):
        k = n.item()
        torch._check(k >= 2)
        torch._check(k <= 100)
        return x * k, torch.zeros(k) + 1

    with torch.no_grad(), torch._dynamo.config.patch(capture_scalar_outputs=True):
        g = torch.compile(f, backend="tenon", fullgraph=True)
        for k in (3, 5):
            x = torch.randn(4)
            same(g(x, torch.tensor(k)), f(x, torch.tensor(k)))


def test_numbers_that_no_step_reads_are_not_computed(library):
    """The program computes n/(n-1) itself; the host's division by 0 would be an error."""
    def f(x, w, mean, variance):
        return torch.ops.aten._native_batch_norm_legit(x, w, w, mean, variance, True, 0.1, 1e-5)[0] * 2

    compiled = torch.compile(f, backend="tenon")
    for n in (5, 1, 2):
        x, stats = torch.randn(n, 3), [torch.ones(3), torch.zeros(3), torch.ones(3)]
        torch._dynamo.decorators.mark_unbacked(x, 0)
        theirs = [t.clone() for t in stats]
        torch.testing.assert_close([compiled(x, *stats), *stats], [f(x, *theirs), *theirs], equal_nan=True)
    assert tenon.stats()["programs"] == 1 and tenon.stats()["fallback_reasons"] == {}


def test_channels_that_are_not_known_to_fall_into_groups():
    def f(x, w):
        return torch.nn.functional.conv3d(x, w, groups=2) * 2

    compiled = torch.compile(f, backend="tenon")
    for n in (4, 6):
        x, w = torch.randn(2, 4, 3, 4, 5), torch.randn(n, 2, 1, 2, 3)
        torch._dynamo.decorators.mark_unbacked(w, 0)
        torch.testing.assert_close(compiled(x, w), f(x, w))
    assert tenon.stats()["fallback_reasons"] == {} and tenon.stats()["programs"] == 1

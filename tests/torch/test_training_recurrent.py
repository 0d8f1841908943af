"""Recurrent layers with gradients in torch.compile(backend="tenon"), against eager mode."""

import copy
import itertools

import pytest
import torch
from sample import in_turn
from test_recurrent import MODES, flat, states
from torch import nn
from torch.utils.checkpoint import checkpoint

import tenon
from tenon.torch.whole import recurrent


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def strides(t):
    """Strides that matter: those of axes longer than 1."""
    return [stride for n, stride in zip(t.shape, t.stride()) if n > 1]


def same(actual, expected, **tolerance):
    for a, e in zip(actual, expected, strict=True):
        if isinstance(a, torch.Tensor):
            assert strides(a) == strides(e)
            torch.testing.assert_close(a, e, **({"rtol": 2e-5, "atol": 2e-6} | tolerance))
        elif a is not None or e is not None:
            same(a, e, **tolerance)


def compiled(function, **options):
    return torch.compile(function, backend="tenon", fullgraph=True, options={"fallback": "error"}, **options)


def step(function, model, args, weights=None):
    """The results of a call, and the gradients of the arguments and parameters for a loss that reads all results."""
    model.zero_grad(set_to_none=True)
    args = [t.detach().clone().requires_grad_(t.is_floating_point()) if isinstance(t, torch.Tensor) else
            tuple(s.detach().clone().requires_grad_() for s in t) for t in args]
    results = flat(function(*args))
    weights = weights or [torch.linspace(-1, 1, r.numel(), dtype=r.dtype).view(r.shape) for r in results]
    sum((r * w).sum() for r, w in zip(results, weights)).backward()
    return [r.detach() for r in results], [t.grad for t in flat(args)] + [p.grad for p in model.parameters()]


def check(layer, *args, function=None):
    """Values and strides are those of eager mode, and errors of gradients against f64 at most twice as large."""
    function = compiled(layer) if function is None else function
    values, got = step(function, layer, args)
    wanted, want = step(layer, layer, args)
    same(values, wanted)
    exact = copy.deepcopy(layer).double()
    widened = [tuple(t.double() for t in a) if isinstance(a, (list, tuple)) else a.double() if a.is_floating_point() else a for a in args]
    _, expected = step(exact, exact, widened)
    for g, w, e in zip(got, want, expected, strict=True):
        assert (g is None) == (w is None)
        if g is None:
            continue
        assert g.shape == w.shape and g.dtype == w.dtype and strides(g) == strides(w)
        error = lambda t: (t.double() - e).square().mean().sqrt() if t.numel() else torch.tensor(0.0)
        assert error(g) <= 2 * error(w) + 1e-6 * e.abs().amax(), (error(g), error(w))
    return function


LAYERS = list(itertools.product(MODES, (1, 2), (False, True), (False, True), (True, False)))
CALLS = (((3, 4), False), ((3, 4), True), ((1, 1), True), ((2, 1), False), ((1, 7), False), ((2, 9), True))


@pytest.mark.parametrize("kind,call", in_turn(LAYERS, CALLS, 2))
def test_layers(kind, call):
    (mode, layers, bidirectional, batch_first, bias), ((batch, length), given) = kind, call
    layer = MODES[mode](5, 7, num_layers=layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
    x = torch.randn(batch, length, 5) if batch_first else torch.randn(length, batch, 5)
    check(layer, x, *([states(mode, layer, batch)] if given else []))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [33, 130])
def test_sizes_around_those_of_panels(mode, size):
    check(MODES[mode](6, size, batch_first=True), torch.randn(5, 12, 6))


@pytest.mark.parametrize("mode", MODES)
def test_sequences_without_a_batch(mode):
    check(MODES[mode](5, 7), torch.randn(6, 5))


@pytest.mark.parametrize("mode", MODES)
def test_strided_inputs(mode):
    wide = torch.randn(9, 6, 12)
    for x in (wide.transpose(0, 1)[:, 2:5, 1:6], wide[1::2, :, 2:12:2], torch.randn(5, 3, 4).permute(2, 1, 0)):
        layer = MODES[mode](5, 7)
        got, want = [], []
        for function, found in ((compiled(layer), got), (layer, want)):
            layer.zero_grad()
            function(x)[0].square().sum().backward()
            found += [p.grad for p in layer.parameters()]
        same(got, want, rtol=1e-4, atol=1e-5)
        torch._dynamo.reset()


class Part(nn.Module):
    """A layer of which only some results are used."""

    def __init__(self, mode, pick, **options):
        super().__init__()
        self.layer, self.pick = MODES[mode](5, 7, **options), pick

    def forward(self, x):
        return self.pick(*flat(self.layer(x)))


@pytest.mark.parametrize("pick", [lambda y, h, *c: y, lambda y, h, *c: y[-1], lambda y, h, *c: h, lambda y, h, *c: c[0] if c else h[0],
                                  lambda y, h, *c: (y.mean(0), h * h)], ids=["all", "last", "state", "cell", "both"])
@pytest.mark.parametrize("mode", MODES)
def test_results_that_nobody_reads(mode, pick):
    check(Part(mode, pick), torch.randn(4, 3, 5))
    check(Part(mode, pick, num_layers=2, bidirectional=True), torch.randn(4, 3, 5))


@pytest.mark.parametrize("mode", MODES)
def test_frozen_parameters(mode):
    for name in ("weight_hh_l0", "weight_ih_l0", "bias_hh_l0"):
        layer = MODES[mode](5, 7, num_layers=2)
        getattr(layer, name).requires_grad_(False)
        check(layer, torch.randn(4, 3, 5))


@pytest.mark.parametrize("mode", MODES)
def test_dynamic_sizes(mode):
    layer = MODES[mode](5, 40, num_layers=2, bidirectional=True, batch_first=True)
    function = compiled(layer, dynamic=True)
    for batch, length in ((3, 4), (2, 9), (5, 3), (13, 2), (1, 6), (4, 1)):
        check(layer, torch.randn(batch, length, 5), function=function)


class Behind(nn.Module):
    """A layer behind another, so that its input has a gradient."""

    def __init__(self, mode):
        super().__init__()
        self.linear, self.layer = nn.Linear(5, 6), MODES[mode](6, 7)

    def forward(self, x):
        return self.layer(self.linear(x))[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("grad", [True, False])
def test_one_trace_for_all_lengths(mode, grad):
    model = Behind(mode)
    function = compiled(model)
    with torch.set_grad_enabled(grad), torch._dynamo.config.patch(recompile_limit=2):
        for length in (6, 9, 4, 33, 17, 300):
            x = torch.randn(length, 3, 5)
            same([function(x)], [model(x)])


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_nothing(mode):
    layer = MODES[mode](5, 7, num_layers=2, bidirectional=True)
    function = compiled(layer)
    same(step(function, layer, [torch.ones(4, 0, 5)]), step(layer, layer, [torch.ones(4, 0, 5)]))
    assert not flat(function(torch.ones(4, 0, 5)))[0].numel()


@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_without_steps(mode):
    for x in (torch.ones(0, 3, 5), torch.ones(0, 3, 5, requires_grad=True)):
        torch._dynamo.reset()
        with pytest.raises((RuntimeError, AssertionError)):
            torch.compile(MODES[mode](5, 7), backend="tenon")(x)


@pytest.mark.parametrize("mode", MODES)
def test_dropout_is_that_of_eager_mode(mode):
    layer, x = MODES[mode](5, 7, num_layers=3, dropout=0.4, bidirectional=True), torch.randn(6, 3, 5)
    found = []
    for function in (layer, compiled(layer)):
        torch.manual_seed(3)
        found.append(step(function, layer, [x]))
    same(found[1], found[0], rtol=1e-4, atol=1e-5)
    for p in (1.0, 0.0):
        layer.dropout = p
        check(layer, x)


class Tagger(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.embedding, self.layer, self.tags = nn.Embedding(50, 16), MODES[mode](16, 24, num_layers=2, batch_first=True, dropout=0.1), nn.Linear(24, 9)

    def forward(self, words, tags):
        return nn.functional.cross_entropy(self.tags(self.layer(self.embedding(words))[0]).flatten(0, 1), tags.flatten())


@pytest.mark.parametrize("mode", MODES)
def test_a_tagger_is_two_graphs(mode):
    model, words, tags = Tagger(mode), torch.randint(0, 50, (4, 30)), torch.randint(0, 9, (4, 30))
    report = tenon.explain(model, words, tags)
    report.result.backward()
    assert not report.breaks and [record.fallbacks for record in report.records] == [[]] * len(report.records), str(report)
    losses = []
    for backend in (None, "tenon"):
        torch.manual_seed(1)
        model = Tagger(mode)
        optimizer, function = torch.optim.Adam(model.parameters(), 0.01), torch.compile(model, backend=backend) if backend else model
        losses.append([])
        for _ in range(30):
            optimizer.zero_grad()
            loss = function(words, tags)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-3, atol=1e-3)
    assert losses[1][-1] < losses[1][0] - 0.1


@pytest.mark.parametrize("mode", MODES)
def test_checkpoints(mode):
    class Checkpointed(nn.Module):
        def __init__(self, dropout=0.0):
            super().__init__()
            self.layer = MODES[mode](5, 7, num_layers=2, dropout=dropout)

        def forward(self, x):
            return checkpoint(self.layer, x.tanh(), use_reentrant=False)[0].tanh()

    check(Checkpointed(), torch.randn(4, 3, 5))
    model, found = Checkpointed(0.3), []
    for function in (model, compiled(model)):
        torch.manual_seed(3)
        found.append(step(function, model, [torch.ones(4, 3, 5)]))
    same(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("refused", ["recurrent", "recurrent_gradient"])
def test_an_op_that_the_library_refuses(mode, refused, library):
    library.refuse = (refused,)
    layer = MODES[mode](5, 17 if refused == "recurrent" else 19, num_layers=2, bidirectional=True)
    check(layer, torch.randn(4, 3, 5), function=torch.compile(layer, backend="tenon"))
    assert tenon.stats()["fallbacks"]


@pytest.mark.parametrize("mode", ["lstm", "gru", "tanh", "relu"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_operators_keep_pytorchs_rules(mode, reverse):
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    make = lambda *shape: torch.randn(*shape, requires_grad=True)
    c = make(2, 3) if mode == "lstm" else None
    args = (make(4, 2, 3 * gates), make(2, 3), make(3 * gates, 3), make(3 * gates), c, None, mode, reverse)
    torch.library.opcheck(torch.ops.tenon.recurrent.default, args)


LEFT = {
    "f64": lambda mode: (MODES[mode](5, 7).double(), torch.randn(4, 3, 5, dtype=torch.float64)),
    "bf16": lambda mode: (MODES[mode](5, 7).bfloat16(), torch.randn(4, 3, 5, dtype=torch.bfloat16)),
    "projection": lambda mode: (nn.LSTM(5, 7, proj_size=4), torch.randn(4, 3, 5)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", LEFT)
def test_what_stays_with_pytorch(kind, mode):
    layer, x = LEFT[kind](mode)
    function = torch.compile(layer, backend="tenon")
    same(step(function, layer, [x]), step(layer, layer, [x]))
    with torch._dynamo.config.patch(allow_rnn=True):
        torch._dynamo.reset()
        same(step(torch.compile(layer, backend="tenon"), layer, [x]), step(layer, layer, [x]), rtol=2e-2 if kind == "bf16" else 2e-5,
             atol=2e-2 if kind == "bf16" else 2e-5)


@pytest.mark.parametrize("mode", MODES)
def test_autocast(mode):
    layer, x = MODES[mode](5, 7), torch.randn(4, 3, 5)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x)

    same(step(torch.compile(function, backend="tenon"), layer, [x]), step(function, layer, [x]))
    torch._dynamo.reset()
    outer = torch.compile(layer, backend="tenon")
    with torch.autocast("cpu", torch.bfloat16):
        same(step(outer, layer, [x]), step(layer, layer, [x]))


@pytest.mark.parametrize("mode", MODES)
def test_packed_sequences(mode):
    layer = MODES[mode](5, 7, num_layers=2)

    def function(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 1]))
        y, last = layer(packed)
        return nn.utils.rnn.pad_packed_sequence(y)[0], last

    x = torch.randn(6, 3, 5)
    same(step(torch.compile(function, backend="tenon"), layer, [x]), step(function, layer, [x]), rtol=1e-4, atol=1e-5)


def test_transforms_of_torch_func():
    layer, x = nn.GRU(5, 7), torch.randn(4, 3, 5)
    function = lambda x: torch.func.grad(lambda x: layer(x)[0].square().sum())(x)
    same([torch.compile(function, backend="tenon")(x)], [function(x)])


def test_a_second_backward_pass_is_pytorchs_error():
    layer, x = nn.LSTM(5, 7), torch.randn(4, 3, 5, requires_grad=True)
    y = compiled(layer)(x)[0].sum()
    gradient, = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_modules_that_tenon_computes():
    assert recurrent._has_gradients(nn.LSTM(2, 3)) and not recurrent._has_gradients(nn.LSTM(2, 3, proj_size=2))
    assert not recurrent._has_gradients(nn.GRU(2, 3).double()) and not recurrent._has_gradients(nn.Linear(2, 3))

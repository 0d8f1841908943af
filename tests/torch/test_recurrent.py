"""Recurrent layers (nn.LSTM, nn.GRU, nn.RNN) in torch.compile(backend="tenon") against eager mode."""

import contextlib
import itertools

import pytest
import torch
from sample import in_turn
from torch import nn

import tenon

MODES = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else [t for r in result for t in flat(r)]


def same(actual, expected, **tolerance):
    for a, e in zip(flat(actual), flat(expected), strict=True):
        assert a.stride() == e.stride()
        torch.testing.assert_close(a, e, **({"rtol": 2e-5, "atol": 2e-6} | tolerance))


def taken(report):
    """Whether Tenon computed the layer: no graph break, and no node of the graph in PyTorch."""
    return not report.breaks and report.records and not any(record.fallbacks for record in report.records)


def check(layer, *args, freeze=True, dynamic=None):
    compiled = torch.compile(layer, backend="tenon", options={"freeze": freeze, "fallback": "error"}, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        same(compiled(*args), layer(*args))
    return compiled


def states(mode, layer, batch):
    directions = (2 if layer.bidirectional else 1) * layer.num_layers
    h = torch.randn(directions, batch, layer.proj_size or layer.hidden_size)
    return (h, torch.randn(directions, batch, layer.hidden_size)) if mode == "lstm" else h


LAYERS = list(itertools.product(MODES, (1, 2), (False, True), (False, True), (True, False)))
CALLS = ((True, (3, 4), False), (False, (3, 4), True), (True, (1, 1), True), (False, (2, 1), False), (True, (1, 7), False))


@pytest.mark.parametrize("kind,call", in_turn(LAYERS, CALLS, 2))
def test_layers(kind, call):
    (mode, layers, bidirectional, batch_first, bias), (freeze, (batch, length), given) = kind, call
    layer = MODES[mode](5, 7, num_layers=layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias).eval()
    x = torch.randn(batch, length, 5) if batch_first else torch.randn(length, batch, 5)
    check(layer, x, *([states(mode, layer, batch)] if given else []), freeze=freeze)


@pytest.mark.parametrize("bidirectional,layers,batch_first", list(itertools.product((False, True), (1, 2), (False, True))))
def test_projections(bidirectional, layers, batch_first):
    layer = nn.LSTM(5, 40, proj_size=33, num_layers=layers, bidirectional=bidirectional, batch_first=batch_first).eval()
    check(layer, torch.randn(3, 4, 5))
    check(layer, torch.randn(3, 4, 5), states("lstm", layer, 3 if batch_first else 4), freeze=False)


@pytest.mark.parametrize("mode", MODES)
def test_sequences_without_a_batch(mode):
    check(MODES[mode](5, 7).eval(), torch.randn(6, 5))


@pytest.mark.parametrize("mode", MODES)
def test_results_that_nobody_reads(mode):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = MODES[mode](5, 7, num_layers=2)

        def forward(self, x):
            y, last = self.layer(x)
            return last[1][1:] if mode == "lstm" else last[1:] + 0 * y[-1]

    check(Last().eval(), torch.randn(4, 3, 5))


@pytest.mark.parametrize("mode", MODES)
def test_strided_inputs(mode):
    layer = MODES[mode](5, 7).eval()
    wide = torch.randn(9, 6, 12)
    for x in (wide.transpose(0, 1)[:, 2:5, 1:6], wide[1::2, :, 2:12:2], torch.randn(5, 3, 4).permute(2, 1, 0), torch.randn(4, 1, 5).expand(4, 3, 5)):
        check(layer, x)
        torch._dynamo.reset()


@pytest.mark.parametrize("mode, freeze", in_turn(MODES, [True, False]))
def test_dynamic_sizes(mode, freeze):
    layer = MODES[mode](5, 40, num_layers=2, bidirectional=True, batch_first=True).eval()
    compiled = torch.compile(layer, backend="tenon", options={"freeze": freeze, "fallback": "error"}, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for batch, length in ((3, 4), (2, 9), (5, 3), (13, 2), (1, 6), (4, 1)):
            x = torch.randn(batch, length, 5)
            same(compiled(x), layer(x))
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="tenon", options={"freeze": freeze, "fallback": "error"}, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for batch, length in ((3, 4), (2, 9), (1, 6)):
            x, given = torch.randn(batch, length, 5), states(mode, layer, batch)
            same(compiled(x, given), layer(x, given))


@pytest.mark.parametrize("mode", MODES)
def test_a_tagger_is_one_graph(mode):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.layer, self.tags = nn.Embedding(50, 16), MODES[mode](16, 64, num_layers=2, batch_first=True), nn.Linear(64, 9)

        def forward(self, words):
            return self.tags(self.layer(self.embedding(words))[0])

    model, words = Tagger().eval(), torch.randint(0, 50, (4, 30))
    with torch.no_grad():
        report = tenon.explain(model, words)
        assert taken(report) and len(report.records) == 1
        same(report.result, model(words))


def test_updated_parameters_are_packed_again():
    layer, x = nn.LSTM(5, 7).eval(), torch.randn(4, 3, 5)
    compiled = check(layer, x)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(-2)
        same(compiled(x), layer(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16))
def test_other_dtypes_run_in_pytorch(mode, dtype):
    layer, x = MODES[mode](5, 7, num_layers=2).eval().to(dtype), torch.randn(4, 3, 5, dtype=dtype)
    with torch.no_grad():
        report = tenon.explain(layer, x)
        assert "a recurrent layer of" in str(report)
        same(report.result, layer(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("allowed", (False, True))
def test_autocast_without_gradients(mode, dtype, allowed):
    """Behind a linear layer the input has autocast's dtype and the parameters are f32. allowed: the user sets Dynamo's allow_rnn."""
    linear, layer = nn.Linear(5, 5), MODES[mode](5, 7)

    def function(x):
        return layer(linear(x))

    with torch._dynamo.config.patch(allow_rnn=True) if allowed else contextlib.nullcontext(), torch.no_grad(), torch.autocast("cpu", dtype):
        x = torch.randn(4, 3, 5)
        same(torch.compile(function, backend="tenon")(x), function(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("mode", MODES)
def test_dropout(mode):
    layer, x = MODES[mode](5, 7, num_layers=2, dropout=0.5), torch.randn(4, 3, 5)
    check(layer.eval(), x)
    layer.train()
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="tenon")
    with torch.no_grad():
        torch.manual_seed(3)
        actual = compiled(x)
        torch.manual_seed(3)
        same(actual, layer(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", (False, True))
def test_gradients(mode, bidirectional):
    layer = MODES[mode](5, 7, num_layers=2, bidirectional=bidirectional)
    x = torch.randn(4, 3, 5, requires_grad=True)
    found = []
    for function in (layer, torch.compile(layer, backend="tenon")):
        layer.zero_grad()
        x.grad = None
        y, _ = function(x)
        y.square().sum().backward()
        found.append([y.detach(), x.grad, *(p.grad for p in layer.parameters())])
    same(found[1], found[0])


def test_gradients_where_the_user_allows_recurrent_layers():
    layer, x = nn.LSTM(5, 7), torch.randn(4, 3, 5, requires_grad=True)
    with torch._dynamo.config.patch(allow_rnn=True):
        compiled = torch.compile(layer, backend="tenon")
        found = []
        for function in (layer, compiled):
            x.grad = None
            function(x)[0].square().sum().backward()
            found.append(x.grad)
    same(found[1], found[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", (False, True))
def test_packed_sequences(mode, bidirectional):
    layer = MODES[mode](5, 7, num_layers=2, bidirectional=bidirectional).eval()

    def function(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        y, last = layer(packed)
        return nn.utils.rnn.pad_packed_sequence(y)[0], last

    x, lengths = torch.randn(6, 3, 5), torch.tensor([6, 4, 1])
    with torch.no_grad():
        same(torch.compile(function, backend="tenon")(x, lengths), function(x, lengths))


def test_other_backends_still_break_the_graph():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    layer, x = nn.LSTM(5, 7).eval(), torch.randn(4, 3, 5)
    with torch.no_grad():
        torch.compile(layer, backend="tenon")(x)
        torch._dynamo.reset()
        torch.compile(layer, backend=backend)(x)
    assert not graphs

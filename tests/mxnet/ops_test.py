"""Every row of Tenon's table of MXNet's operators against MXNet 1.9.1: op_cases.py lists operands and attributes."""

import zlib

import numpy as np
import pytest

import tenon_symbol
from mxnet_help import assert_close, canonical_operators, node_symbol, run_mxnet, semantics
from op_cases import CASES

NOT_TRANSLATED = "Tenon does not translate this operator"


def operand(spec, dtype, rng):
    kind, shape = (spec[0], spec[1]) if spec and isinstance(spec[0], str) else ("normal", spec)
    if kind == "normal":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "i32":
        return rng.integers(1, spec[2], shape).astype("int32")
    if kind == "bool":
        return rng.integers(0, 2, shape).astype("bool")
    if kind == "int":
        return rng.integers(0, spec[2], shape).astype(dtype)
    if kind == "lengths":
        return rng.integers(1, spec[2] + 1, shape).astype(dtype)
    if kind == "halves":
        return (rng.integers(-6, 7, shape) / 2).astype(dtype)
    if kind == "u8":
        return rng.integers(0, 256, shape).astype("uint8")
    if kind == "specials":
        return rng.choice([-np.inf, np.inf, np.nan, -1.5, 0, 2], shape).astype(dtype)
    if kind == "ones":
        return np.ones(shape, dtype)
    if kind == "rows":
        return np.broadcast_to(np.arange(shape[-1]), shape).astype(dtype)
    if kind == "boxes":
        corner = rng.uniform(0, 1, (*shape[:-1], 2))
        return np.concatenate([corner, corner + rng.uniform(0.2, 1, corner.shape)], -1).astype(dtype)
    low, high = {"unit": (-0.9, 0.9), "positive": (0.5, 2), "above": (1.1, 3), "share": (0.1, 0.9)}[kind]
    return rng.uniform(low, high, shape).astype(dtype)


def cases():
    for number, case in enumerate(CASES):
        for dtype in case.dtypes:
            yield pytest.param(case, dtype, id=f"{number}-{case.op}-{dtype}")


def random_of(case):
    return np.random.default_rng(zlib.crc32(repr(case[:3]).encode()))


def made(case, dtype, rng):
    """(the symbol's text, {name: operand})"""
    arrays = {f"x{i}": operand(spec, dtype, rng) for i, spec in enumerate(case.operands)}
    return node_symbol(case.op, list(arrays), case.attrs, case.outputs), arrays


@pytest.mark.parametrize("case, dtype", cases())
def test_row(case, dtype):
    text, arrays = made(case, dtype, random_of(case))
    names = list(arrays)
    with semantics(case.op):
        want = run_mxnet(text, arrays)
    symbol = tenon_symbol.Symbol(text)
    assert [a[2:] for a in symbol.query()] == [(True, "")]
    graph = symbol.graph({n: (a.shape, a.dtype) for n, a in arrays.items()})
    got = graph.run([arrays[n] for n in names], [(w.shape, w.dtype) for w in want])
    for i, (g, w) in enumerate(zip(got, want)):
        assert_close(g, w, f"output {i}", arrays.values())


def translated(op):
    answer = tenon_symbol.Symbol(node_symbol(op, [], {})).query()[0]
    return answer[3] != NOT_TRANSLATED


def test_every_row_has_a_case():
    tested = {case.op for case in CASES}
    missing = [op for op, others in canonical_operators().items()
               if translated(op) and not tested & {op, *others}]
    assert not missing


@pytest.mark.parametrize("op", ["Convolution", "Deconvolution"])
def test_convolutions_with_the_channels_last(op):
    """MXNet computes them on GPUs only: compares with its channels first."""
    rng = np.random.default_rng(1)
    attrs = {"kernel": "(3, 2)", "stride": "(2, 1)", "pad": "(1, 0)", "num_filter": 6, "num_group": 2, "no_bias": False}
    filters = (6, 2, 3, 2) if op == "Convolution" else (4, 3, 3, 2)
    first = {n: rng.standard_normal(s).astype("float32") for n, s in (("x0", (2, 4, 7, 8)), ("x1", filters), ("x2", (6,)))}
    want = run_mxnet(node_symbol(op, list(first), attrs), first)[0].transpose(0, 2, 3, 1)
    last = {n: np.ascontiguousarray(a.transpose(0, 2, 3, 1)) if a.ndim == 4 else a for n, a in first.items()}
    symbol = tenon_symbol.Symbol(node_symbol(op, list(last), {**attrs, "layout": "NHWC"}))
    graph = symbol.graph({"x0": (last["x0"].shape, "float32")})  # the other shapes follow
    assert_close(graph.run(list(last.values()), [(want.shape, want.dtype)])[0], want)


@pytest.mark.parametrize("op, attrs, why", [
    ("RNN", {"state_size": 4, "num_layers": 1, "mode": "lstm", "use_sequence_length": True}, "sequence lengths on GPUs only"),
    ("RNN", {"state_size": 4, "num_layers": 1, "mode": "lstm", "lstm_state_clip_min": -1, "lstm_state_clip_max": 1}, "clips states on GPUs"),
    ("RNN", {"state_size": 4, "num_layers": 1, "mode": "gru", "projection_size": 2}, "not of an LSTM"),
    ("Pooling", {"kernel": "(3,)", "pooling_convention": "same"}, "fails for pooling_convention=same"),
    ("Convolution", {"kernel": "(3,)", "num_filter": 2, "layout": "CWN", "no_bias": True}, "layout CWN")])
def test_refusals(op, attrs, why):
    count = {"RNN": 4, "Pooling": 1, "Convolution": 2}[op] + ("use_sequence_length" in attrs) - (attrs.get("mode") == "gru")
    answer = tenon_symbol.Symbol(node_symbol(op, [f"x{i}" for i in range(count)], attrs)).query()[0]
    assert not answer[2] and why in answer[3]


def test_mxnet_ignores_what_an_lstm_does_on_gpus():
    """The reason for two of the refusals above: a symbol's results would depend on the device."""
    rng = np.random.default_rng(2)
    shapes = [(5, 2, 3), (4 * 4 * 9,), (1, 2, 4), (1, 2, 4), (2,)]
    arrays = {f"x{i}": rng.standard_normal(s).astype("float32") for i, s in enumerate(shapes)}
    arrays["x4"] = np.array([2, 5], "float32")
    attrs = {"state_size": 4, "num_layers": 1, "mode": "lstm"}
    names = list(arrays)
    want = run_mxnet(node_symbol("RNN", names[:4], attrs), arrays)[0]
    for count, more in ((5, {"use_sequence_length": True}), (4, {"lstm_state_clip_min": -0.01, "lstm_state_clip_max": 0.01})):
        got = run_mxnet(node_symbol("RNN", names[:count], {**attrs, **more}), arrays)[0]
        assert np.array_equal(got, want)

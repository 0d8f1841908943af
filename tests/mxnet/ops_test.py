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
    low, high = {"unit": (-0.9, 0.9), "positive": (0.5, 2), "above": (1.1, 3)}[kind]
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

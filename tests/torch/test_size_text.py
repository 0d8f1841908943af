"""Sizes as text: a written size evaluates to the value that sympy computes, and writing it adds no guard."""

import math

import pytest
import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import (BitwiseFn_bitwise_and, BitwiseFn_bitwise_or, BitwiseFn_bitwise_xor, CeilToInt, FloatPow, FloatTrueDiv, FloorDiv,
                                         FloorToInt, Identity, IntTrueDiv, Max, Min, Mod, ModularIndexing, OpaqueUnaryFn_log, OpaqueUnaryFn_log2,
                                         OpaqueUnaryFn_sqrt, PowByNatural, PythonMod, RoundToInt, ToFloat, TruncToInt)
from torch.utils._sympy.value_ranges import ValueRanges

from tenon.graph_text import Unsupported
from tenon.torch.lowering import layouts, sizes

N, M = sympy.symbols("N M", integer=True, positive=True)
K = sympy.Symbol("K", integer=True, nonnegative=True)
EXPRESSIONS = [N, N + 1, 2 * N - M, N * M, -N, N * (M + 1), N**2, FloorDiv(N, 2), FloorDiv(N + 1, 2) * 2 - 1, Mod(N, 3), PythonMod(N, 3),
               Max(N, M), Min(N, 2 * M), Max(N, M, 4), ModularIndexing(N, 2, 3), FloorDiv(N * M - 3, M + 1) + Mod(N - 1, 4) * 5,
               -3 * N + 7 * M - 11, N - (M + 1) * (N + 2),
               CeilToInt(FloatTrueDiv(ToFloat(N) - 0.5, sympy.Float(2))), FloorToInt(0.75 * ToFloat(N) - 0.5 * ToFloat(M) + 0.25),
               CeilToInt(0.5 * (ToFloat(N) - 1.5)), CeilToInt(ToFloat(N) - 0.5) + FloorToInt(IntTrueDiv(N, M)),
               sympy.floor(N / 2), sympy.ceiling((N - 2 * M) / 3), sympy.floor(N / 2 + sympy.Rational(1, 3)) + 2 * sympy.floor(N / M),
               sympy.ceiling(sympy.floor(N / 2) / 3)]


@pytest.mark.parametrize("e", EXPRESSIONS, ids=str)
def test_text_means_the_same(e):
    text = sizes.text(sizes.size(e))
    for n in range(1, 7):
        for m in range(1, 7):
            assert eval(text, {"N": n, "M": m, "max": max, "min": min}) == int(e.subs({N: n, M: m})), text


def test_identity_is_looked_through():
    assert sizes.text(Identity(N + M) * 3) in ("3*(M+N)", "3*(N+M)")


@pytest.fixture
def tracer():
    env = ShapeEnv()
    for s in (N, M, K):
        env.var_to_range[s] = ValueRanges(0 if s is K else 1, 2**40)
    with sizes.tracer(env):
        yield env


@pytest.mark.parametrize("to_int, of_float", [(TruncToInt, int), (FloorToInt, math.floor), (CeilToInt, math.ceil)])
def test_rounded_products_are_those_of_floats(to_int, of_float, tracer):
    values = [*range(1500), 2**20 - 1, 5**12, 10**9, 7 * 10**10]
    for c in [k / 100 for k in range(1, 300, 2)] + [k / 10 for k in range(1, 30)] + [1 / 3, 2 / 3, 1 / 7, math.pi]:
        written = sizes.size(to_int(c * ToFloat(K)))
        python = sizes.python(written.expr) if isinstance(written, sizes.Opaque) else sizes.text(written)
        written = eval(f"lambda K: {python}", {"math": math})
        for n in values:
            assert written(n) == of_float(c * n), (python, c, n)


OTHERS = {
    "root": (TruncToInt(FloatPow(ToFloat(N), sympy.Float(0.5))), lambda n, m: int(n**0.5)),
    "math's root": (TruncToInt(OpaqueUnaryFn_sqrt(ToFloat(N * M))), lambda n, m: int(math.sqrt(n * m))),
    "log2 and log": (TruncToInt(OpaqueUnaryFn_log2(ToFloat(N + 1)) * OpaqueUnaryFn_log(ToFloat(M))), lambda n, m: int(math.log2(n + 1) * math.log(m))),
    "round": (RoundToInt(IntTrueDiv(N, 2)), lambda n, m: round(n / 2)),
    "a quotient of a quotient": (RoundToInt(FloatTrueDiv(ToFloat(N), FloatTrueDiv(ToFloat(M), sympy.Float(0.3)))), lambda n, m: round(n / (m / 0.3))),
    "abs": (sympy.Abs(N - M), lambda n, m: abs(n - m)),
    "powers": (N**20 + PowByNatural(2, N), lambda n, m: n**20 + 2**n),
    "bits": (BitwiseFn_bitwise_or(BitwiseFn_bitwise_and(N, -4), BitwiseFn_bitwise_xor(M, 5)), lambda n, m: n & -4 | m ^ 5),
    "shifts": (FloorDiv(64 * M, PowByNatural(2, N)) + N * PowByNatural(2, M), lambda n, m: (64 * m >> n) + (n << m)),
    "inside words": (FloorToInt(0.7 * ToFloat(FloorDiv(N, 2))) * 3 - N, lambda n, m: math.floor(0.7 * (n // 2)) * 3 - n),
    "max of it": (PythonMod(Max(TruncToInt(0.7 * ToFloat(N)), M), 5), lambda n, m: max(int(0.7 * n), m) % 5),
    "inside itself": (CeilToInt(0.1 * ToFloat(RoundToInt(IntTrueDiv(N, M)))), lambda n, m: math.ceil(0.1 * round(n / m))),
    "below 0": (TruncToInt(0.5 * ToFloat(N) - 2.5), lambda n, m: int(0.5 * n - 2.5)),
    "a choice": (sympy.Piecewise((N, sympy.Gt(N, M)), (2 * M, True)), lambda n, m: n if n > m else 2 * m),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_sizes_are_computed_by_python(name, tracer):
    e, function = OTHERS[name]
    written, values = sizes.size(e), sizes.opaque(tracer)
    names = sizes.symbols(written)
    assert names & set(values) and sizes.plain(written) == e and sizes.size(e) == written
    limits = sizes.ranges(tracer, names)
    low, high = sizes.range_of(written, limits)
    for n in range(1, 9):
        for m in range(1, 9):
            given = {"N": n, "M": m}
            given |= {name: eval(sizes.python(o.expr), {"math": math}, given) for name, o in values.items()}
            assert eval(sizes.text(written), given) == function(n, m)
            assert all(limits[s][0] <= given[s] <= limits[s][1] for s in names & set(values))
            assert low <= function(n, m) <= high


def test_a_size_that_python_cannot_say(tracer):
    for e in (N / 2, sympy.sin(N), sympy.zeta(N), sympy.Float(0.5)):
        with pytest.raises(Unsupported):
            sizes.text(sizes.size(e))


@pytest.mark.parametrize("e", [N / 2, sympy.sqrt(N), sympy.sin(N), N**20, sympy.Rational(1, 2) * N * M,
                               CeilToInt(FloatTrueDiv(ToFloat(N), sympy.Float(2.7))), FloorToInt(0.7 * ToFloat(N)), CeilToInt(ToFloat(N) * ToFloat(M)),
                               CeilToInt(FloatTrueDiv(ToFloat(N), sympy.Float(1 / 3))), TruncToInt(ToFloat(N) - 1.5)])
def test_not_a_size(e):
    with pytest.raises(Unsupported):
        sizes.text(sizes.size(e))


def test_strides():
    assert layouts.dense_strides((2, 3, 4)) == (12, 4, 1) and layouts.dense_strides(()) == ()
    assert layouts.is_dense((1, 4, 1), (77, 1, 55)) and not layouts.is_dense((2, 3), (1, 2))
    assert layouts.is_dense((0, 3), (99, 7)) and layouts.is_dense((N, M), (M, 1))
    assert layouts.normal_strides((1, 3, 4), (100, 1, 3)) == (12, 1, 3)
    assert layouts.overlaps((3, 4), (0, 1)) and not layouts.overlaps((3, 4), (9, 1)) and not layouts.overlaps((2, 0, 3), (0, 3, 1))
    assert layouts.overlaps((3, 2), (1, 1)) and not layouts.overlaps((1, 4), (0, 1))
    assert layouts.overlaps((4, N, 3), (N + 2, 1, 1)) and layouts.overlaps((N, 3), (2, 1)) and not layouts.overlaps((N, 3), (3, 1))
    assert layouts.overlaps((N, M), (M, M)) and not layouts.overlaps((M, N - 2, 3), (3 * N - 6, 3, 1))

"""Sizes as text: what is written evaluates to what sympy says, and nothing is guarded."""

import math

import pytest
import sympy
from torch.utils._sympy.functions import (CeilToInt, FloatTrueDiv, FloorDiv, FloorToInt, Identity, IntTrueDiv, Max, Min, Mod,
                                         ModularIndexing, PythonMod, ToFloat, TruncToInt)

from tenon import symexpr

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
    text = symexpr.text(symexpr.size(e))
    for n in range(1, 7):
        for m in range(1, 7):
            assert eval(text, {"N": n, "M": m, "max": max, "min": min}) == int(e.subs({N: n, M: m})), text


def test_identity_is_looked_through():
    assert symexpr.text(Identity(N + M) * 3) in ("3*(M+N)", "3*(N+M)")


@pytest.mark.parametrize("to_int, of_float", [(TruncToInt, int), (FloorToInt, math.floor), (CeilToInt, math.ceil)])
def test_rounded_products_are_those_of_floats(to_int, of_float):
    sizes, refused = [*range(1500), 2**20 - 1, 5**12, 10**9, 7 * 10**10], set()
    for c in [k / 100 for k in range(1, 300, 2)] + [k / 10 for k in range(1, 30)] + [1 / 3, 2 / 3, 1 / 7, math.pi]:
        try:
            text = symexpr.text(symexpr.size(to_int(c * ToFloat(K))))
        except symexpr.Unsupported:
            refused.add(c)
            continue
        written = eval(f"lambda K: {text}")
        for n in sizes:
            assert written(n) == of_float(c * n), (text, c, n)
    assert math.pi in refused and len(refused) < 60 and (0.7 in refused) == (to_int != CeilToInt) and 0.8 not in refused
    for by in (3.0, 7.0, 1000.0):
        text = symexpr.text(symexpr.size(to_int(FloatTrueDiv(ToFloat(K), sympy.Float(by)))))
        written = eval(f"lambda K: {text}")
        for n in sizes:
            assert written(n) == of_float(n / by), (text, by, n)


@pytest.mark.parametrize("e", [N / 2, sympy.sqrt(N), sympy.sin(N), N**20, sympy.Rational(1, 2) * N * M,
                               CeilToInt(FloatTrueDiv(ToFloat(N), sympy.Float(2.7))), FloorToInt(0.7 * ToFloat(N)), CeilToInt(ToFloat(N) * ToFloat(M)),
                               CeilToInt(FloatTrueDiv(ToFloat(N), sympy.Float(1 / 3))), TruncToInt(ToFloat(N) - 1.5)])
def test_not_a_size(e):
    with pytest.raises(symexpr.Unsupported):
        symexpr.text(symexpr.size(e))


def test_strides():
    assert symexpr.dense_strides((2, 3, 4)) == (12, 4, 1) and symexpr.dense_strides(()) == ()
    assert symexpr.is_dense((1, 4, 1), (77, 1, 55)) and not symexpr.is_dense((2, 3), (1, 2))
    assert symexpr.is_dense((0, 3), (99, 7)) and symexpr.is_dense((N, M), (M, 1))
    assert symexpr.normal_strides((1, 3, 4), (100, 1, 3)) == (12, 1, 3)
    assert symexpr.overlaps((3, 4), (0, 1)) and not symexpr.overlaps((3, 4), (9, 1)) and not symexpr.overlaps((2, 0, 3), (0, 3, 1))
    assert symexpr.overlaps((3, 2), (1, 1)) and not symexpr.overlaps((1, 4), (0, 1))

#!/usr/bin/env python3
"""Computes minimax coefficients for the polynomial bodies of src/ops/math.

    tools/minimax.py [name ...]     needs mpmath; without names it prints every fit (minutes)

Each fit of FITS is made by Remez exchange on a dense grid. The coefficients are rounded to f32 or f64 one by one, lowest first;
after each, the others are fitted again. So the printed error is that of the polynomial with rounded coefficients; it does not
include the rounding of the evaluation.
"""
import sys

from mpmath import mp, mpf

mp.dps = 45


def round_to(x, bits):
    """The nearest number with `bits` bits of significand."""
    if x == 0:
        return mpf(0)
    e = mp.floor(mp.log(abs(x), 2)) - (bits - 1)
    return mp.nint(mp.ldexp(x, -int(e))) * mp.ldexp(mpf(1), int(e))


def chebyshev_grid(low, high, n):
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mpf(1) / 2) / n) for i in range(n)]


def remez(basis, target, weight, rounds=40):
    """Coefficients c minimising max |weight * (target - sum c basis)|; basis[g][i], target[g], weight[g] on a grid."""
    n = len(basis[0])
    g = len(basis)
    if n == 0:
        return [], max(abs(w * t) for w, t in zip(weight, target))
    live = [i for i in range(g) if weight[i] != 0]
    picks = [live[int((len(live) - 1) * (1 - mp.cos(mp.pi * k / n)) / 2)] for k in range(n + 1)]
    best = None
    for _ in range(rounds):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for row, p in enumerate(picks):
            for col in range(n):
                a[row, col] = basis[p][col]
            a[row, n] = (-1) ** row / weight[p]
            b[row] = target[p]
        try:
            x = mp.lu_solve(a, b)
        except ZeroDivisionError:
            break
        c = [x[i] for i in range(n)]
        err = [weight[p] * (target[p] - mp.fsum(ci * bi for ci, bi in zip(c, basis[p]))) for p in range(g)]
        worst = max(abs(e) for e in err)
        if best is None or worst < best[1]:
            best = (c, worst)
        if worst <= abs(x[n]) * mpf("1.0005"):
            break
        # Takes one extreme per run of equal sign, then the n + 1 adjacent extremes whose smallest is largest.
        extremes = []
        for p in live:
            if extremes and (err[p] > 0) == (err[extremes[-1]] > 0):
                if abs(err[p]) > abs(err[extremes[-1]]):
                    extremes[-1] = p
            else:
                extremes.append(p)
        while len(extremes) > n + 1:
            if len(extremes) == n + 2:
                extremes.pop(0 if abs(err[extremes[0]]) < abs(err[extremes[-1]]) else -1)
            else:
                k = min(range(len(extremes) - 1), key=lambda k: max(abs(err[extremes[k]]), abs(err[extremes[k + 1]])))
                del extremes[k:k + 2]
        if len(extremes) < n + 1:
            break
        picks = extremes
    return best


def polynomial(f, powers, low, high, bits, weight, fixed=(), points=300):
    """f(x) ~ sum c_k x^powers[k], minimising |weight * (f - p)|, coefficients rounded to `bits`."""
    low, high = mpf(low), mpf(high)
    grid = chebyshev_grid(low, high, points)
    target = [f(x) for x in grid]
    w = [mpf(weight(x)) for x in grid]
    done = [mpf(c) for c in fixed]
    powers = list(powers)
    columns = [[x ** p for p in powers] for x in grid]
    while True:
        k = len(done)
        rest = [t - mp.fsum(c * b for c, b in zip(done, col)) for t, col in zip(target, columns)]
        c, worst = remez([col[k:] for col in columns], rest, w)
        if k == len(powers):
            return done, worst
        done.append(round_to(c[0], bits))


def interpolate(f, count, low, high, bits):
    """The polynomial through `count` Chebyshev nodes. For high degrees, where Remez exchange converges badly."""
    low, high = mpf(low), mpf(high)
    nodes = chebyshev_grid(low, high, count)
    matrix = mp.matrix(count, count)
    for i, x in enumerate(nodes):
        for j in range(count):
            matrix[i, j] = x ** j
    c = [round_to(v, bits) for v in mp.lu_solve(matrix, mp.matrix([f(x) for x in nodes]))]
    error = max(abs(mp.fsum(v * x ** k for k, v in enumerate(c)) / f(x) - 1) for x in chebyshev_grid(low, high, 400))
    return c, error


TINY = mpf("1e-9")  # the low end of grids in x^2, since functions are 0/0 at 0 itself
LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mpf("1.0001")
HALF = mpf("0.50005")
NEAR_ONE = ((1 / mp.sqrt(2) - 1) * mpf("1.0001"), (mp.sqrt(2) - 1) * mpf("1.0001"))
QUARTER_TURN = mpf("0.89")  # pi / 4, plus the error of the count of turns
ATANH_NEAR_ONE = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.0001")) ** 2  # s^2, s = f / (2 + f)


def of_square(f):
    return lambda s: f(mp.sqrt(s))


def erfc_core(t):
    """erfc(a) e^(a^2) (a + 2) with t = 1 - 4 / (a + 2)."""
    d = (1 - t) / 4
    a = max(1 / d - 2, mpf(0))
    return mp.exp(a * a) * mp.erfc(a) / d


def log_erfc(a):
    return mp.log(mp.erfc(a)) / a


def two_floats(x):
    high = round_to(x, 24)
    return high + round_to(x - high, 24)


def fit(f, count, low, high, weight, fixed=()):
    return lambda bits: polynomial(f, range(count), low, high, bits, weight, fixed)


def odd(f, count, high):
    """(f(r) - r) / r^3 as a polynomial in r^2, r up to `high`; relative error of f."""
    return fit(of_square(lambda r: (f(r) - r) / r ** 3), count, TINY, mpf(high) ** 2, of_square(lambda r: r ** 3 / f(r)))


def exp_tail(r):
    return (mp.exp(r) - 1 - r) / r ** 2


# name: (fit for f32, fit for f64)
FITS = {
    "exp": [fit(exp_tail, n, -HALF_LN2, HALF_LN2, lambda r: r * r / mp.exp(r)) for n in (5, 10)],
    "expm1": [fit(exp_tail, n, -HALF_LN2, HALF_LN2, lambda r: abs(r * r / mp.expm1(r))) for n in (5, 11)],
    "exp2": [fit(lambda r: (mp.power(2, r) - 1) / r, n, -HALF, HALF, lambda r: abs(r) / mp.power(2, r)) for n in (6, 11)],
    "sinh": [odd(mp.sinh, n, HALF_LN2) for n in (2, 6)],
    "cosh": [fit(of_square(lambda r: (mp.cosh(r) - 1) / r ** 2), n, TINY, HALF_LN2 ** 2,
                 of_square(lambda r: r ** 2 / mp.cosh(r))) for n in (3, 6)],
    "log": [fit(lambda f: (mp.log1p(f) - f) / f ** 2, n, *NEAR_ONE, lambda f: abs(f * f / mp.log1p(f))) for n in (8, 20)],
    "sin": [odd(mp.sin, n, QUARTER_TURN) for n in (3, 7)],
    "cos": [fit(of_square(lambda r: (mp.cos(r) - 1 + r * r / 2) / r ** 4), n, mpf("1e-6"), QUARTER_TURN ** 2,
                of_square(lambda r: r ** 4 / mp.cos(r))) for n in (3, 6)],
    "atan": [odd(mp.atan, n, 1) for n in (8, 20)],
    "asin": [odd(mp.asin, n, 0.5) for n in (5, 12)],
    "erf": [fit(log_erfc, 8, mpf("1e-6"), mpf("3.93"), lambda a: a * mp.erfc(a) / mp.erf(a),
                fixed=[two_floats(-2 / mp.sqrt(mp.pi))]),
            fit(of_square(lambda r: mp.erf(r) / r), 14, TINY, 1, of_square(lambda r: r / mp.erf(r)))],
    "erfc": [fit(erfc_core, 9, -1, 1 - 4 / mpf("12.1"), lambda t: 1 / erfc_core(t)),
             lambda bits: interpolate(erfc_core, 27, -1, 1 - 4 / mpf("29.3"), bits)],
    # pow of f32 evaluates both polynomials in f64.
    "pow_log": [lambda bits: polynomial(of_square(lambda s: mp.log((1 + s) / (1 - s)) / LN2 / s), range(5), TINY,
                                        ATANH_NEAR_ONE, 53,
                                        of_square(lambda s: LN2 * s / mp.log((1 + s) / (1 - s)))),
                fit(of_square(lambda s: (mp.log((1 + s) / (1 - s)) / (2 * s) - 1 - s ** 2 / 3) / s ** 4), 7,
                    mpf("1e-5"), ATANH_NEAR_ONE, lambda s: s * s)],
    "pow_exp": [lambda bits: polynomial(lambda r: (mp.power(2, r) - 1) / r, range(7), -HALF, HALF, 53,
                                        lambda r: abs(r) / mp.power(2, r)), None],
}


def main():
    for name, fits in FITS.items():
        for dtype, bits, make in zip(("f32", "f64"), (24, 53), fits):
            if make is None or (len(sys.argv) > 1 and name not in sys.argv[1:]):
                continue
            *parts, error = make(bits)
            print(f"{name} {dtype}: error 2^{mp.nstr(mp.log(error, 2), 4)}")
            for part in parts:
                print("   ", ", ".join(float(c).hex() for c in part), flush=True)


if __name__ == "__main__":
    main()

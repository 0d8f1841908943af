"""Timing on a machine that others use too: contenders take turns, and what is reported is ratios within a round.

`interleave` times functions in alternating order; `Times` summarises one contender against another. A function is
repeated within a round until the round is long enough for the clock. Nothing is thrown away but the warm-up.
"""

import statistics
import time


def seconds(function, repeats=1):
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - start) / repeats


def interleave(functions, rounds, round_s=0.05, warm_up=2):
    """{name: seconds per call, one entry a round}. Every other round runs in reverse order."""
    repeats = {}
    for name, function in functions.items():
        once = min(seconds(function) for _ in range(warm_up))
        repeats[name] = max(1, round(round_s / max(once, 1e-7)))
    times = {name: [] for name in functions}
    for r in range(rounds):
        for name in list(functions)[:: -1 if r % 2 else 1]:
            times[name].append(seconds(functions[name], repeats[name]))
    return times


def speedup(base, other):
    """How many times faster `other` is than `base`: the median over rounds, never of times from different rounds."""
    return statistics.median(b / o for b, o in zip(base, other, strict=True))


def cpu_model():
    with open("/proc/cpuinfo") as f:
        fields = dict(line.split(":", 1) for line in f if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    simd = [name for name in ("avx2", "avx512f", "amx_tile") if name in fields.get("flags", "").split()]
    return f"{fields.get('model name', 'unknown CPU')} ({', '.join(simd) or 'no AVX2'})"

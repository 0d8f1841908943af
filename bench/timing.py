"""Timing on a machine that has other load: contenders take turns, and ratios are taken within a round.

`interleave` times functions in alternating order; within a round each is repeated until the time is long enough
for the clock. `speedup` compares two of them. Only the warm-up is discarded.
Tested by tests/torch/test_bench.py.
"""

import os
import statistics
import sys
import time


def seconds(function, repeats=1, clock=time.perf_counter):
    start = clock()
    for _ in range(repeats):
        function()
    return (clock() - start) / repeats


def interleave(functions, rounds, round_s=0.05, warm_up=2, limit_s=60, clock=time.perf_counter, rest_s=0):
    """{name: seconds per call, one entry per round}. Every other round runs in reverse order. After `limit_s` no new
    round starts, except that there are at least three. clock: time.thread_time leaves out the time of other
    processes, if one thread does all the work. rest_s: each turn begins with so many seconds without work, because threads
    of another library may wait for more work in a loop for a while, ONNX Runtime's for 20 ms, and with one call without a
    time, because memory that the contender before has returned to the system must be mapped again."""
    repeats = {}
    for name, function in functions.items():
        once = min(seconds(function, 1, clock) for _ in range(warm_up))
        repeats[name] = max(1, round(round_s / max(once, 1e-7)))
    times = {name: [] for name in functions}
    start = time.perf_counter()
    for r in range(rounds):
        if r >= 3 and time.perf_counter() - start > limit_s:
            break
        for name in list(functions)[:: -1 if r % 2 else 1]:
            if rest_s:
                time.sleep(rest_s)
                functions[name]()
            times[name].append(seconds(functions[name], repeats[name], clock))
    return times


def speedup(base, other):
    """How many times faster `other` is than `base`: the median over rounds of the ratio within a round."""
    return statistics.median(b / o for b, o in zip(base, other, strict=True))


def describe_machine():
    """The processor, its vector extensions, and its load before the run, so that numbers from a busy machine are
    marked."""
    with open("/proc/cpuinfo") as f:
        fields = dict(line.split(":", 1) for line in f if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    simd = [name for name in ("avx2", "avx512f", "amx_tile") if name in fields.get("flags", "").split()]
    load = os.getloadavg()[0]
    if load > 0.5:      # waiting for a thread that lost its CPU makes small kernels hundreds of times slower
        print(f"warning: load {load:.1f}: others use this machine, times will be off", file=sys.stderr)
    name = fields.get("model name", "unknown CPU")
    return f"{name} ({', '.join(simd) or 'no AVX2'}), {os.cpu_count()} CPUs, load {load:.1f} at the start"

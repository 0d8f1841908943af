"""Finds segments that PyTorch's own operators compute faster than the segment's program (options={"benchmark": True}).

After WARM_CALLS calls with the same sizes, the program and PyTorch compute ROUNDS calls each, in turn. If PyTorch is faster, it computes
all later calls with these sizes. The first turn of each does not count, because it may prepare what later turns use.
Tested by tests/torch/test_benchmark.py.
"""

import statistics
import time

from .refusal import Refused

WARM_CALLS = 20
ROUNDS = 7
CALLS = WARM_CALLS + 2 * ROUNDS  # after which it is decided who computes a segment
MOST_SHARE = 0.9  # of the program's time that PyTorch may take
MOST_SIZES = 64   # that are measured for a segment; Tenon computes further ones
clock = time.perf_counter


class Turn:
    """One call. sizes: the Sizes that measure it, or None; in_pytorch: who computes it."""

    __slots__ = ("sizes", "in_pytorch", "start")

    def __init__(self, sizes, in_pytorch):
        self.sizes, self.in_pytorch, self.start = sizes, in_pytorch, clock()

    def done(self):
        if self.sizes is not None:
            self.sizes.add(self.in_pytorch, clock() - self.start)


IN_TENON, IN_PYTORCH = Turn(None, False), Turn(None, True)


class Sizes:
    """The calls of a segment with the same sizes. Calls of several threads at once disturb only the times."""

    def __init__(self, values, tell):
        self.values, self.tell, self.calls, self.times, self.decided = values, tell, 0, ([], []), None

    def turn(self):
        if self.decided is None:
            self.calls += 1
            number = self.calls - WARM_CALLS - 1
            return Turn(self, number % 2 == 1) if number >= 0 else IN_TENON
        return self.decided

    def add(self, in_pytorch, seconds):
        self.times[in_pytorch].append(seconds)
        if self.decided is None and min(map(len, self.times)) >= ROUNDS:
            tenon, pytorch = (statistics.median(times[1:]) for times in self.times)
            self.decided = IN_PYTORCH if pytorch <= MOST_SHARE * tenon else IN_TENON
            if self.decided is IN_PYTORCH:
                sizes = f" for sizes {', '.join(map(str, self.values))}" if self.values else ""
                self.tell(Refused(f"measured{sizes}: {1e6 * pytorch:.1f} us in PyTorch, {1e6 * tenon:.1f} us in Tenon"))


class Benchmark:
    """The measurements of one segment. tell(reason) is called when PyTorch is found to be faster."""

    def __init__(self, tell):
        self.tell, self.sizes = tell, {}

    def turn(self, *values):
        """The Turn of a call. values: of the segment's symbols."""
        sizes = self.sizes.get(values)
        if sizes is None:
            if len(self.sizes) >= MOST_SIZES:
                return IN_TENON
            sizes = self.sizes.setdefault(values, Sizes(values, self.tell))
        return sizes.turn()

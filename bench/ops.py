#!/usr/bin/env python3
"""`./dev bench ops`: measures functions of PyTorch one by one, as the ratio of Tenon's time to eager's, in turns in one run.

A row is a function. It is measured for each of its dtypes, for each size in bytes of its largest tensor, and for each number
of threads. A cliff is a measurement that is slower than eager by more than a factor and by more than a time. Cliffs come first
in the table, the worst at the top; other rows are printed on request. Every answer is compared with eager's first. A ratio is
of the shortest times of all rounds, since other load on the machine only adds time; with one thread it is of CPU times.

ops_contract.txt lists the known cliffs with their reasons. The exit status is 1 if Tenon's run finds another cliff. The run
also prints the lines of the file that are no longer needed.
"""

import argparse
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                          # noqa: E402

from bench import contract                               # noqa: E402
from bench.contenders import compiled, contender         # noqa: E402
from bench.ops_table import DTYPES, ROWS                 # noqa: E402
from bench.table import Progress, aligned                # noqa: E402
from bench.timing import describe_machine, interleave    # noqa: E402

SIZES = {"64B": 64, "4K": 4 << 10, "64K": 64 << 10, "1M": 1 << 20, "8M": 8 << 20, "64M": 64 << 20}
FACTOR, SECONDS = 1.5, 20e-6     # a cliff exceeds both
UNKNOWN = "NOT IN ops_contract.txt"


class Measured:
    def __init__(self, row, dtype, size, threads, times, notes):
        self.row, self.dtype, self.size, self.threads, self.notes = row, dtype, size, threads, notes
        self.eager, self.other = (min(times[who]) if who in times else None for who in ("eager", "other"))

    @property
    def ratio(self):
        return self.other / self.eager if self.other else float("inf")

    @property
    def cliff(self):
        return not self.other or self.ratio > FACTOR and self.other - self.eager > SECONDS

    def cells(self):
        us = lambda seconds: None if seconds is None else 1e6 * seconds
        return [self.row, self.dtype, self.size, self.threads, us(self.eager), us(self.other),
                f"{self.ratio:.2f}", "; ".join(self.notes)]


def wrong(answer, reference):
    """A sentence if the answers differ by more than the rounding that another order of a fold causes; otherwise None."""
    for a, r in zip(_tensors(answer), _tensors(reference), strict=True):
        if a.dtype != r.dtype or a.shape != r.shape:
            return f"{a.dtype}{list(a.shape)} for {r.dtype}{list(r.shape)}"
        a, r = (t.double() if t.is_floating_point() else t for t in (a, r))
        slack = 2e-2 if a.dtype == torch.float64 and _tensors(reference)[0].element_size() == 2 else 1e-3
        if not torch.allclose(a, r, rtol=slack, atol=slack * (1 + r.abs().max().item() if r.numel() else 0), equal_nan=True):
            return "another answer"
    return None


def _tensors(answer):
    return list(answer) if isinstance(answer, (tuple, list)) else [answer]


def measure(row, dtype, size, threads, options):
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    function, args = ROWS[row].make(DTYPES[dtype], SIZES[size])
    plain = compiled(function, "eager")     # so that both sides include Dynamo's own time
    calls, notes = {"eager": lambda: plain(*args)}, []
    try:
        fast, reasons = _compile(function, args, options, ROWS[row].symbolic or options.symbolic)
        notes += reasons
        if text := wrong(fast(*args), function(*args)):
            notes.append(f"WRONG: {text}")
        calls["other"] = lambda: fast(*args)
    except Exception as error:      # the other functions are still measured
        notes.append(f"FAILS: {type(error).__name__}: {str(error).splitlines()[0]}")
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = interleave(calls, options.rounds, options.round_s, limit_s=20, clock=clock)
    return Measured(row, dtype, size, threads, times, notes)


def _compile(function, args, options, symbolic):
    """The compiled function, and notes on what PyTorch runs for it."""
    name = {"tenon": "tenon_symbolic"}.get(options.backend) if symbolic else options.backend
    fast = compiled(function, name or options.backend)
    if not options.backend.startswith("tenon"):
        fast(*args)
        return fast, []
    import tenon
    tenon.reset_stats()
    fast(*args)
    stats = tenon.stats()
    notes = [f"in PyTorch: {why}" for why in stats["fallback_reasons"]]
    if stats.get("reference_steps"):
        notes.append(f"{stats['reference_steps']} reference steps")
    return fast, notes


def main():
    options = parse()
    machine = describe_machine()
    rows = [name for name in ROWS if not options.filters or any(re.search(f, name) for f in options.filters)]
    if not rows:
        sys.exit(f"bench ops: no row matches; there are {', '.join(ROWS)}")
    done = []
    for row in rows:
        dtypes = [d for d in (options.dtypes or ROWS[row].dtypes) if d in ROWS[row].dtypes]
        with Progress(row), torch.no_grad():
            for dtype in dtypes:
                for size in options.sizes:
                    for threads in options.threads:
                        done.append(measure(row, dtype, size, threads, options))
    entries = contract.read(contract.FILE.read_text()) if options.backend == "tenon" else []
    report(done, entries, options, machine)
    bad = any("WRONG" in n or "FAILS" in n or n == UNKNOWN for m in done for n in m.notes)
    return 1 if bad else 0


def report(done, entries, options, machine):
    if options.backend == "tenon":
        for m in done:
            if m.cliff:
                m.notes.append(contract.reason(entries, m) or UNKNOWN)
    header = ["function", "dtype", "size", "threads", "eager us", f"{options.backend} us", "ratio", ""]
    done.sort(key=lambda m: (not m.cliff, -m.ratio))
    cliffs = [m for m in done if m.cliff]
    shown = done if options.all else cliffs + [m for m in done if not m.cliff and m.notes]
    print(aligned(header, [m.cells() for m in shown]))
    print(f"\n{machine}. Shortest times of {options.rounds} rounds.\n"
          f"{len(cliffs)} of {len(done)} are slower than {FACTOR}x eager and by more than {1e6 * SECONDS:.0f} us.")
    for entry in contract.unneeded(entries, done):
        print(f"ops_contract.txt: nothing needs {','.join(entry.functions)} {','.join(entry.dtypes)} {','.join(entry.sizes)}")
    if ratios := [m.ratio for m in done if m.other]:
        print(f"{options.backend} over eager, geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}")


def parse():
    listed = lambda known, kind=str: lambda text: [_known(known, kind(t)) for t in text.split(",")]
    parser = argparse.ArgumentParser(prog="./dev bench ops", description=__doc__.split("\n\n")[0])
    parser.add_argument("filters", nargs="*", help="only rows that one of these regular expressions finds")
    parser.add_argument("--dtypes", type=listed(DTYPES), help=f"instead of each row's: {','.join(DTYPES)}")
    parser.add_argument("--sizes", type=listed(SIZES), default=["64B", "1M"], help=f"of {','.join(SIZES)}; default 64B,1M")
    parser.add_argument("--threads", type=listed(None, int), default=[1], help="default 1; or 1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--round-s", type=float, default=0.01, help="seconds of a round for each contender")
    parser.add_argument("--symbolic", action="store_true", help="Tenon with symbols for all sizes")
    parser.add_argument("--all", action="store_true", help="print what is no cliff too")
    parser.add_argument("--backend", type=contender, default="tenon", help="another backend instead")
    return parser.parse_args()


def _known(known, value):
    if known is not None and value not in known:
        raise argparse.ArgumentTypeError(f"{value} is none of {', '.join(known)}")
    return value


if __name__ == "__main__":
    sys.exit(main())

"""Text output: aligned and Markdown tables, and one progress line on stderr.

A cell is a string or a number; None is printed as "-". Numbers are right-aligned.
"""

import math
import sys
import threading
import time


def show(value, digits=3):
    """`digits` significant digits, never an exponent in the usual range."""
    if value is None:
        return "-"
    if isinstance(value, float):
        if value and math.isfinite(value):
            return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
        return str(value)
    return str(value)


def aligned(header, rows, separator="  "):
    cells = [[show(c) for c in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    align = lambda row: separator.join(c.ljust(w) if i == 0 else c.rjust(w)
                                       for i, (c, w) in enumerate(zip(row, widths))).rstrip()
    return "\n".join([align(cells[0]), separator.join("-" * w for w in widths), *map(align, cells[1:])])


def markdown(header, rows):
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(map(show, row)) + " |" for row in [header, rule, *rows])


class Progress:
    """`with Progress("resnet50: tenon"):` shows what runs and for how long: on a terminal as a line that rewrites
    itself, elsewhere as one plain line at the start."""

    def __init__(self, what):
        self.what, self.done, self.thread = what, threading.Event(), None

    def __enter__(self):
        if sys.stderr.isatty():
            self.thread = threading.Thread(target=self.tick, daemon=True)
            self.thread.start()
        else:
            print(f"... {self.what}", file=sys.stderr, flush=True)

    def tick(self):
        start = time.monotonic()
        while True:
            seconds = time.monotonic() - start
            print(f"\r\033[K... {self.what} ({seconds:.0f} s)", end="", file=sys.stderr, flush=True)
            if self.done.wait(1.0):
                return

    def __exit__(self, *_):
        if self.thread:
            self.done.set()
            self.thread.join()
            print("\r\033[K", end="", file=sys.stderr, flush=True)

"""Which pairs of a case and a way to run it `./dev test` takes. Compiling in PyTorch takes a second or two, so cases take the ways in
turn; TENON_TESTS=all takes every way for every case.
"""

import os


def in_turn(cases, ways, count=1):
    """(case, way) for each case and `count` of the ways: those of case k begin with way k, and lie as far apart as they can."""
    if os.environ.get("TENON_TESTS") == "all":
        count = len(ways)
    step = len(ways) // count
    return [(case, ways[(k + i * step) % len(ways)]) for k, case in enumerate(cases) for i in range(count)]

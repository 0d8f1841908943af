"""Which pairs of a case and a way to run it `./dev test` takes. Compiling in PyTorch takes a second or two, so cases take the ways in
turn; TENON_TESTS=all takes every way for every case.
"""

import os


def in_turn(cases, ways, count=1):
    """(case, way) for each case and `count` of the ways. Case k gets way k and others, as far apart in the list as possible."""
    if os.environ.get("TENON_TESTS") == "all":
        count = len(ways)
    step = len(ways) // count
    return [(case, ways[(k + i * step) % len(ways)]) for k, case in enumerate(cases) for i in range(count)]

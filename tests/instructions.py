#!/usr/bin/env python3
"""Counts the instructions of kernels and of a call under callgrind, and compares them with tests/instructions.txt.

instructions.py EXECUTABLE: EXECUTABLE is build/release/tests/instructions. A count that is more than a tolerance higher or lower fails.
TENON_BLESS=1 writes the file. The kernels are compiled for AVX2, so their counts are the same on every machine with AVX2. `call` also
counts code that g++ compiled, so it has a wider tolerance. The exit status is 77 (skipped) without AVX2 or valgrind.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXPECTED = Path(__file__).with_name("instructions.txt")
TOLERANCE, TOLERANCE_OF_CALL = 2, 10  # per cent
OUTSIDE = ("TENON_", "OMP_", "GOMP_", "GLIBC_", "LD_", "MALLOC_")  # variables that change counts
HEAD = """# Instructions of one call, AVX2, one thread, and the warm call of a small program. Made by callgrind:
# TENON_BLESS=1 ctest --preset release -R instructions
"""


def count(executable):
    """name -> instructions of one call."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", executable], capture_output=True, text=True,
                              env={name: value for name, value in os.environ.items() if not name.startswith(OUTSIDE)} |
                              {"TENON_ISA": "avx2", "TENON_CACHE": "on", "TENON_CACHE_DIR": f"{folder}/cache", "OMP_NUM_THREADS": "1"})
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}")
        counts = {}
        for path in sorted(Path(folder).glob("out.*"), key=lambda p: int(p.suffix[1:])):
            text = path.read_text()
            if name := re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE):
                counts[name[1]] = round(int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)[1]) / int(done.stdout))
        return counts


def main():
    if not shutil.which("valgrind") or "avx2" not in Path("/proc/cpuinfo").read_text():
        print("skipped: valgrind or AVX2 is missing")
        return 77
    found = count(sys.argv[1])
    if os.environ.get("TENON_BLESS") == "1":
        EXPECTED.write_text(HEAD + "".join(f"{name} {n}\n" for name, n in found.items()))
        return 0
    wanted = dict(line.split() for line in EXPECTED.read_text().splitlines() if not line.startswith("#"))
    wrong = [f"{name}: {wanted.get(name, 'nothing')} expected, {found.get(name, 'nothing')} counted" for name in {**wanted, **found}
             if name not in found or name not in wanted or abs(found[name] / int(wanted[name]) - 1) * 100 > (TOLERANCE_OF_CALL if name == "call" else TOLERANCE)]
    for name, n in found.items():
        print(f"{name:16} {n:9} {100 * (n / int(wanted.get(name, n)) - 1):+.2f} %")
    if wrong:
        print("instructions of a call:", *wrong, sep="\n  ")
        print("If the change is meant, TENON_BLESS=1 ctest --preset release -R instructions writes tests/instructions.txt.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

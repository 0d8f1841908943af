"""The contract, ops_contract.txt, lists what `./dev bench ops` may find slower than eager, with reasons; a run is compared with it.

A line is: functions, dtypes and sizes (comma-separated, * for all), the greatest ratio of Tenon's time to eager's, the reason.
Tested by tests/torch/test_bench.py.
"""

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("ops_contract.txt")


@dataclass
class Entry:
    functions: list
    dtypes: list
    sizes: list
    most: float
    reason: str

    def covers(self, row, dtype, size):
        return all(one in those or those == ["*"]
                   for one, those in ((row, self.functions), (dtype, self.dtypes), (size, self.sizes)))


def read(text):
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split(None, 4)
        if len(cells) < 5:
            raise ValueError(f"line {number} has no reason: {line}")
        entries.append(Entry(*(cell.split(",") for cell in cells[:3]), float(cells[3]), cells[4].strip()))
    return entries


def reason(entries, measured):
    """The reason why this measurement may be a cliff; None if it may not be one."""
    for entry in entries:
        if entry.covers(measured.row, measured.dtype, measured.size) and measured.ratio <= entry.most:
            return entry.reason
    return None


def unneeded(entries, done):
    """The entries that cover some measurement, but no cliff."""
    covered = [(e, [m for m in done if e.covers(m.row, m.dtype, m.size)]) for e in entries]
    return [e for e, those in covered if those and not any(m.cliff for m in those)]

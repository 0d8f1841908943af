"""`./dev campaign NAME [ARGUMENTS]`: runs a campaign and prints a table; exit status 1 if anything is wrong, raises, crashes or hangs.

Records go to build/campaign/NAME.jsonl, one JSON object per case: class, detail, repro (the command that runs this case
again), the nodes that Tenon and PyTorch ran, seconds. The table counts cases by class. Failures follow, grouped by class and by
message without numbers.
"""

import argparse
import collections
import importlib
import json
import os
import re
import sys
import time
from pathlib import Path

from . import pool

CAMPAIGNS = ("op_db", "models", "packages", "programs")
BAD = ("wrong", "raised", "reference", "crash", "timeout", "tool")
ORDER = ("bundle", "right", "unstable", "random", "illegal", "not traceable", "pytorch wrong", *BAD)


def parse(argv):
    parser = argparse.ArgumentParser(prog="./dev campaign", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=CAMPAIGNS)
    name = next((a for a in argv if a in CAMPAIGNS), None)
    parser.add_argument("--ci", action="store_true", help="a size for every change, minutes instead of hours")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="worker processes (default: one per core)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--backend", default="tenon", help="another torch.compile backend, or planted_* to test the campaign")
    parser.add_argument("--limit", type=float, help="seconds of the processor a case may take")
    parser.add_argument("--minutes", type=float, help="start no job after this time")
    parser.add_argument("--out", help="the file of records (default build/campaign/NAME.jsonl)")
    if name:
        importlib.import_module(f"campaign.{name}").add_arguments(parser)
    return parser.parse_args(argv)


class Table:
    """Collects records, writes them to a file and prints the totals."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.records, self.start = path.open("w"), [], time.monotonic()

    def add(self, record):
        self.records.append(record)
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()
        if record["class"] in BAD:
            print(f"{record['class']:8} {record.get('id', '')}: {record.get('detail', '')[:300]}\n         {record.get('repro', '')}", flush=True)
        if len(self.records) % 200 == 0:
            seconds = time.monotonic() - self.start
            print(f"... {len(self.records)} cases in {seconds:.0f} s ({len(self.records) / seconds:.2f}/s)", file=sys.stderr, flush=True)

    def counts(self):
        return collections.Counter(r["class"] for r in self.records)

    def print(self):
        counts, seconds = self.counts(), time.monotonic() - self.start
        print(f"\n{'class':14} {'cases':>7}")
        for name in sorted(counts, key=lambda c: (ORDER.index(c) if c in ORDER else 99, c)):
            print(f"{name:14} {counts[name]:7}")
        tenon, pytorch = (sum(r.get(k, 0) for r in self.records) for k in ("tenon_nodes", "pytorch_nodes"))
        share = f"nodes run by Tenon {tenon}, by PyTorch {pytorch} ({100 * tenon / (tenon + pytorch):.1f} % Tenon)" if tenon + pytorch else "no nodes counted"
        print(f"{share}; {len(self.records)} cases in {seconds:.0f} s ({len(self.records) / max(seconds, 1e-9):.2f}/s)")
        reasons = collections.Counter()
        for r in self.records:
            for sentence, n in r.get("reasons", {}).items():
                reasons[re.sub(r"\d+", "N", sentence)] += n
        if reasons:
            print("\nwhat runs in PyTorch, most frequent first:")
            for sentence, n in reasons.most_common(12):
                print(f"{n:7}  {sentence[:150]}")
        slow = sorted((r for r in self.records if r.get("ratio", 0) > 20 and r.get("later_ms", 0) > 5), key=lambda r: -r["ratio"])
        late = sorted((r for r in self.records if r.get("compile_ms", 0) > 3000), key=lambda r: -r["compile_ms"])
        for title, rows, key in (("slower than eager by", slow, "ratio"), ("compiling, ms", late, "compile_ms")):
            if rows:
                print(f"\n{title}:")
                for r in rows[:10]:
                    print(f"{r[key]:9}  {r['id']}   {r['repro']}")
        causes = collections.defaultdict(list)
        for r in self.records:
            if r["class"] in BAD:
                causes[(r["class"], r.get("tag") or re.sub(r"\d+", "N", r.get("detail", ""))[:120])].append(r)
        if causes:
            print(f"\n{sum(map(len, causes.values()))} failures of {len(causes)} looks:")
            for (kind, look), rows in sorted(causes.items(), key=lambda item: -len(item[1])):
                smallest = min(rows, key=lambda r: len(r.get("small", r.get("id", ""))))
                print(f"{len(rows):5} {kind}: {look}\n      {smallest['repro']}")


def main(argv):
    args = parse(argv)
    options = vars(args)
    campaign = importlib.import_module(f"campaign.{args.name}")
    options["limit"] = args.limit or campaign.LIMIT
    jobs = campaign.jobs(options)
    if not jobs:
        return 0
    if args.minutes:
        options["end"] = time.time() + 60 * args.minutes
    path = Path(args.out) if args.out else pool.ROOT / "build" / "campaign" / f"{args.name}.jsonl"
    table = Table(path)
    pool.run(args.name, jobs, options, table.add)
    table.print()
    status = 1 if any(table.counts()[c] for c in BAD) else 0
    finish = getattr(campaign, "finish", None)
    return finish(table.records, options) if finish else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

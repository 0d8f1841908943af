#!/usr/bin/env python3
"""`./dev bench all [--list]`: runs every `./dev bench` command that README.md and docs/numbers.md quote, one after the other, which takes hours.
Writes each output to build/bench/NUMBER_NAME.txt too. --list prints the commands and runs none. Tested by tests/docs_test.py.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/numbers.md")


def commands():
    """The commands in the order of the pages, each once, without words that stand for something, as MODEL... or [FILTER...]."""
    found = {}
    for page in PAGES:
        for text in re.findall(r"`((?:[A-Z_]+=\S+ )?\./dev bench[^`]*)`", (ROOT / page).read_text(encoding="utf-8")):
            if "--help" in text.split():
                continue
            found[" ".join(word for word in text.split() if not re.search(r"\.\.\.|\[|\]", word))] = None
    return list(found)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench all", description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    if parser.parse_args().list:
        print(*commands(), sep="\n")
        return 0
    folder, failed = ROOT / "build/bench", []
    folder.mkdir(parents=True, exist_ok=True)
    for number, command in enumerate(commands()):
        print(f"\n== {command}", flush=True)
        words = command.split()
        name = words[words.index("bench") + 1] if words[-1] != "bench" else "models"
        setting = dict(word.split("=", 1) for word in words if "=" in word and word.split("=")[0].isupper())
        with open(folder / f"{number:02}_{name}.txt", "w", encoding="utf-8") as out:
            process = subprocess.Popen(["./dev", *words[words.index("bench"):]], cwd=ROOT, env={**os.environ, **setting}, text=True,
                                       stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
            for line in process.stdout:
                print(line, end="", flush=True)
                out.write(line)
        if process.wait():
            failed.append(command)
    print(*(f"failed: {command}" for command in failed), sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

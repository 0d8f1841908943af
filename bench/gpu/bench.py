#!/usr/bin/env python3
"""`./dev gpu`: runs every check and benchmark that needs a GPU in at most ten minutes and writes gpu.json and a page, gpu.md.

The sections: what was found (`tenon doctor`); every kind of kernel on random data with poisoned outputs, against eager in
float64; sizes that reach every form of a kernel; captures and streams; bandwidths of fused kernels and products of matrices
against eager, a copy and Inductor in the same run; the cost of a call on the host; models against eager and Inductor; a part of
the checks under compute-sanitizer.

Each section runs in its own process with its share of the seconds. If a work of a section fails, hangs, or makes the device
refuse all further work, the section continues behind it in a new process, and other sections are not affected. Rows are
written as they come. The exit status is 1 if something is wrong or failed, and 3 if not everything ran. `--device cpu --tiny`
tries the script itself.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch                          # noqa: E402

from bench.gpu import check, speed                           # noqa: E402
from bench.gpu.tools import Clock, Skip                      # noqa: E402
from bench.table import Progress, markdown                   # noqa: E402

LOST = 75           # exit status of a section when the device refuses further work
LATE = 0.15         # a section is killed when it exceeds its seconds by this share


@dataclass(frozen=True)
class Section:
    works: Callable         # options -> (name, work) each; work(clock) yields rows
    share: int              # share of the seconds of the run
    patience: int           # seconds without a row after which the process counts as hung
    title: str
    header: list            # if the last column is "answer", it holds "right" or what is wrong
    brief: bool = False     # the page shows only the rows that are wrong


RATIOS, FIRST = ["eager / tenon", "inductor / tenon"], ["compile ms", "inductor's first call s", "notes"]
SECTIONS = {
    "check": Section(check.check, 110, 40, "Every kind of kernel",
                     ["case", "type", "size", "distance / allowed", "answer"], True),
    "schedules": Section(check.schedules, 60, 40, "Every form of a kernel",
                         ["case", "type", "size", "meant", "forms", "distance / allowed", "answer"]),
    "calls": Section(check.calls, 30, 30, "Captures and streams", ["call", "type", "answer"]),
    "bandwidth": Section(speed.bandwidth, 130, 60, "Bandwidth, GB/s, bf16, captured, rotating buffers",
                         ["kernel", "MiB", "copy", "eager", "inductor", "tenon", "target", "tenon / target", *RATIOS, *FIRST]),
    "products": Section(speed.products, 25, 60, "Products of matrices, TFLOP/s, bf16, captured",
                        ["kernel", "rows x columns x terms", "eager", "inductor", "tenon", *RATIOS, *FIRST]),
    "host": Section(speed.host, 25, 40, "Host, us per call", ["steps", "kernels", "contender", "us", "us per kernel"]),
    "models": Section(speed.models, 130, 90, "Models: times over Tenon's",
                      ["model", "type", "eager ms", *RATIOS, "first call s", "compile ms", "fallbacks", "answer"]),
    "sanitizer": Section(check.sanitizer, 55, 600, "compute-sanitizer", ["tool", "section", "rows", "found", "answer"]),
}


# A section's process ---------------------------------------------------------------------------------------

def here(name, options):
    """Runs a section in this process, from work number options.skip on, and writes lines of JSON."""
    clock = Clock(torch.device(options.device), options.seconds)
    works = list(SECTIONS[name].works(options))
    with open(options.out / f"{name}.jsonl", "a") as lines, torch.no_grad():
        def say(**what):
            print(json.dumps(what), file=lines, flush=True)

        say(of=len(works))
        for label, work in islice(works, options.skip, None):
            if clock.left() <= 0:
                return 0
            say(begun=label)
            try:
                for row in work(clock):
                    say(row=row)
                clock.wait()
            except Skip as why:
                say(skipped=str(why))
            except Exception:
                say(failed=traceback.format_exc(limit=-5))
            say(done=label)
            if not clock.alive():
                return LOST
            if clock.gpu:
                torch.cuda.empty_cache()
    return 0


# The run ---------------------------------------------------------------------------------------------------

def read(file):
    """Reads the lines that the process of a section has written so far."""
    part = {"of": None, "begun": 0, "done": 0, "rows": [], "skipped": [], "failed": []}
    label = None
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            message = json.loads(line)
        except ValueError:      # the process died while it wrote the line
            continue
        part["of"] = message.get("of", part["of"])
        label = message.get("begun", label)
        part["begun"] += "begun" in message
        part["done"] += "done" in message
        for kind in ("skipped", "failed"):
            if kind in message:
                part[kind].append([label, message[kind]])
        if "row" in message:
            part["rows"].append(message["row"])
    return part


def measure(name, options, arguments, seconds, environment):
    """Runs a section in its own process. If the process dies, starts another one behind the work at which it died. Returns what
    all of them wrote."""
    out, end = options.out / f"{name}.jsonl", time.monotonic() + seconds
    log = out.with_suffix(".log")
    out.write_text("")
    log.write_text("")
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, __file__, *arguments, "--here", name, "--seconds", f"{left:.1f}",
                   "--skip", str(read(out)["begun"])]
        with open(log, "ab") as sink:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                                       start_new_session=True)
        died = wait(process, out, end + LATE * seconds, SECTIONS[name].patience)
        part = read(out)
        if died:
            last = "\n".join(log.read_text(errors="replace")[-1500:].splitlines()[-12:])
            with open(out, "a") as lines:
                print("", json.dumps({"failed": f"its process {died}: {last}"}), sep="\n", file=lines)
                if part["begun"] > part["done"]:
                    print(json.dumps({"done": None}), file=lines)
        if process.returncode != LOST and (not died or part["begun"] == part["done"]):
            break
    part = read(out)
    part["state"] = ("done" if part["done"] == part["of"] else "not run" if not part["begun"] else
                     f"out of time: {part['done']} of {part['of']}")
    return part


def wait(process, out, end, patience):
    """The reason why the process ended early; None if it ended well or at the end of its time."""
    start = time.time()
    try:
        while process.poll() is None:
            if time.monotonic() > end:
                return None
            if time.time() - max(start, out.stat().st_mtime) > patience:
                return f"hung for {patience} s"
            time.sleep(0.05)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)      # also kills the processes that it started
        except ProcessLookupError:
            pass
        process.wait()
    return None if process.returncode in (0, LOST) else f"ended with {process.returncode}"


def wrong(name, part):
    judged = SECTIONS[name].header[-1] == "answer"
    return [row for row in part["rows"] if judged and row[-1] != "right"]


def problems(sections):
    """Two lists of sentences: what is wrong or failed, and what did not run."""
    bad, missing = [], []
    for name, part in sections.items():
        if rows := wrong(name, part):
            bad.append(f"{name}: {len(rows)} of {len(part['rows'])} rows wrong")
        if part["failed"]:
            bad.append(f"{name}: {len(part['failed'])} failed")
        if part["state"] != "done":
            missing.append(f"{name}: {part['state']}")
    return bad, missing


def summary(name, part):
    sentences = speed.summary(SECTIONS[name].header, part["rows"]) if part["rows"] else []
    if name == "schedules" and part["rows"]:
        came = {(row[0], row[3]): False for row in part["rows"]}
        for case, _, _, meant, forms, *_ in part["rows"]:
            came[case, meant] |= bool(re.search(meant, forms))
        missed = [f"{meant} ({case})" for (case, meant), yes in came.items() if not yes]
        sentences.append("forms not reached: " + (", ".join(missed) or "none"))
    return sentences


def page(result):
    bad, missing = problems(result["sections"])
    lines = [f"# `./dev gpu`: {result['machine']['device']}", "",
             *(f"- **{what}**" for what in (bad + missing or ["all right"])), "",
             "```", json.dumps(result["machine"], indent=1), "```", "", "```", result["doctor"].strip(), "```"]
    for name, part in result["sections"].items():
        section = SECTIONS[name]
        rows = wrong(name, part) if section.brief else part["rows"]
        lines += ["", f"## {section.title}", ""]
        if part["state"] != "done":
            lines += [f"**{part['state']}**", ""]
        if section.brief:
            lines += [f"{len(part['rows']) - len(rows)} of {len(part['rows'])} rows right.", ""]
        if rows:
            lines += [markdown(section.header, [list(map(one_line, row)) for row in rows]), ""]
        lines += [f"- {sentence}" for sentence in part["summary"]]
        lines += [f"- skipped: {label}: {why}" for label, why in part["skipped"]]
        for label, why in part["failed"]:
            lines += ["", f"**failed: {label}**", "", "```", why.strip(), "```"]
    return "\n".join(lines) + "\n"


def one_line(cell):
    return cell.replace("\n", " ").replace("|", "/") if isinstance(cell, str) else cell


def clocks():
    command = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,driver_version", "--format=csv"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi says nothing: {error}"


def machine(device):
    if device.type != "cuda":
        return {"device": "cpu"}
    properties = torch.cuda.get_device_properties(device)
    return {"device": properties.name, "multiprocessors": properties.multi_processor_count, "clocks": clocks(),
            "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}


def doctor():
    for command in (ROOT / "build/carried/bin/tenon", ROOT / "build/release/bin/tenon"):
        try:
            return subprocess.run([str(command), "doctor"], capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.TimeoutExpired):
            pass
    return "the command tenon is not built\n"


def run(options, arguments):
    end = time.monotonic() + options.seconds
    options.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in SECTIONS if not options.only or name in options.only]
    result = {"machine": machine(torch.device(options.device)), "doctor": doctor(), "sections": {}}
    with tempfile.TemporaryDirectory(prefix="tenon-gpu-") as caches:        # kernels are compiled in this run
        environment = {**os.environ, "TENON_CACHE_DIR": f"{caches}/tenon", "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
                       "TRITON_CACHE_DIR": f"{caches}/triton"}
        for i, name in enumerate(names):
            share = SECTIONS[name].share / sum(SECTIONS[n].share for n in names[i:])
            with Progress(name):
                part = measure(name, options, arguments, share * (end - time.monotonic()) / (1 + LATE), environment)
            part["summary"] = summary(name, part)
            result["sections"][name] = part
            (options.out / "gpu.json").write_text(json.dumps(result, indent=1))
            (options.out / "gpu.md").write_text(page(result))
    print(page(result))
    bad, missing = problems(result["sections"])
    return 1 if bad else 3 if missing else 0


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev gpu", description=__doc__.split("\n\n")[0])
    names = lambda text: text.split(",")        # noqa: E731
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), default=ROOT / "build" / "gpu")
    parser.add_argument("--seconds", type=float, default=540, help="of the whole run")
    parser.add_argument("--only", type=names, help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--cases", type=names, help="of bench/gpu/cases.py and bench/gpu/forms.py, and models; all")
    parser.add_argument("--backend", default="tenon", help="another back end in its place")
    parser.add_argument("--no-peers", action="store_true", help="without Inductor")
    parser.add_argument("--bandwidth", type=float, default=None, help="of the memory, TB/s: scales the targets")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--here", choices=SECTIONS, help=argparse.SUPPRESS)      # a section, in this process
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)   # its first works
    options = parser.parse_args(arguments)
    if options.only and (unknown := set(options.only) - set(SECTIONS)):
        parser.error(f"no section {', '.join(sorted(unknown))}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, "./dev gpu: PyTorch sees no GPU here: " + (doctor() or ""))
    if options.bandwidth is None:
        name = torch.cuda.get_device_name() if options.device == "cuda" else ""
        options.bandwidth = 3.35 if "H100" in name else 4.8
    return options


if __name__ == "__main__":
    options = parse()
    sys.exit(here(options.here, options) if options.here else run(options, sys.argv[1:]))

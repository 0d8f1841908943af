"""The sections of `./dev gpu` that look for wrong answers: every kind of kernel, every form of a kernel, captures and streams,
and a part of these under compute-sanitizer. A section yields (name, work), and work(clock) yields rows. The last cell of a row
is "right" or what is wrong."""

import math
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

from bench.gpu import cases, forms as form_cases
from bench.gpu.tools import DTYPES, Skip, chosen, compiled, forms, poison, tf32

OF_LIBRARIES = cases.LIBRARIES + cases.PRODUCTS
SMALL = 1 << 19     # with --tiny, forms run only at sizes of up to so many elements


def verdict(worst, own):
    """The answer for distances as shares of the tolerance: Tenon's may exceed 1 if eager's own is at least half as large."""
    return "right" if worst <= max(1.0, 2 * own) else "wrong"


def check(options):
    """Rows (case, type, size, distance as a share of the tolerance, answer)."""
    for name in DTYPES:
        for case in chosen(options, cases.CASES + OF_LIBRARIES):
            if case.odd and (name != "tf32" or case in OF_LIBRARIES):
                yield f"{case.name} {name}", partial(check_case, case, name, options)


def check_case(case, name, options, clock):
    torch._dynamo.reset()
    fast = compiled(case.function, "tenon", options, dynamic=True)
    for size in case.odd[:2] if options.tiny else case.odd:
        with tf32(name == "tf32"):
            arguments = case.make(size, DTYPES[name], clock.device)
            exact = case.function(*(a.double() if a.is_floating_point() else a for a in arguments))
            eager = case.function(*arguments)
            poison(clock.device)
            got = fast(*arguments)
            clock.wait()
        worst, own = cases.close(got, exact, name), cases.close(eager, exact, name)
        yield [case.name, name, text_of(size), worst, verdict(worst, own)]


def text_of(size):
    return "x".join(map(str, size))


def schedules(options):
    """Rows (case, type, size, intended form, actual forms, distance, answer)."""
    for case in chosen(options, form_cases.BIG):
        for name in case.types:
            yield f"{case.name} {name}", partial(check_form, case, name, options)


def check_form(case, name, options, clock):
    torch._dynamo.reset()
    fast = compiled(case.function, "tenon", options, dynamic=case.dynamic)
    sizes = [s for s in case.sizes if not options.tiny or math.prod(s) <= SMALL]
    if not sizes:
        raise Skip("too large for --tiny")
    for size in sizes:
        need = form_cases.bytes_of(case, size, DTYPES[name])
        if clock.gpu:
            torch.cuda.empty_cache()
            if need > torch.cuda.mem_get_info()[0]:
                raise Skip(f"{text_of(size)} needs {need >> 30} GiB")
        with tf32(False):
            arguments = case.make(size, DTYPES[name], clock.device)
            poison(clock.device, arguments[0].numel() * arguments[0].element_size())
            with forms() as loaded:
                got = fast(*arguments)
                clock.wait()
            worst, own = form_cases.compare(case, arguments, got, lambda a, b: cases.close(a, b, name))
        yield [case.name, name, text_of(size), case.form, "; ".join(loaded) or "none new", worst, verdict(worst, own)]
        del arguments, got


def mixed(x, w):
    """A function of several kernels: along rows, along columns, a map, and a product."""
    y = F.softmax(x, -1) * x.sum(0, keepdim=True)
    return F.gelu(F.linear(torch.tanh(y) + x, w), approximate="tanh") + x


def calls(options):
    """Rows (what, type, answer): the ways in which a call reaches the device."""
    for what, way in (("captured, replayed on other inputs", replayed), ("on two streams at once", on_streams),
                      ("one CUDA graph per plan", on_device_graphs)):
        for name in ("f32", "bf16"):
            yield f"{what}, {name}", partial(check_calls, what, way, name, options)


def check_calls(what, way, name, options, clock):
    torch._dynamo.reset()
    make = lambda: torch.randn(96, 256, device=clock.device).to(DTYPES[name])      # noqa: E731
    w = (torch.randn(256, 256, device=clock.device) / 16).to(DTYPES[name])
    with tf32(False):
        for inputs, got in way(make, w, options, clock):
            exact, eager = mixed(inputs.double(), w.double()), mixed(inputs, w)
            answer = verdict(cases.close(got, exact, name), cases.close(eager, exact, name))
            if answer != "right":
                break
    yield [what, name, answer]


def replayed(make, w, options, clock):
    """Captures a call that has run before in a graph of the caller, and replays it on other inputs."""
    fast, x = compiled(mixed, "tenon", options), make()
    for _ in range(3):
        kept = fast(x, w)
    clock.wait()
    if clock.gpu:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = fast(x, w)
        replay = graph.replay
    else:
        replay = lambda: kept.copy_(fast(x, w))    # noqa: E731
    for _ in range(3):
        x.copy_(make())
        replay()
        clock.wait()
        yield x, kept


def on_streams(make, w, options, clock):
    fast, sent = compiled(mixed, "tenon", options), []
    inputs = [make() for _ in range(40)]
    fast(inputs[0], w)
    clock.wait()
    streams = [torch.cuda.Stream() for _ in range(2)] if clock.gpu else [None, None]
    for i, x in enumerate(inputs):
        with torch.cuda.stream(streams[i % 2]):
            sent.append(fast(x, w))
    clock.wait()
    yield from zip(inputs, sent, strict=True)


def on_device_graphs(make, w, options, clock):
    """Equal runs, then runs that require an update of the CUDA graph."""
    fast, x = compiled(mixed, "tenon", options, mode="reduce-overhead"), make()
    for i in range(12):
        x = x if i < 6 else make()
        yield x, fast(x, w)


# For each tool of compute-sanitizer: the parts of check, schedules and calls that run under it, and its share of the time.
SANITIZED = {
    "memcheck": (["check", "schedules"], None, 3),
    "racecheck": (["check"], "softmax 4096,layer_norm backward,sum,transpose,sum of columns", 1),
    "initcheck": (["check"], "softmax 4096,layer_norm backward,sum,transpose,sum of columns", 1),
}
FOUND = 9


def sanitizer(options):
    """Rows (tool, section, number of rows, what the tool found, answer)."""
    left = sum(share for _, _, share in SANITIZED.values())
    for tool, (sections, names, share) in SANITIZED.items():
        for section in sections:
            own = share / len(sections)
            yield f"{tool}: {section}", partial(sanitized, tool, section, names, own / left, options)
            left -= own


def sanitized(tool, section, names, share, options, clock):
    program = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not program:
        raise Skip("compute-sanitizer is not installed: nothing was looked at")
    if not clock.gpu:
        raise Skip("compute-sanitizer looks at GPUs alone")
    out = options.out / f"sanitizer-{tool}"
    out.mkdir(parents=True, exist_ok=True)
    rows = out / f"{section}.jsonl"
    rows.unlink(missing_ok=True)
    seconds = clock.left() * share
    command = [program, "--tool", tool, "--target-processes", "all", "--error-exitcode", str(FOUND),
               sys.executable, Path(__file__).with_name("bench.py"), "--here", section, "--tiny", "--no-peers",
               "--backend", options.backend, "--out", out, "--seconds", f"{0.8 * seconds:.0f}"]
    command += ["--cases", names] if names else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds,
                              env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        code, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        code, output = None, (late.stdout or b"").decode(errors="replace")
    checked = rows.read_text().count('"row"') if rows.exists() else 0
    found = next((line for line in reversed(output.splitlines()) if "SUMMARY" in line), output[-500:].strip())
    if code == FOUND:
        answer = f"errors: {output[:2000]}"
    elif code:
        answer = f"ended with {code}: {output[-1000:]}"
    else:
        answer = "right" if checked else "nothing was checked in its time"
    yield [tool, section, checked, found, answer]

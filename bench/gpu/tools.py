"""Tools that the sections of `./dev gpu` share: a clock, compiled functions, captures, and the schedules of Tenon's kernels."""

import contextlib
import os
import re
import stat
import statistics
import sys
import time

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "tf32": torch.float32, "f16": torch.float16}


class Skip(Exception):
    """A work does not run here; the message is the reason."""


class Clock:
    """Measures seconds on a GPU, or on the CPU with `--device cpu`."""

    def __init__(self, device, budget):
        self.device, self.gpu, self.end = device, device.type == "cuda", time.monotonic() + budget

    def left(self):
        return self.end - time.monotonic()

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def alive(self):
        """Whether the device still accepts work: after some errors it refuses everything."""
        try:
            self.wait()
        except RuntimeError:
            return False
        return True

    def once(self, call):
        if not self.gpu:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def graphed(self, call):
        """(the captured call, None), so that only the GPU is timed; or (the call itself, the reason why it cannot be captured)."""
        if not self.gpu:
            return call, None
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
            return graph.replay, None
        except RuntimeError as error:
            torch.cuda.synchronize()
            return call, str(error).partition("\n")[0]


def contenders(options):
    return ["eager", "tenon", *([] if options.no_peers else ["inductor"])]


def compiled(function, who, options, /, **keywords):
    backend = options.backend if who == "tenon" else who
    return function if who == "eager" else torch.compile(function, backend=backend, **keywords)


def chosen(options, among):
    return [case for case in among if not options.cases or case.name in options.cases]


def poison(device, more=0):
    """Fills the memory that PyTorch hands out next with NaN. more: bytes in addition to the usual sizes."""
    if device.type == "cuda":
        for size in (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26, more // 4):
            torch.full((size,), float("nan"), device=device)


@contextlib.contextmanager
def tf32(allowed):
    """Sets PyTorch's flags for TF32, which both eager and Tenon follow. f32 is checked without TF32: where it is allowed, one of the
    two may have no TF32 engine for a case, and eager's own distance from the exact result would be no measure."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = allowed
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


@contextlib.contextmanager
def forms():
    """Yields a list that afterwards holds the schedules of the kernels that were loaded meanwhile. Tenon prints them on stderr,
    which must be a file. Kernels that the process had loaded before are missing."""
    loaded, before = [], os.fstat(2)
    if not stat.S_ISREG(before.st_mode):
        yield loaded
        return
    os.environ["TENON_DUMP"] = "cuda"
    try:
        yield loaded
    finally:
        del os.environ["TENON_DUMP"]
        sys.stderr.flush()
        with open("/proc/self/fd/2", "rb") as log:
            log.seek(before.st_size)
            loaded += dict.fromkeys(re.findall(r"dump\.cuda: \n// (.+)", log.read().decode(errors="replace")))
        if loaded:
            os.ftruncate(2, before.st_size)     # removes the texts of the kernels


def median(numbers):
    numbers = [n for n in numbers if n is not None]
    return statistics.median(numbers) if numbers else None


def geometric_mean(numbers):
    numbers = [n for n in numbers if n is not None and n > 0]
    return statistics.geometric_mean(numbers) if numbers else None

#!/usr/bin/env python3
"""`./dev gpu`: everything that needs a GPU, in one run of at most ten minutes, into gpu.json and a page, gpu.md.

What was found (`tenon doctor`); every schedule on random data with poisoned outputs, against eager in float64; a part of that
under compute-sanitizer; bandwidths of fused kernels against eager, a copy and Inductor in the same run; products of matrices with
what follows them likewise; what a call costs the host; models in bf16 against eager and Inductor. A part that fails or finds no
time is said, and the others go on. `--device cpu --tiny` tries the script itself. Sections: --only check,sanitizer,bandwidth,products,host,models.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch                          # noqa: E402

from bench import gpu_cases                                  # noqa: E402
from bench.contenders import tenon_stats                     # noqa: E402
from bench.models import accuracy, zoo                       # noqa: E402
from bench.table import Progress, markdown                   # noqa: E402

DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Clock:
    """Seconds of a GPU, or of the CPU where the script is tried."""

    def __init__(self, device, budget):
        self.device, self.gpu, self.end = device, device.type == "cuda", time.monotonic() + budget

    def left(self):
        return self.end - time.monotonic()

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

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
        """The call captured, so that what is timed is the GPU; the call itself where it cannot be."""
        if not self.gpu:
            return call
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
            return graph.replay
        except RuntimeError as error:
            print(f"not captured: {error}", file=sys.stderr)
            torch.cuda.synchronize()
            return call


def contenders(options):
    return ["eager", "tenon", *([] if options.no_peers else ["inductor"])]


def compiled(function, who, options, **keywords):
    backend = options.backend if who == "tenon" else who
    return function if who == "eager" else torch.compile(function, backend=backend, **keywords)


def cases(options, among=gpu_cases.CASES):
    return [case for case in among if not options.cases or case.name in options.cases]


def poison(device):
    """Memory that PyTorch hands out next holds NaN."""
    if device.type == "cuda":
        for size in (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26):
            torch.full((size,), float("nan"), device=device)


@contextlib.contextmanager
def tf32(allowed):
    """PyTorch's flags, which eager and Tenon follow both. Where TF32 is allowed either may have no engine of it for a case, so
    that eager's own distance is no measure: f32 is checked without."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = allowed
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def check(options, clock):
    """Rows (case, type, size, worst distance as a share of what is allowed)."""
    found, of_libraries = [], gpu_cases.LIBRARIES + gpu_cases.PRODUCTS
    for case in cases(options, gpu_cases.CASES + of_libraries):
        for name in DTYPES:
            if name == "tf32" and case not in of_libraries:
                continue
            with tf32(name == "tf32"):
                if not check_case(case, name, options, clock, found):
                    return found, "out of time"
    return found, None


def check_case(case, name, options, clock, found):
    """Adds to found; whether there was time."""
    torch._dynamo.reset()
    fast = compiled(case.function, "tenon", options, dynamic=True)
    for size in case.odd[:2] if options.tiny else case.odd:
        if clock.left() < 30:
            return False
        arguments = case.make(size, DTYPES[name], clock.device)
        exact = case.function(*(a.double() if a.is_floating_point() else a for a in arguments))
        eager = case.function(*arguments)
        poison(clock.device)
        got = fast(*arguments)
        clock.wait()
        worst, own = gpu_cases.close(got, exact, name), gpu_cases.close(eager, exact, name)
        if not worst <= max(1.0, 2 * own):
            found.append([case.name, name, "x".join(map(str, size)), worst])
    return True


def sanitizer(options, clock):
    """What compute-sanitizer says of a part of the checks; None: it is not there."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return None
    command = [tool, "--tool", "memcheck", "--error-exitcode", "9", sys.executable, __file__, "--only", "check", "--tiny",
               "--out", str(options.out / "sanitizer"), "--seconds", str(int(min(150, clock.left() - 60)))]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    return {"errors": done.returncode == 9, "code": done.returncode, "said": (done.stdout + done.stderr)[-2000:]}


def copies(case, dtype, clock, tiny):
    """As many sets of arguments as are larger than any L2 cache."""
    size = tuple(max(1, n // 64) if n > 64 else n for n in case.size) if tiny else case.size
    first = case.make(size, dtype, clock.device)
    one = gpu_cases.moved(first, case.function(*first))
    return [first, *(case.make(size, dtype, clock.device) for _ in range(0 if tiny else min(7, 256 * 2**20 // one)))], one


def race(case, options, clock):
    """Median seconds of a call in bf16 per contender and of a copy of as many bytes, in turns; and these bytes."""
    dtype = torch.bfloat16
    sets, one = copies(case, dtype, clock, options.tiny)
    like = torch.empty(max(one // 2 // dtype.itemsize, 1), dtype=dtype, device=clock.device)
    other = torch.empty_like(like)
    calls = {"copy": lambda: other.copy_(like)}
    for who in contenders(options):
        torch._dynamo.reset()
        fast = compiled(case.function, who, options, dynamic=False)
        for _ in range(3):
            for arguments in sets:
                fast(*arguments)
        clock.wait()
        calls[who] = clock.graphed(lambda f=fast: [f(*arguments) for arguments in sets] and None)
    times = {who: [] for who in calls}
    for _ in range(3 if options.tiny else 50):
        for who, call in calls.items():
            times[who].append(clock.once(call) / (1 if who == "copy" else len(sets)))
    return {who: statistics.median(t) for who, t in times.items()}, one


def bandwidth(options, clock):
    rows = []
    for case in cases(options):
        if clock.left() < 120:
            return rows, "out of time"
        seconds, one = race(case, options, clock)
        speed = {who: one / s / 1e12 for who, s in seconds.items()}
        target = case.target * options.bandwidth / 4.8
        rows.append([case.name, one / 2**20, *(speed.get(w) for w in ("copy", "eager", "inductor", "tenon")), target,
                     speed["tenon"] / target])
    return rows, None


def products(options, clock):
    rows = []
    for case in cases(options, gpu_cases.PRODUCTS):
        if clock.left() < 90:
            return rows, "out of time"
        seconds, _ = race(case, options, clock)
        speed = {who: 2 * math.prod(case.size) / s / 1e12 for who, s in seconds.items()}
        rows.append([case.name, "x".join(map(str, case.size)), *(speed.get(w) for w in ("eager", "inductor", "tenon")),
                     seconds["eager"] / seconds["tenon"]])
    return rows, None


def host(options, clock):
    """Microseconds of the host per call, on tensors of next to no work."""
    def chain(x):
        for _ in range(3):
            x = torch.tanh(x.sum(0, keepdim=True) + x) * x.sum(1, keepdim=True)
        return x

    x, rows = torch.randn(16, 16, device=clock.device), []
    for what, function in (("x + 1", lambda x: x + 1), ("several kernels", chain)):
        for who in [*contenders(options), "tenon, CUDA graphs"]:
            torch._dynamo.reset()
            keywords = {"mode": "reduce-overhead"} if "graphs" in who else {}
            fast = compiled(function, who.partition(",")[0], options, **keywords)
            for _ in range(10):
                fast(x)
            clock.wait()
            samples = []
            for _ in range(20):
                start = time.perf_counter()
                for _ in range(50):
                    fast(x)
                samples.append((time.perf_counter() - start) / 50)
                clock.wait()
            rows.append([what, who, 1e6 * statistics.median(samples)])
    return rows, None


def models(options, clock):
    rows = []
    for name in zoo.MODELS:
        if clock.left() < 60:
            return rows, "out of time"
        model, inputs = zoo.build(name, options.tiny)
        exact = accuracy.in_float64(model, inputs)
        dtype = torch.bfloat16
        model = model.to(clock.device, dtype)
        inputs = tuple(x.to(clock.device, dtype if x.is_floating_point() else x.dtype) for x in inputs)
        seconds, problems = {}, []
        reference = model(*inputs)
        for who in contenders(options):
            torch._dynamo.reset()
            fast = compiled(model, who, options)
            start = time.perf_counter()
            answer = fast(*inputs)
            clock.wait()
            first = time.perf_counter() - start
            if who == "tenon":
                problems = accuracy.check(reference, answer, moved_to(exact, clock.device), 2e-2).problems
                first_call, stats = first, tenon_stats(options.backend)
            for _ in range(3):
                fast(*inputs)
            seconds[who] = statistics.median(clock.once(lambda f=fast: f(*inputs)) for _ in range(5 if options.tiny else 30))
        rows.append([name, 1e3 * seconds["eager"], *(seconds["eager"] / seconds[w] if w in seconds else None
                                                     for w in ("inductor", "tenon")),
                     first_call, stats["fallbacks"], "; ".join(problems) or "right"])
    return rows, None


def moved_to(tree, device):
    return torch.utils._pytree.tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, tree)


SECTIONS = {
    "check": (check, "Wrong answers", ["case", "type", "size", "distance / allowed"]),
    "bandwidth": (bandwidth, "Bandwidth, TB/s, bf16, captured, rotating buffers",
                  ["kernel", "MiB", "copy", "eager", "inductor", "tenon", "target", "tenon / target"]),
    "products": (products, "Products of matrices, TFLOP/s, bf16, captured",
                 ["kernel", "rows x columns x terms", "eager", "inductor", "tenon", "eager / tenon"]),
    "host": (host, "Host, us per call", ["graph", "contender", "us"]),
    "models": (models, "Models, bf16: times of eager over the contender's",
               ["model", "eager ms", "inductor", "tenon", "first call s", "fallbacks", "answer"]),
    "sanitizer": (sanitizer, "compute-sanitizer", []),
}


def machine(device):
    if device.type != "cuda":
        return {"device": "cpu"}
    properties = torch.cuda.get_device_properties(device)
    asked = "clocks.sm,clocks.mem,driver_version"
    clocks = subprocess.run(["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"], capture_output=True, text=True)
    return {"device": properties.name, "multiprocessors": properties.multi_processor_count, asked: clocks.stdout.strip(),
            "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}


def page(result):
    lines = [f"# `./dev gpu`: {result['machine']['device']}", "", "```", json.dumps(result["machine"], indent=1), "```", "",
             "```", result["doctor"].strip(), "```"]
    for name, (_, title, header) in SECTIONS.items():
        part = result["sections"].get(name)
        if part is None:
            continue
        lines += ["", f"## {title}", ""]
        if part.get("error"):
            lines.append(part["error"])
        if isinstance(part.get("rows"), list):
            lines.append(markdown(header, part["rows"]) if part["rows"] else "none")
        elif "rows" in part:
            lines.append("not installed" if part["rows"] is None else f"```\n{json.dumps(part['rows'], indent=1)}\n```")
    return "\n".join(lines) + "\n"


def doctor():
    for command in (ROOT / "build/carried/bin/tenon", ROOT / "build/release/bin/tenon"):
        if command.exists():
            return subprocess.run([str(command), "doctor"], capture_output=True, text=True).stdout
    return "the command tenon is not built\n"


def run(options):
    device = torch.device(options.device)
    clock = Clock(device, options.seconds)
    result = {"machine": machine(device), "doctor": doctor(), "sections": {}}
    for name, (section, _, _) in SECTIONS.items():
        if options.only and name not in options.only:
            continue
        part = result["sections"][name] = {}
        try:
            with Progress(name), torch.no_grad():
                answer = section(options, clock)
            part["rows"], part["error"] = answer if isinstance(answer, tuple) else (answer, None)
        except Exception:
            part["error"] = traceback.format_exc(limit=-6)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu.json").write_text(json.dumps(result, indent=1))
        (options.out / "gpu.md").write_text(page(result))
    print(page(result))
    wrong = result["sections"].get("check", {})
    failed = [name for name, part in result["sections"].items() if part.get("error") not in (None, "out of time")]
    return 1 if failed or wrong.get("rows") else 0


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev gpu", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--seconds", type=int, default=540, help="of the whole run")
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--cases", type=lambda text: text.split(","), help="of gpu_cases.py; all")
    parser.add_argument("--backend", default="tenon", help="another back end in its place")
    parser.add_argument("--no-peers", action="store_true", help="without Inductor")
    parser.add_argument("--bandwidth", type=float, default=None, help="of the memory, TB/s: scales the targets")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
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
    sys.exit(run(parse()))

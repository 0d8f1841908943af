"""Measures one model with one contender.

`measure(request)` runs in this process, `spawn(request)` in a fresh one, so that the first call is a first call
and a crash becomes a result. The time of the first call covers everything from `torch.compile` to the answer,
after the model was built and run eagerly; the contender's own share comes from its counters. In the steady state
eager and compiled calls alternate. The answer is checked by the accuracy rule on the example inputs, on a second
call and on inputs of other values. A contender is a backend of torch.compile or one of RUNTIMES.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TENON_CACHE_DIR", "TMPDIR")
MATMUL = 1024       # side of the square product whose best rate serves as the machine's peak


@dataclass
class Request:
    model: str
    contender: str = "tenon"
    tiny: bool = False
    threads: int = 2
    rounds: int = 15            # 0: the first call only
    round_s: float = 0.1
    floors: bool = False        # also measure flops (unless rounds is 0) and eager's memory
    rest_s: float = 0           # without work before each turn


def measure(request):
    import torch
    from bench.contenders import RUNTIMES, compiled, own_seconds, tenon_stats
    from bench.models import accuracy, memory, zoo
    from bench.timing import interleave, speedup
    from torch._dynamo.utils import counters

    torch.set_num_threads(request.threads)
    model, inputs = zoo.build(request.model, request.tiny)
    others, tolerance = zoo.other_inputs(inputs), zoo.ALL[request.model].tolerance
    kept = [x.clone() for x in inputs]
    result = asdict(request) | {"problems": []}
    with torch.no_grad():
        reference, again, reference_others = model(*inputs), model(*inputs), model(*others)
        problems = accuracy.check(reference, again, reference, tolerance).problems
        if problems:
            raise RuntimeError(f"eager does not repeat itself: {problems[0]}")

        runtime = request.contender in RUNTIMES
        start = time.perf_counter()
        fast = converted(request, model, inputs, reference) if runtime else compiled(model, request.contender)
        if isinstance(fast, str):
            return result | {"problems": [fast]}
        answer = fast(*inputs)
        result["first_s"] = time.perf_counter() - start
        result |= tenon_stats(request.contender) | {"own_s": fast.own_s if runtime else own_seconds(request.contender)}
        if request.floors:
            result["eager_peak_bytes"] = memory.peak_of_intermediates(model, inputs)
        if not request.rounds:
            exact = accuracy.in_float64(model, inputs)
            return result | {"problems": accuracy.check(reference, answer, exact, tolerance, strides=not runtime).problems}

        answers = [(inputs, reference, answer), (inputs, reference, fast(*inputs)),
                   (others, reference_others, fast(*others))]
        calls = {"eager": lambda: model(*inputs), "compiled": fast.bound(inputs) if runtime else lambda: fast(*inputs)}
        if request.floors:
            a, b, c = (torch.rand(MATMUL, MATMUL) for _ in range(3))
            calls["matmul"] = lambda: torch.mm(a, b, out=c)
        times = interleave(calls, request.rounds, request.round_s, rest_s=request.rest_s)
        answers.append((others, reference_others, fast(*others)))
        exact = {id(x): accuracy.in_float64(model, x) for x in (inputs, others)}

    checks = [accuracy.check(ref, got, exact[id(x)], tolerance, strides=not runtime) for x, ref, got in answers]
    result["problems"] += [p for check in checks for p in check.problems]
    result["worst"] = max(check.worst for check in checks)
    if not all(map(torch.equal, kept, inputs)):
        result["problems"].append("the compiled model changed its inputs")
    result["graphs"] = None if runtime else counters["stats"]["unique_graphs"]
    if result["graphs"] == 0:
        result["problems"].append("nothing was compiled")
    result["fallbacks"] = tenon_stats(request.contender)["fallbacks"]     # includes those of later calls
    for name, seconds in times.items():
        result[f"{name}_rounds_ms"] = [1e3 * s for s in seconds]
        result[f"{name}_ms"] = 1e3 * statistics.median(seconds)
        result[f"{name}_min_ms"] = 1e3 * min(seconds)
    result["speedup"] = speedup(times["eager"], times["compiled"])
    if request.floors:
        result["gflop"] = flops(model, inputs) / 1e9
        result["matmul_gflops"] = 2 * MATMUL ** 3 / min(times["matmul"]) / 1e9
    return result


def converted(request, model, inputs, output):
    """The model in another library, or the reason why it is not. The import is here because the first call with Tenon includes the import of its
    package."""
    from bench.models.runtimes import convert
    from tenon.torch.peers.hosts import why_not
    try:
        return convert(request.contender, model, inputs, output, request.threads)
    except Exception as e:
        return why_not(e)


def flops(model, inputs):
    """The flops of matrix products, convolutions and attention. PyTorch does not count the fused attention
    operator, so it is decomposed."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(*inputs)
    return counter.get_total_flops()


def spawn(request, timeout_s=900, caches=None, module="bench.models.worker"):
    """Runs `measure` of the module in a fresh process with empty caches, or with the caches that earlier processes left in the folder
    `caches`. A crash or a hang is returned as a problem, with the end of the output."""
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
        out, log = Path(scratch, "result.json"), Path(scratch, "log")
        folders = {name: str(Path(caches or scratch, name)) for name in CACHES}
        for folder in folders.values():
            os.makedirs(folder, exist_ok=True)
        env = os.environ | folders | {"TENON_CACHE": "on", "OMP_NUM_THREADS": str(request.threads), "PYTHONPATH": python_path(),
                                      "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        with open(log, "wb") as sink:
            # A session of its own: a compiler started by the worker must not outlive it.
            command = [sys.executable, "-m", module, json.dumps(asdict(request)), out]
            process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=sink, stderr=sink,
                                       start_new_session=True)
            try:
                code = process.wait(timeout_s)
                end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            except subprocess.TimeoutExpired:
                code, end = None, f"no result after {timeout_s} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code == 0:
            return json.loads(out.read_text())
        words = log.read_text(errors="replace").strip().splitlines()
        problem = f"{end}: {words[-1] if words else 'no output'}"
        return asdict(request) | {"problems": [problem], "log": words[-12:]}


def clean_up_when_terminated():
    """Call this before spawn(): SIGTERM then unwinds the stack, so no worker or scratch folder stays behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def python_path():
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def main(measure):
    """The main program of a module that spawn() starts."""
    Path(sys.argv[2]).write_text(json.dumps(measure(Request(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main(measure)

"""Measures how much memory a process with one model and one contender holds, beyond a process that has only imported PyTorch.

`measure(request)` runs in a process of its own (`worker.spawn(request, module="bench.models.resident")`). A process with ONNX Runtime or
OpenVINO reads the model from a file that another process has exported, so it holds no copy of the model in PyTorch.
Tested by tests/torch/test_cold.py.
"""

import ctypes
import gc
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch

from bench.contenders import RUNTIMES, compiled
from bench.models import runtimes, zoo
from bench.models.memory import resident
from bench.models.worker import ROOT, Request, main


def measure(request):
    torch.set_num_threads(request.threads)
    result = asdict(request) | {"problems": [], "bytes_of_pytorch": held()}
    with torch.no_grad():
        call = (from_file if request.contender in RUNTIMES else in_pytorch)(request)
        call(), call()
        result["resident_bytes"] = held() - result["bytes_of_pytorch"]
    return result


def held():
    """Bytes of this process in memory, without memory that the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident()


def in_pytorch(request):
    model, inputs = zoo.build(request.model, request.tiny)
    fast = model if request.contender == "eager" else compiled(model, request.contender)
    return lambda: fast(*inputs)


def from_file(request):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-m", "bench.models.resident", "--export", json.dumps(asdict(request)), directory], cwd=ROOT, check=True)
        arrays = [x.numpy() for x in torch.load(Path(directory, "inputs.pt"))]
        return runtimes.load(request.contender, str(Path(directory, "graph.onnx")), request.threads)(arrays)


def export(request, directory):
    model, inputs = zoo.build(request.model, request.tiny)
    torch.save(inputs, Path(directory, "inputs.pt"))
    with torch.no_grad():
        runtimes.hosts.export(model, inputs, directory)


if __name__ == "__main__":
    if sys.argv[1] == "--export":
        export(Request(**json.loads(sys.argv[2])), sys.argv[3])
    else:
        main(measure)

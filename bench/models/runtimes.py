"""Models of PyTorch in libraries that have a format of their own: ONNX Runtime and OpenVINO, by PyTorch's export to ONNX.

`convert(name, model, inputs, output, threads)` converts the model for the sizes of these inputs and returns a Converted; it raises what the library
raises, or Missing. `load(name, path, threads)` reads a file that PyTorch has exported. Weights are constants of the program, and so is what a model keeps between calls. Tested by tests/torch/test_bench_models.py.
"""

import importlib.util
import tempfile
import time

import torch
from tenon.torch.peers import hosts
from torch.utils import _pytree as pytree

from bench.contenders import RUNTIMES


class Converted:
    """A model in another library. bound(inputs) is the call that is timed: it takes nothing and returns arrays in new memory. A call with tensors
    returns tensors in the structure of the model's output. own_s: the seconds that the library took, without PyTorch's export."""

    def __init__(self, program, own_s, output):
        self.program, self.own_s, self.structure = program, own_s, pytree.tree_structure(output)

    def bound(self, inputs):
        return self.program([x.numpy() for x in inputs])

    def __call__(self, *inputs):
        return pytree.tree_unflatten([torch.from_numpy(a) for a in self.bound(inputs)()], self.structure)


def load(name, path, threads):
    """A function of the arrays of all inputs that returns a call (hosts.onnxruntime_program). path: an ONNX file."""
    library = hosts.needs(name)
    if name == "onnxruntime":
        return hosts.onnxruntime_program(path, threads)
    return hosts.openvino_program(library.convert_model(path), threads)


def openvino_of_module(model, inputs, threads):
    """OpenVINO refuses some programs as ONNX that it takes from PyTorch."""
    ov = hosts.needs("openvino")
    return hosts.openvino_program(ov.convert_model(model, example_input=tuple(inputs), input=[tuple(x.shape) for x in inputs]), threads)


def convert(name, model, inputs, output, threads):
    """output: what the model returns in eager mode."""
    library = hosts.needs(name)
    with tempfile.TemporaryDirectory() as directory:
        path = hosts.export(model, inputs, directory)
        start = time.perf_counter()
        try:
            program = load(name, path, threads)
        except Exception as error:
            if name != "openvino" or not isinstance(error, library.frontend.OpConversionFailure):
                raise
            program = openvino_of_module(model, inputs, threads)
        return Converted(program, time.perf_counter() - start, output)


def missing(name):
    """The reason why a contender cannot be measured here at all, or None."""
    if name.startswith("inductor"):
        return hosts.missing_for_inductor()
    packages = hosts.PACKAGES[name].split() if name in RUNTIMES else []
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    return f"is not installed: pip install {' '.join(absent)}" if absent else None

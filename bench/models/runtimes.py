"""Models of PyTorch in libraries that have a format of their own: ONNX Runtime and OpenVINO, by PyTorch's export to ONNX.

`convert(name, model, inputs, output, threads)` converts the model for the sizes of these inputs and returns a Converted; it raises what the library
raises, or Missing. Weights are constants of the program, and so is what a model keeps between calls. Tested by tests/torch/test_bench_models.py.
"""

import importlib.util
import tempfile

import torch
from tenon.torch.peers import hosts
from torch.utils import _pytree as pytree

from bench.contenders import RUNTIMES


class Converted:
    """A model in another library. bound(inputs) is the call that is timed: it takes nothing and returns arrays in new memory. A call with tensors
    returns tensors in the structure of the model's output."""

    def __init__(self, program, output):
        self.program, self.structure = program, pytree.tree_structure(output)

    def bound(self, inputs):
        return self.program([x.numpy() for x in inputs])

    def __call__(self, *inputs):
        return pytree.tree_unflatten([torch.from_numpy(a) for a in self.bound(inputs)()], self.structure)


def onnx_program(model, inputs, threads):
    hosts.needs("onnxruntime")
    with tempfile.TemporaryDirectory() as directory:
        return hosts.onnxruntime_program(hosts.export(model, inputs, directory), threads)


def openvino_program(model, inputs, threads):
    ov = hosts.needs("openvino")
    with tempfile.TemporaryDirectory() as directory:
        try:
            converted = ov.convert_model(hosts.export(model, inputs, directory))
        except ov.frontend.OpConversionFailure:     # it refuses some programs as ONNX that it takes from PyTorch
            converted = ov.convert_model(model, example_input=tuple(inputs), input=[tuple(x.shape) for x in inputs])
        return hosts.openvino_program(converted, threads)


def convert(name, model, inputs, output, threads):
    """output: what the model returns in eager mode."""
    program = {"onnxruntime": onnx_program, "openvino": openvino_program}[name](model, inputs, threads)
    return Converted(program, output)


def missing(name):
    """The reason why a contender cannot be measured here at all, or None."""
    if name.startswith("inductor"):
        return hosts.missing_for_inductor()
    packages = hosts.PACKAGES[name].split() if name in RUNTIMES else []
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    return f"is not installed: pip install {' '.join(absent)}" if absent else None

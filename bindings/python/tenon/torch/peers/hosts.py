"""The libraries that run a graph: name -> a function of a Case that returns a call. A call takes nothing, runs the graph on the case's
inputs and returns the results in new memory. Raises Missing if the library is not installed, NoCounterpart if it has no such operation.

tenon, torch, inductor (needs g++), onnxruntime and openvino (PyTorch's export to ONNX), xla (JAX). All of them get the case's number of threads,
except that xla has no such option: it takes a thread for each core that the process may use when JAX starts (`taskset -c 0` leaves it one).
Tested by tests/torch/test_peers.py.
"""

import array
import ctypes
import functools
import importlib
import logging
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from ... import _abi
from ..lowering.tensors import DTYPES
from ..runtime.frames import dltensor_words
from .jax_rows import JAX_DTYPES
from .jax_rows import ROWS as JAX_ROWS
from .spelling import NoCounterpart, source
from .torch_rows import ROWS, TORCH_DTYPES

OF_NAME = {name: dtype for dtype, name in DTYPES.items()}


class Missing(Exception):
    """A library is not installed. The message says how to install it."""


def why_not(error):
    """A sentence without a subject that says why a library does not run something."""
    if isinstance(error, Missing):
        return str(error)
    if isinstance(error, NoCounterpart):
        return f"has no counterpart of {error}"
    return f"fails: {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"


@dataclass
class Case:
    text: str  # of the graph
    graph: object  # the same, as graph_read.Graph.at returns it
    inputs: list  # tensors
    threads: int

    @functools.cached_property
    def torch(self):
        """(function, tensors of all its arguments) of the graph in PyTorch."""
        text, constants = source(self.graph, ROWS, TORCH_DTYPES)
        scope = {"torch": torch, "F": F}
        exec(compile(text, "<graph in PyTorch>", "exec"), scope)
        return scope["graph"], [*self.inputs, *map(constant, constants)]


def constant(node):
    data = bytearray.fromhex(node.attrs["data"].removeprefix("0x"))
    return torch.frombuffer(data, dtype=OF_NAME[node.dtype]).reshape(node.shape) if data else torch.empty(node.shape, dtype=OF_NAME[node.dtype])


PACKAGES = {"onnxruntime": "onnxruntime onnx onnxscript", "openvino": "openvino onnx onnxscript", "onnxscript": "onnx onnxscript", "jax": "jax"}


def needs(name):
    """The module of this name, one of PACKAGES."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"is not installed: pip install {PACKAGES[name]}") from None


def table(tensors):
    """A C array of addresses of DLTensors, and what has to live as long as it."""
    blocks = []
    for t in tensors:
        block = array.array("q", dltensor_words(DTYPES[t.dtype], t.shape, t.stride()))
        address = block.buffer_info()[0]
        block[0], block[3], block[4] = t.data_ptr(), address + 48, address + 48 + 8 * t.dim()
        blocks.append(block)
    return (ctypes.c_void_p * len(blocks))(*(b.buffer_info()[0] for b in blocks)), blocks


def tenon(case):
    program, run = _abi.Program(case.text, num_threads=case.threads), _abi.run_function()
    inputs, keep = table(case.inputs)
    n_in, n_out = ctypes.c_size_t(len(case.inputs)), ctypes.c_size_t(len(case.graph.outputs))
    wanted = [(v.shape, OF_NAME[v.dtype]) for v in case.graph.outputs]
    outputs, blocks = table([torch.empty(shape, dtype=dtype) for shape, dtype in wanted])

    def call():
        results = [torch.empty(shape, dtype=dtype) for shape, dtype in wanted]
        for block, result in zip(blocks, results):
            block[0] = result.data_ptr()
        if run(program.handle, inputs, n_in, outputs, n_out, None):
            _abi.check(2)
        return results
    call.keep = keep
    return call


def in_new_memory(function, arguments):
    """A call of a function of tensors. As Tenon's, its results are dense and share no memory with an argument or with each other."""
    used, copied = {t.untyped_storage().data_ptr() for t in arguments}, []
    for t in function(*arguments):
        copied.append(not t.is_contiguous() or t.untyped_storage().data_ptr() in used)
        used.add(t.untyped_storage().data_ptr())
    if not any(copied):
        return lambda: function(*arguments)
    return lambda: [t.clone(memory_format=torch.contiguous_format) if copy else t for t, copy in zip(function(*arguments), copied)]


def eager(case):
    return in_new_memory(*case.torch)


def missing_for_inductor():
    """The reason why Inductor cannot run here, or None."""
    return None if shutil.which("g++") else "needs g++: apt-get install g++"


def inductor(case):
    if why := missing_for_inductor():
        raise Missing(why)
    function, arguments = case.torch
    torch._dynamo.reset()
    torch._inductor.config.compile_threads = 1  # a fork after JAX has started its threads could hang
    fast = torch.compile(function, backend="inductor", fullgraph=True, dynamic=False)
    return in_new_memory(fast, arguments)


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def export(module, arguments, directory):
    """Writes the module as ONNX, with the sizes of the arguments, and returns the path."""
    needs("onnxscript")
    path, log = str(Path(directory) / "graph.onnx"), logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns of packages that are not installed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, tuple(arguments), path, dynamo=True, verbose=False)
    finally:
        log.setLevel(level)
    return path


def onnx_file(case, directory):
    """(path of the graph as ONNX, its arguments as arrays)"""
    function, arguments = case.torch
    for dtype in {t.dtype for t in arguments} | {OF_NAME[v.dtype] for v in case.graph.outputs}:
        try:
            torch.empty(0, dtype=dtype).numpy()
        except TypeError:  # NumPy has no such dtype
            raise NoCounterpart(DTYPES[dtype]) from None
    return export(Module(function).eval(), arguments, directory), [t.numpy() for t in arguments]


def onnxruntime_program(path, threads):
    """A function of the arrays of all inputs that returns a call; the call returns arrays."""
    ort = needs("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda arrays: functools.partial(session.run, None, dict(zip(names, arrays, strict=True)))


def openvino_program(model, threads):
    """As onnxruntime_program. model: what openvino.convert_model returns. Without the hint of a precision, OpenVINO would compute in bf16 on a CPU
    that has instructions for it."""
    ov = needs("openvino")
    compiled = ov.Core().compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request, results = compiled.create_infer_request(), [(tuple(o.shape), o.element_type.to_dtype()) for o in compiled.outputs]
    large = sum(np.prod(shape) for shape, _ in results) > 1 << 14

    def bind(arrays):
        feeds = dict(enumerate(arrays))

        def call():  # results in new memory: small ones are copied, large ones written there, whichever is faster
            if not large:
                return list(request.infer(feeds, share_inputs=True, share_outputs=False).values())
            outputs = [np.empty(shape, dtype) for shape, dtype in results]
            for number, output in enumerate(outputs):
                request.set_output_tensor(number, ov.Tensor(output, shared_memory=True))
            request.infer(feeds, share_inputs=True, share_outputs=True)
            return outputs
        return call
    return bind


def onnxruntime(case):
    needs("onnxruntime")
    with tempfile.TemporaryDirectory() as directory:
        path, arrays = onnx_file(case, directory)
        return onnxruntime_program(path, case.threads)(arrays)


def openvino(case):
    ov = needs("openvino")
    with tempfile.TemporaryDirectory() as directory:
        path, arrays = onnx_file(case, directory)
        return openvino_program(ov.convert_model(path), case.threads)(arrays)


def xla(case):
    jax = needs("jax")
    jax.config.update("jax_enable_x64", True)  # otherwise it makes i32 of i64
    text, constants = source(case.graph, JAX_ROWS, JAX_DTYPES)
    scope = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax}
    exec(compile(text, "<graph in JAX>", "exec"), scope)
    arguments = [jax.numpy.from_dlpack(t.contiguous()) if t.dtype != torch.bool else jax.numpy.asarray(t.numpy())
                 for t in (*case.inputs, *map(constant, constants))]
    fast = jax.jit(scope["graph"])
    return lambda: jax.block_until_ready(fast(*arguments))


HOSTS = {"tenon": tenon, "torch": eager, "inductor": inductor, "onnxruntime": onnxruntime, "openvino": openvino, "xla": xla}


def tensor_of(result):
    """A result of a library as a tensor."""
    if isinstance(result, torch.Tensor):
        return result
    return torch.from_numpy(np.array(result)) if isinstance(result, np.ndarray) else torch.from_dlpack(result)

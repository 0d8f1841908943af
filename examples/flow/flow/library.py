"""The functions of Tenon's C ABI (tenon/tenon.h) that flow needs, through ctypes.

TENON_LIBRARY names libtenon.so.1; without it the installed package `tenon` or the system's library path has it. A call that
fails raises FlowError with the library's message.
"""

import ctypes
import functools
import importlib.util
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

import numpy


class FlowError(RuntimeError):
    pass


class Dtype(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class TensorView(ctypes.Structure):
    """tenon_tensor: a tensor of the host, borrowed for a call."""
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("dtype", Dtype),
                ("shape", c_void_p), ("strides", c_void_p), ("byte_offset", c_uint64)]


CODES = {"f32": (2, 32), "f64": (2, 64), "i32": (0, 32), "i64": (0, 64), "u8": (1, 8), "bool": (6, 8)}
NAMES = {code: name for name, code in CODES.items()}
NUMPY = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8", "bool": "bool"}
DTYPES = {numpy.dtype(v): k for k, v in NUMPY.items()}

SIGNATURES = {
    "tenon_graph_create": [c_char_p, POINTER(c_void_p)],
    "tenon_graph_add_input": [c_void_p, c_char_p, Dtype, c_char_p, c_void_p, POINTER(c_uint32)],
    "tenon_graph_add_constant": [c_void_p, c_char_p, POINTER(TensorView), POINTER(c_uint32)],
    "tenon_graph_add_node": [c_void_p, c_char_p, POINTER(c_uint32), c_size_t, c_char_p, c_char_p, POINTER(c_uint32)],
    "tenon_graph_add_gradients": [c_void_p, POINTER(c_uint32), c_size_t, POINTER(c_uint32), POINTER(c_uint32), c_size_t,
                                  POINTER(c_uint32)],
    "tenon_graph_value_type": [c_void_p, c_uint32, POINTER(Dtype), c_char_p, c_size_t, POINTER(c_size_t)],
    "tenon_graph_set_outputs": [c_void_p, POINTER(c_uint32), c_size_t, c_void_p],
    "tenon_graph_add_update": [c_void_p, c_uint32, c_uint32],
    "tenon_graph_finalize": [c_void_p],
    "tenon_graph_print": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "tenon_program_create": [c_void_p, c_void_p, c_void_p, c_size_t, POINTER(c_void_p)],
    "tenon_program_run": [c_void_p, POINTER(POINTER(TensorView)), c_size_t, POINTER(POINTER(TensorView)), c_size_t],
    "tenon_program_explain": [c_void_p, c_int32, POINTER(c_char_p), POINTER(c_size_t)],
}


@functools.cache
def library():
    path = os.environ.get("TENON_LIBRARY")
    if not path and (spec := importlib.util.find_spec("tenon")):  # found, not imported
        path = os.path.join(os.path.dirname(spec.origin), "_lib", "libtenon.so.1")
    lib = ctypes.CDLL(path if path and os.path.exists(path) else "libtenon.so.1")
    for name, arguments in SIGNATURES.items():
        getattr(lib, name).argtypes, getattr(lib, name).restype = arguments, c_int32
    lib.tenon_last_error.restype = c_char_p
    for name in ("tenon_graph_release", "tenon_program_release"):
        getattr(lib, name).argtypes, getattr(lib, name).restype = [c_void_p], None
    return lib


def call(name, *arguments):
    if getattr(library(), name)(*arguments):
        raise FlowError(library().tenon_last_error().decode(errors="replace"))


def view(array):
    """A TensorView of a contiguous array. It borrows the array's memory; the shape lives in view.keep."""
    tensor, shape = TensorView(), (c_int64 * array.ndim)(*array.shape)
    tensor.data, tensor.device_type, tensor.ndim = array.ctypes.data, 1, array.ndim
    tensor.dtype = Dtype(*CODES[DTYPES[array.dtype]], 1)
    tensor.shape, tensor.keep = ctypes.addressof(shape), shape
    return tensor


def values(list_):
    return (c_uint32 * len(list_))(*list_)


class Graph:
    """A tenon_graph under construction. Values are numbers; sizes are strings, "N" or "4" or "N//2"."""

    def __init__(self, name="main"):
        self.handle = c_void_p()
        call("tenon_graph_create", name.encode(), byref(self.handle))

    def __del__(self):
        if self.handle:
            library().tenon_graph_release(self.handle)

    def input(self, name, dtype, dims):
        out = c_uint32()
        call("tenon_graph_add_input", self.handle, name.encode(), Dtype(*CODES[dtype], 1), ",".join(dims).encode(), None, byref(out))
        return out.value

    def constant(self, array):
        out = c_uint32()
        call("tenon_graph_add_constant", self.handle, None, byref(view(numpy.ascontiguousarray(array))), byref(out))
        return out.value

    def node(self, op, operands=(), **attrs):
        out = c_uint32()
        call("tenon_graph_add_node", self.handle, op.encode(), values(operands), len(operands), attributes(attrs).encode(), None,
             byref(out))
        return out.value

    def number(self, x, like):
        """A scalar literal of the dtype of the value `like`."""
        return self.node("full", value=float(x), shape=[], dtype=Word(self.type(like)[0]))

    def gradients(self, targets, wrt, heads=None):
        out = (c_uint32 * len(wrt))()
        call("tenon_graph_add_gradients", self.handle, values(targets), len(targets), values(heads) if heads else None,
             values(wrt), len(wrt), out)
        return list(out)

    def type(self, value):
        """(dtype, sizes) of a value."""
        dtype, length, text = Dtype(), c_size_t(), ctypes.create_string_buffer(4096)
        call("tenon_graph_value_type", self.handle, value, byref(dtype), text, len(text), byref(length))
        return NAMES[dtype.code, dtype.bits], split_sizes(text.value.decode())

    def finish(self, outputs, updates):
        """updates: (input, value) pairs."""
        call("tenon_graph_set_outputs", self.handle, values(outputs), len(outputs), None)
        for target, value in updates:
            call("tenon_graph_add_update", self.handle, target, value)
        call("tenon_graph_finalize", self.handle)

    def text(self):
        length = c_size_t()
        call("tenon_graph_print", self.handle, None, 0, byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        call("tenon_graph_print", self.handle, text, len(text), byref(length))
        return text.value.decode()


class Program:
    """A tenon_program. One program serves all sizes of the graph's symbols."""

    def __init__(self, graph):
        self.handle = c_void_p()
        call("tenon_program_create", graph.handle, None, None, 0, byref(self.handle))

    def __del__(self):
        if self.handle:
            library().tenon_program_release(self.handle)

    def run(self, inputs, outputs):
        """inputs, outputs: contiguous arrays in the graph's order. Updated inputs are written in their own memory."""
        tensors = [[view(a) for a in arrays] for arrays in (inputs, outputs)]
        pointers = [(POINTER(TensorView) * len(list_))(*map(ctypes.pointer, list_)) for list_ in tensors]
        call("tenon_program_run", self.handle, pointers[0], len(inputs), pointers[1], len(outputs))

    def explain(self):
        text, length = c_char_p(), c_size_t()
        call("tenon_program_explain", self.handle, 0, byref(text), byref(length))
        return ctypes.string_at(text, length.value).decode()


class Word(str):
    """An attribute that is written without quotes: a dtype or a size."""


def attributes(attrs):
    def text(value):
        if isinstance(value, Word):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return f'"{value}"'
        return "[" + ",".join(map(text, value)) + "]" if isinstance(value, (list, tuple)) else repr(value)
    return ", ".join(f"{name}={text(value)}" for name, value in attrs.items())


def split_sizes(text):
    """The sizes of "N,max(2,M),4"."""
    sizes, depth = [""] if text else [], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            sizes.append("")
        else:
            sizes[-1] += c
    return sizes


def evaluated(size, symbols):
    """The value of a size, whose grammar is a part of Python's."""
    return eval(size, {"__builtins__": {}, "max": max, "min": min}, symbols)

"""Tenon's functions for MXNet symbols through ctypes, for the tests of this directory.

The library is the one that the variable TENON_LIBRARY names, else the release build of this tree.
"""

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_void_p
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# DLPack's (code, bits) of the dtypes that NumPy and Tenon share.
DTYPES = {"float32": (2, 32), "float64": (2, 64), "float16": (2, 16), "int64": (0, 64), "int32": (0, 32), "int16": (0, 16),
          "int8": (0, 8), "uint8": (1, 8), "bool": (6, 8)}


class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]

    @classmethod
    def of(cls, dtype):
        return cls(*DTYPES[np.dtype(dtype).name], 1)


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("dtype", DType),
                ("shape", c_void_p), ("strides", c_void_p), ("byte_offset", ctypes.c_uint64)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("training", c_int32), ("min_nodes", c_int32), ("op_names", c_char_p)]


class Input(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("dtype", DType), ("dims", c_char_p), ("param", c_int32)]


QUERY = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_char_p, c_char_p, c_int32, c_char_p)


@functools.cache
def library():
    lib = ctypes.CDLL(os.environ.get("TENON_LIBRARY", str(ROOT / "build/release/libtenon.so.1")))
    lib.tenon_last_error.restype = c_char_p
    lib.tenon_symbol_node_count.restype = lib.tenon_params_count.restype = c_size_t
    for name in ("tenon_symbol_release", "tenon_graph_release", "tenon_program_release", "tenon_params_release"):
        getattr(lib, name).restype = None
    return lib


class Error(RuntimeError):
    def __init__(self, status):
        self.status = {1: "invalid", 2: "unsupported", 3: "environment", 4: "internal"}[status]
        super().__init__(self.status + ": " + library().tenon_last_error().decode(errors="replace"))


def check(status):
    if status:
        raise Error(status)


def _text(function, handle):
    length = c_size_t()
    check(function(handle, None, c_size_t(0), ctypes.byref(length)))
    buffer = ctypes.create_string_buffer(length.value + 1)
    check(function(handle, buffer, c_size_t(length.value + 1), ctypes.byref(length)))
    return buffer.value.decode()


def _tensor(array, keep):
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    keep.append(shape)
    return Tensor(array.ctypes.data, 1, 0, array.ndim, DType.of(array.dtype), ctypes.addressof(shape), None, 0)


class Graph:
    """A translated graph as a program. outputs: shapes and dtypes of the results."""

    def __init__(self, handle):
        self.handle = handle
        self.program = None

    def __del__(self):
        if self.program:
            library().tenon_program_release(self.program)
        library().tenon_graph_release(self.handle)

    def print(self):
        return _text(library().tenon_graph_print, self.handle)

    def run(self, inputs, outputs):
        """inputs: arrays in the order of the variables. outputs: [(shape, dtype)]. Returns the arrays."""
        if self.program is None:
            self.program = c_void_p()
            check(library().tenon_program_create(self.handle, None, None, c_size_t(0), ctypes.byref(self.program)))
        arrays = [np.asarray(a, order="C") for a in inputs]
        results = [np.empty(shape, dtype) for shape, dtype in outputs]
        keep = []
        given = [_tensor(a, keep) for a in arrays]
        made = [_tensor(a, keep) for a in results]
        pointers = (POINTER(Tensor) * len(given))(*[ctypes.pointer(t) for t in given])
        targets = (POINTER(Tensor) * len(made))(*[ctypes.pointer(t) for t in made])
        check(library().tenon_program_run(self.program, pointers, c_size_t(len(given)), targets, c_size_t(len(made))))
        return results


class Symbol:
    def __init__(self, json):
        data = json.encode() if isinstance(json, str) else json
        self.handle = c_void_p()
        check(library().tenon_symbol_parse(data, c_size_t(len(data)), ctypes.byref(self.handle)))

    def __del__(self):
        if self.handle:
            library().tenon_symbol_release(self.handle)

    def print(self):
        return _text(library().tenon_symbol_print, self.handle)

    def nodes(self):
        """[(op, name)]"""
        out = []
        for i in range(library().tenon_symbol_node_count(self.handle)):
            op, name = c_char_p(), c_char_p()
            check(library().tenon_symbol_node(self.handle, c_size_t(i), ctypes.byref(op), ctypes.byref(name)))
            out.append((op.value.decode(), name.value.decode()))
        return out

    def query(self, **options):
        """[(name, op, translated, why)] of the nodes that are no variables."""
        answers = []

        def collect(user, node, name, op, translated, why):
            answers.append((name.decode(), op.decode(), bool(translated), why.decode()))

        check(library().tenon_symbol_query(self.handle, ctypes.byref(self._options(**options)), QUERY(collect), None))
        return answers

    def partition(self, **options):
        n = library().tenon_symbol_node_count(self.handle)
        parts = (c_int32 * n)()
        check(library().tenon_symbol_partition(self.handle, ctypes.byref(self._options(**options)), parts, c_size_t(n)))
        return list(parts)

    def graph(self, types, **options):
        """types: {name: (dims or None, dtype or None)}, dims a tuple of numbers and symbols."""
        entries = (Input * len(types))()
        for entry, (name, (dims, dtype)) in zip(entries, types.items()):
            entry.struct_size = ctypes.sizeof(Input)
            entry.name = name.encode()
            entry.dims = None if dims is None else ",".join(map(str, dims)).encode()
            entry.dtype = DType() if dtype is None else DType.of(dtype)
        handle = c_void_p()
        check(library().tenon_symbol_graph(self.handle, ctypes.byref(self._options(**options)), entries, c_size_t(len(types)),
                                           ctypes.byref(handle)))
        return Graph(handle)

    def _options(self, training=False, min_nodes=0, op_names=None):
        return Options(ctypes.sizeof(Options), training, min_nodes, op_names and ",".join(op_names).encode())


def params(data):
    """{name: array} of the bytes of a .params file."""
    handle = c_void_p()
    check(library().tenon_params_parse(data, c_size_t(len(data)), ctypes.byref(handle)))
    out = {}
    names = {pair: name for name, pair in DTYPES.items()}
    for i in range(library().tenon_params_count(handle)):
        name, tensor = c_char_p(), Tensor()
        check(library().tenon_params_get(handle, c_size_t(i), ctypes.byref(name), ctypes.byref(tensor)))
        dtype = np.dtype(names[tensor.dtype.code, tensor.dtype.bits])
        shape = list((ctypes.c_int64 * tensor.ndim).from_address(tensor.shape)) if tensor.ndim else []
        count = int(np.prod(shape, dtype=np.int64))
        data_of = (ctypes.c_char * (count * dtype.itemsize)).from_address(tensor.data)
        out[name.value.decode()] = np.frombuffer(bytes(data_of), dtype).reshape(shape)
    library().tenon_params_release(handle)
    return out

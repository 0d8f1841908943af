"""Calls Tenon's C ABI (include/tenon/tenon.h) through ctypes. It declares only the functions that the package needs.

Importing this module loads nothing; library() opens libtenon on first use. A failing call raises Error with its status and
the message of tenon_last_error(). Tested by tests/torch/.
"""

import ctypes
import functools
import os
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p

STATUS = {1: "invalid", 2: "unsupported", 3: "environment", 4: "internal"}
TENSOR_WORDS = 6  # a DLTensor is 48 bytes: data, device, ndim and dtype, shape, strides, byte_offset


class Error(RuntimeError):
    def __init__(self, status, message):
        self.status = STATUS.get(status, str(status))
        self.sentence = message
        super().__init__(f"{self.status}: {message}")


DEVICE_GRAPHS = ("auto", "always", "never")  # TENON_DEVICE_GRAPHS_...


class ProgramOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("freeze", c_int32), ("num_threads", c_int32), ("context", c_void_p),
                ("max_plans", c_int64), ("max_plan_bytes", c_int64), ("reserved1", c_int32), ("verify", c_int32),
                ("device_type", c_int32), ("device_id", c_int32), ("device_graphs", c_int32), ("reserved2", c_int32)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("log", c_void_p), ("log_user", c_void_p), ("parallel_for", c_void_p),
                ("parallel_user", c_void_p), ("num_threads", c_int32), ("alloc", c_void_p), ("free", c_void_p),
                ("allocator_user", c_void_p), ("device_alloc", c_void_p), ("device_free", c_void_p),
                ("device_allocator_user", c_void_p)]


class ProgramStats(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t)] + [
        (name, c_int64)
        for name in ("nodes", "nodes_fused", "kernels", "kernels_compiled", "steps", "workspace_bytes", "plans", "plan_hits")
    ] + [("compile_ms", c_double)] + [
        (name, c_int64) for name in ("plan_misses", "plan_waits", "plan_evictions", "plan_bytes")
    ] + [("plan_ms", c_double), ("reserved1", c_int64), ("reserved2", c_int64),
         ("reference_steps", c_int64)]

    def as_dict(self):
        return {name: getattr(self, name) for name, _ in self._fields_[1:] if not name.startswith("reserved")}


class OpInfo(ctypes.Structure):
    FAULT_NEVER, FAULT_INTEGER, FAULT_INDEX = 0, 1, 2
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("kind", c_char_p), ("attrs", c_char_p), ("doc", c_char_p),
                ("arity", c_int32), ("optional", c_int32), ("ulp", c_double), ("to_bool", c_int32), ("fault", c_int32)]


class GradientOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("targets", POINTER(c_int32)), ("n_targets", c_size_t), ("wrt", POINTER(c_int32)),
                ("n_wrt", c_size_t), ("heads", c_int32), ("keep_outputs", c_int32)]


class CacheStats(ctypes.Structure):
    COUNTS = ("hits", "misses", "refused", "damaged", "writes", "failed_writes", "removed", "bytes_read", "bytes_written")
    _fields_ = [("struct_size", c_size_t), ("directory", c_char_p), ("off", c_char_p)] + [(name, c_int64) for name in COUNTS]


class SymbolOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("training", c_int32), ("min_nodes", c_int32), ("op_names", c_char_p)]


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


CPU, CUDA = (1, 0), 2  # (type, id) as in a DLTensor, and a type

_SIGNATURES = {
    "tenon_last_error": (c_char_p, []),
    "tenon_version_string": (c_char_p, []),
    "tenon_build_info": (c_char_p, []),
    "tenon_graph_parse": (c_int32, [c_char_p, c_size_t, POINTER(c_void_p)]),
    "tenon_graph_release": (None, [c_void_p]),
    "tenon_graph_print": (c_int32, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "tenon_graph_gradient": (c_int32, [c_void_p, POINTER(GradientOptions), POINTER(c_void_p)]),
    "tenon_graph_query": (c_int32, [c_void_p, Device, c_void_p, c_void_p]),
    "tenon_symbol_parse": (c_int32, [c_char_p, c_size_t, POINTER(c_void_p)]),
    "tenon_symbol_release": (None, [c_void_p]),
    "tenon_symbol_node_count": (c_size_t, [c_void_p]),
    "tenon_symbol_query": (c_int32, [c_void_p, POINTER(SymbolOptions), c_void_p, c_void_p]),
    "tenon_symbol_partition": (c_int32, [c_void_p, POINTER(SymbolOptions), POINTER(c_int32), c_size_t]),
    "tenon_context_create": (c_int32, [POINTER(ContextOptions), POINTER(c_void_p)]),
    "tenon_program_create": (c_int32, [c_void_p, POINTER(ProgramOptions), c_void_p, c_size_t, POINTER(c_void_p)]),
    "tenon_program_update_params": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "tenon_program_run_on": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]),
    "tenon_program_run_with": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]),
    "tenon_program_explain": (c_int32, [c_void_p, c_int32, POINTER(c_char_p), POINTER(c_size_t)]),
    "tenon_release_memory": (c_int32, []),
    "tenon_profile_start": (c_int32, []),
    "tenon_profile_stop": (c_int32, [POINTER(c_char_p), POINTER(c_size_t)]),
    "tenon_observe_steps": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tenon_program_get_stats": (c_int32, [c_void_p, POINTER(ProgramStats)]),
    "tenon_program_release": (None, [c_void_p]),
    "tenon_op_describe": (c_int32, [c_char_p, POINTER(OpInfo)]),
    "tenon_cache_get_stats": (c_int32, [POINTER(CacheStats)]),
}

_library = None
_lock = threading.Lock()


def library():
    """libtenon: the file that TENON_LIBRARY names, else _lib/libtenon.so.1 in this package."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _open()
    return _library


def packaged(name):
    """The path of a file that this package ships beside the library."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_lib", name)


def _open():
    path = os.environ.get("TENON_LIBRARY") or packaged("libtenon.so.1")
    try:
        lib = ctypes.CDLL(path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as e:
        raise OSError(f"tenon: cannot load the library {path} ({e}); set TENON_LIBRARY to libtenon.so.1") from None
    return lib


def run_function():
    """tenon_program_run_on without declared argument types. A call takes a third less time, but needs ctypes objects as arguments."""
    function = library()["tenon_program_run_on"]
    function.restype = c_int32
    return function


def check(status):
    if status:
        raise Error(status, (library().tenon_last_error() or b"").decode(errors="replace"))


@functools.cache
def op(name):
    """The OpInfo of a row of the op table."""
    info = OpInfo(ctypes.sizeof(OpInfo))
    check(library().tenon_op_describe(name.encode(), ctypes.byref(info)))
    return info


def cache_stats():
    """The counts of the cache of kernels and graphs on disk, in this process: name of CacheStats.COUNTS -> count. All are 0 before the
    library is loaded."""
    out = CacheStats(ctypes.sizeof(CacheStats))
    if _library is not None:
        check(_library.tenon_cache_get_stats(ctypes.byref(out)))
    return {name: getattr(out, name) for name in CacheStats.COUNTS}


def context(alloc, free):
    """A tenon_context that lives as long as the process. alloc, free: addresses of C functions, from which its programs take
    memory on devices."""
    options, out = ContextOptions(ctypes.sizeof(ContextOptions), device_alloc=alloc, device_free=free), c_void_p()
    check(library().tenon_context_create(ctypes.byref(options), ctypes.byref(out)))
    return out


def gradient(text, wrt=None, keep_outputs=False):
    """The text of the graph that computes the gradients of a graph's outputs by the inputs at the positions wrt (None: all floats). An
    input d_NAME per output, the gradient of the output, follows the graph's own inputs. keep_outputs: the outputs come first."""
    lib, graph, made, length, data = library(), c_void_p(), c_void_p(), c_size_t(), text.encode()
    check(lib.tenon_graph_parse(data, len(data), ctypes.byref(graph)))
    try:
        options = GradientOptions(ctypes.sizeof(GradientOptions), heads=1, keep_outputs=keep_outputs)
        if wrt is not None:
            options.wrt, options.n_wrt = (c_int32 * len(wrt))(*wrt), len(wrt)
        check(lib.tenon_graph_gradient(graph, ctypes.byref(options), ctypes.byref(made)))
        check(lib.tenon_graph_print(made, None, 0, ctypes.byref(length)))
        buffer = ctypes.create_string_buffer(length.value + 1)
        check(lib.tenon_graph_print(made, buffer, len(buffer), ctypes.byref(length)))
        return buffer.value.decode()
    finally:
        lib.tenon_graph_release(graph)
        lib.tenon_graph_release(made)


_QUERY = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_uint32, c_char_p, c_char_p, c_char_p, c_char_p)


def refused(text, device):
    """Name -> reason, for each value of the graph that no back end computes on this device."""
    lib, graph, data, result = library(), c_void_p(), text.encode(), {}

    @_QUERY
    def each(user, node, name, op, backend, why):
        if not backend:
            result[name.decode()] = why.decode()

    check(lib.tenon_graph_parse(data, len(data), ctypes.byref(graph)))
    try:
        check(lib.tenon_graph_query(graph, Device(*device), ctypes.cast(each, c_void_p), None))
    finally:
        lib.tenon_graph_release(graph)
    return result


_SYMBOL_QUERY = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_char_p, c_char_p, c_int32, c_char_p)


class Symbol:
    """Owns a tenon_symbol until the end of the with block. op_names: "Convolution,Activation", or None."""

    def __init__(self, json):
        data, self.handle = json.encode(), c_void_p()
        check(library().tenon_symbol_parse(data, len(data), ctypes.byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        library().tenon_symbol_release(self.handle)

    @staticmethod
    def _options(training, min_nodes, op_names):
        return ctypes.byref(SymbolOptions(ctypes.sizeof(SymbolOptions), training, min_nodes, op_names and op_names.encode()))

    def partition(self, training, min_nodes, op_names):
        """For each node the number of its subgraph, or -1."""
        parts = (c_int32 * library().tenon_symbol_node_count(self.handle))()
        check(library().tenon_symbol_partition(self.handle, self._options(training, min_nodes, op_names), parts, len(parts)))
        return list(parts)

    def refused(self, training, min_nodes, op_names):
        """Number -> reason, for each node that Tenon does not translate."""
        result = {}

        @_SYMBOL_QUERY
        def each(user, node, name, op, translated, why):
            if not translated:
                result[node] = why.decode(errors="replace")

        check(library().tenon_symbol_query(self.handle, self._options(training, min_nodes, op_names),
                                           ctypes.cast(each, c_void_p), None))
        return result


class Program:
    """Owns a tenon_program. pointers: addresses of DLTensors, one per graph input, 0 or None for inputs that are not frozen.
    Their tensors have to live until the program dies or update_params replaces them. on_release(program) is called before
    the program is released."""

    on_release = None
    frozen_with = None  # weak reference to the packing.Frozen that packed its parameters

    def __init__(self, text, freeze=False, num_threads=0, pointers=(), device=CPU, context=None, graphs="auto", verify=0):
        """context: from context(), or None."""
        lib = library()
        self.text, self.options = text, (device, context, graphs, verify)
        self.num_threads, self.constants, self.handle = num_threads, [], c_void_p()
        self._release = lib.tenon_program_release
        graph = c_void_p()
        data = text.encode()
        check(lib.tenon_graph_parse(data, len(data), ctypes.byref(graph)))
        try:
            options = ProgramOptions(ctypes.sizeof(ProgramOptions), int(freeze), num_threads,
                                     context, device_type=device[0], device_id=device[1],
                                     device_graphs=DEVICE_GRAPHS.index(graphs), verify=verify)
            params = (c_void_p * len(pointers))(*pointers) if freeze else None
            check(lib.tenon_program_create(graph, ctypes.byref(options), params, len(pointers) if freeze else 0,
                                           ctypes.byref(self.handle)))
        finally:
            lib.tenon_graph_release(graph)

    def __del__(self):
        handle = getattr(self, "handle", None)
        if not handle:
            return
        try:
            if self.on_release:
                self.on_release(self)
        except Exception:  # at interpreter exit a module may be gone before its objects
            pass
        self.handle = None
        self._release(handle)

    def again(self, freeze, pointers=()):
        """A new program of the same text and options. freeze: whether it packs the parameters at `pointers`."""
        new = Program(self.text, freeze, self.num_threads, pointers, *self.options)
        new.constants = self.constants
        return new

    def update_params(self, pointers):
        check(library().tenon_program_update_params(self.handle, (c_void_p * len(pointers))(*pointers), len(pointers)))

    def explain(self, json=False):
        text, length = c_char_p(), c_size_t()
        check(library().tenon_program_explain(self.handle, int(json), ctypes.byref(text), ctypes.byref(length)))
        return ctypes.string_at(text, length.value).decode()

    def stats(self):
        out = ProgramStats(ctypes.sizeof(ProgramStats))
        check(library().tenon_program_get_stats(self.handle, ctypes.byref(out)))
        return out.as_dict()

"""Symbols by hand, and MXNet's own answers, for the tests of this directory."""

import contextlib
import ctypes
import json

import mxnet as mx
import numpy as np


def node_symbol(op, names, attrs, outputs=1, auxiliary=0):
    """The JSON of one node that reads variables of the given names."""
    nodes = [{"op": "null", "name": n, "inputs": []} for n in names]
    nodes.append({"op": op, "name": "node", "attrs": {k: str(v) for k, v in attrs.items()},
                  "inputs": [[i, 0, 0] for i in range(len(names))]})
    n = len(names)
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(n)), "heads": [[n, i, 0] for i in range(outputs)],
                       "attrs": {"mxnet_version": ["int", 10901]}})


@contextlib.contextmanager
def semantics(op):
    """NumPy's shapes for its operators."""
    with mx.util.np_shape(op.startswith("_np")):
        yield


def to_mxnet(array):
    """The dtype is kept, float64 and the integers included."""
    return mx.nd.array(array, dtype=array.dtype)


def run_mxnet(text, arrays, train=False):
    """The outputs of MXNet's executor. arrays: {name: array}."""
    symbol = mx.sym.load_json(text)
    args = {n: to_mxnet(arrays[n]) for n in symbol.list_arguments()}
    aux = {n: to_mxnet(arrays[n]) for n in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), args, aux_states=aux, grad_req="null")
    return [o.asnumpy() for o in executor.forward(is_train=train)]


def assert_close(got, want, what="", inputs=()):
    """Equal shapes and dtypes; floats within 1e-5 of the largest magnitude, 1e-12 if the inputs are float64 too."""
    assert got.shape == want.shape and got.dtype == want.dtype, (what, got.shape, got.dtype, want.shape, want.dtype)
    if got.dtype.kind != "f":
        assert np.array_equal(got, want), what
        return
    narrowest = min(a.dtype.itemsize for a in (got, *inputs) if a.dtype.kind == "f")
    limit = {8: 1e-12, 4: 1e-5, 2: 4e-3}[narrowest]
    finite = np.isfinite(want)
    assert np.array_equal(np.isfinite(got), finite), what
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True), what
    if finite.any():
        scale = max(np.abs(want[finite]).max(), 1e-3)
        difference = np.abs(got[finite].astype("float64") - want[finite].astype("float64")).max()
        assert difference <= limit * scale, (what, difference, scale)


def canonical_operators():
    """{name in symbol JSON: its other names} of all operators that MXNet has registered, without those of gradients."""
    from mxnet.base import _LIB, check_call, mx_uint, py_str

    found = {}
    for name in mx.operator.get_all_registered_operators():
        handle = ctypes.c_void_p()
        check_call(_LIB.NNGetOpHandle(ctypes.c_char_p(name.encode()), ctypes.byref(handle)))
        text = [ctypes.c_char_p() for _ in range(4)]
        lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
        count = mx_uint()
        check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, ctypes.byref(text[0]), ctypes.byref(text[1]), ctypes.byref(count),
                                                    *[ctypes.byref(x) for x in lists], ctypes.byref(text[2]),
                                                    ctypes.byref(text[3])))
        found.setdefault(py_str(text[0].value), []).append(name)
    return {k: sorted(set(v) - {k}) for k, v in sorted(found.items()) if "_backward" not in k}

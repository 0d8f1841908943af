"""Loading the plugin, and what that brings into the process."""

import tenon.mxnet


def test_a_second_load_does_nothing():
    tenon.mxnet.load()
    tenon.mxnet.load(verbose=True)


def test_mxnet_may_have_loaded_the_library_itself(process):
    process("""
import os, mxnet as mx, tenon, tenon.mxnet
path = os.environ.get("TENON_MXNET_LIBRARY") or os.path.join(os.path.dirname(tenon.__file__), "_lib", "libtenon_mxnet.so")
mx.library.load(os.path.abspath(path), verbose=False)
tenon.mxnet.load()
x = mx.sym.var("x")
symbol = mx.sym.exp(mx.sym.exp(x)).optimize_for("tenon")
assert "_tenon_subgraph" in symbol.tojson()
""")


def test_neither_pytorch_nor_mxnet_is_imported(process):
    process("""
import sys, tenon.mxnet
assert "torch" not in sys.modules and "mxnet" not in sys.modules
tenon.mxnet.load()
assert "torch" not in sys.modules and "mxnet" in sys.modules
""")


def test_a_missing_library_is_named(process):
    out = process("""
import tenon.mxnet
try:
    tenon.mxnet.load()
except OSError as error:
    print(error)
""", TENON_MXNET_LIBRARY="/nowhere/libtenon_mxnet.so")
    assert "/nowhere/libtenon_mxnet.so" in out

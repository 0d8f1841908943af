"""For all Python tests: TENON_CACHE is off unless the caller sets it, and the garbage collector runs seldom."""

import gc
import importlib.util
import os

os.environ.setdefault("TENON_CACHE", "off")
gc.set_threshold(100_000, 20, 50)  # PyTorch's tracing makes so many objects that collections took an eighth of the tests' time

# MXNet is in an environment of its own (`./dev test --only mxnet`). Elsewhere the name finds at most the folder tests/mxnet.
_mxnet = importlib.util.find_spec("mxnet")
collect_ignore = [] if _mxnet and _mxnet.origin else ["mxnet"]

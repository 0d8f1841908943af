"""Tenon in Apache MXNet 1.9: a backend for subgraphs.

    import mxnet as mx, tenon.mxnet
    tenon.mxnet.load()
    symbol = symbol.optimize_for("tenon", args, aux)
    block.hybridize(backend="tenon", static_alloc=True, static_shape=True)

Importing this package loads neither MXNet nor libtenon. Described in docs/mxnet.md. Tested by tests/mxnet/.
"""

import os
import threading

from .executor import guard
from .explain import Report, explain
from .training import wrap

__all__ = ["Report", "explain", "load"]

_lock = threading.Lock()
_loaded = False


def load(verbose=False):
    """Loads the backend "tenon" into MXNet: the file that TENON_MXNET_LIBRARY names, else _lib/libtenon_mxnet.so of the package
    tenon. A second call does nothing. verbose: MXNet prints what the library registers. Any thread."""
    global _loaded
    with _lock:
        if _loaded:
            return
        mxnet = _mxnet()
        beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_lib", "libtenon_mxnet.so")
        path = os.environ.get("TENON_MXNET_LIBRARY") or beside
        if not os.path.exists(path):
            raise OSError(f"tenon: there is no library {path}; set TENON_MXNET_LIBRARY to libtenon_mxnet.so")
        try:
            mxnet.library.load(os.path.abspath(path), verbose=verbose)
        except mxnet.base.MXNetError as error:
            # Somebody has called mxnet.library.load with this library, which registers its backend once.
            if "already registered" not in str(error):
                raise
        guard(mxnet)
        wrap(mxnet)
        _loaded = True


def _mxnet():
    try:
        import mxnet
    except (ImportError, AttributeError) as error:
        raise ImportError(f"tenon.mxnet needs MXNet 1.9.1, whose import failed ({error}); with Python 3.11, MXNet needs "
                          "numpy==1.23.5") from error
    version = getattr(mxnet, "__version__", "a folder of this name")
    if not version.startswith("1.9."):
        raise ImportError(f"tenon.mxnet needs MXNet 1.9.1, not {version}")
    return mxnet

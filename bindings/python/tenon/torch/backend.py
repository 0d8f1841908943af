"""The torch.compile backend "tenon". PyTorch finds it by its entry point in the group torch_dynamo_backends.

Tested by tests/torch/test_backend.py.
"""

import dataclasses
import sys
import threading
import time

from torch._dynamo.backends import registry

from .compile import compile_graph
from ..names import nearest
from .options import GRAPHS_OF_MODE, MODES, OptionError, Options
from .whole import recurrent


def _tenon(gm, example_inputs, *, mode=None, options=None):
    """The backend. mode: a mode of torch.compile. "reduce-overhead" and "max-autotune" set device_graphs="always";
    "max-autotune-no-cudagraphs" sets "never"."""
    if mode is not None and mode not in MODES:
        raise OptionError(f"tenon: unknown mode {mode!r}{nearest(mode, MODES)}")
    parsed = Options.parse(options)
    if mode in GRAPHS_OF_MODE:
        parsed = dataclasses.replace(parsed, device_graphs=GRAPHS_OF_MODE[mode])
    return compile_graph(gm, example_inputs, parsed)


def _reset():
    """torch._dynamo.reset() calls this. It has dropped the compiled functions and so their programs; counts stay."""


_tenon.__name__ = "tenon"
_tenon.reset = _reset
_looked_up = threading.Lock()  # acquired by PyTorch's first look-up of the backend and never released
MOST_WAIT = 1000  # milliseconds that another look-up waits for the first one


def __getattr__(name):
    """Gives PyTorch the backend under the name `tenon`. Several threads may look the name up at once. Each loads the entry point
    and registers the result, and a second registration fails. So only the first thread gets the backend here. The others get
    None, which PyTorch does not register, and then find the backend in the registry."""
    if name != "tenon":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    recurrent.allow(_tenon)  # here, because an import changes no settings
    code, frame = registry.lookup_backend.__code__, sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    if frame is None or _looked_up.acquire(blocking=False):
        return _tenon
    for _ in range(MOST_WAIT):
        if "tenon" in registry._COMPILER_FNS:
            return None
        time.sleep(0.001)
    return _tenon

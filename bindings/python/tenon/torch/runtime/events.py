"""Steps as events of PyTorch's profiler: while `torch.profiler.profile` records, each step of a program is an event "tenon::OPS", inside of
the event of the compiled function's call. Tested by tests/torch/test_profile.py.

A compiled function compares `profiler._is_profiler_enabled` with `events.on` (runner.py), and calls follow() when they differ. The library then
calls the two functions below around each step.
"""

import ctypes
import threading

import torch
from torch.autograd import profiler  # noqa: F401  (compiled functions read its flag)

from ... import _abi

on = False  # whether the library tells of steps
_open = threading.local()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
def _begin(_, name):
    event = torch.ops.profiler._record_function_enter_new(name.decode(errors="replace"))
    _open.__dict__.setdefault("events", []).append(event)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _end(_):
    if events := _open.__dict__.get("events"):
        torch.ops.profiler._record_function_exit._RecordFunction(events.pop())


def follow():
    """Starts or ends the calls of the library as the profiler does."""
    global on
    wanted = profiler._is_profiler_enabled
    pair = [ctypes.cast(f, ctypes.c_void_p) if wanted else None for f in (_begin, _end)]
    _abi.check(_abi.library().tenon_observe_steps(*pair, None))
    on = wanted

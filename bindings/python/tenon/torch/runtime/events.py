"""Steps as events of PyTorch's profiler: while `torch.profiler.profile` records, each step of a program is an event "tenon::OPS", inside of
the event of the compiled function's call. Tested by tests/torch/test_profile.py.

A compiled function reads `profiler._is_profiler_enabled` and calls follow() if it is set (runner.py). From then on the library calls the two
functions below around each step, until a step finds that the profiler has ended.
"""

import ctypes
import threading

import torch
from torch.autograd import profiler

from ... import _abi

on = False  # whether the library tells of steps
_open = threading.local()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
def _begin(_, name):
    event = None
    if profiler._is_profiler_enabled:
        event = torch.ops.profiler._record_function_enter_new(name.decode(errors="replace"))
    else:
        _tell(False)
    _open.__dict__.setdefault("events", []).append(event)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _end(_):
    if (event := _open.events.pop()) is not None:
        torch.ops.profiler._record_function_exit._RecordFunction(event)


def _tell(wanted):
    global on
    pair = [ctypes.cast(f, ctypes.c_void_p) if wanted else None for f in (_begin, _end)]
    _abi.check(_abi.library().tenon_observe_steps(*pair, None))
    on = wanted


def follow():
    """Has the library tell of steps."""
    if not on:
        _tell(True)

"""Steps as events of PyTorch's profiler: while `torch.profiler.profile` records, each step of a program is an event "tenon::OPS", inside of
the event of the compiled function's call. Tested by tests/torch/test_profile.py.

A compiled function reads `profiler._is_profiler_enabled` and calls follow() if it is set (runner.py). From then on the library calls
functions of the extension module (observer.c) around each step, until a step finds that the profiler has ended. These call _begin() and
PyTorch; an interrupt in _begin() is raised after the run. Where calls go through ctypes, steps are no events.
"""

import ctypes
import functools
import threading

import torch
from torch.autograd import profiler

from ... import _abi
from . import marshal

on = False  # whether the library tells of steps
_lock = threading.RLock()


def _begin(name):
    if profiler._is_profiler_enabled:
        return torch.ops.profiler._record_function_enter_new(name)
    _tell(False)


@functools.cache
def _observer():
    end = torch.ops.profiler._record_function_exit._RecordFunction._op  # a C function, which no interrupt stops
    return [ctypes.c_void_p(address) for address in marshal.chosen.module.observer(_begin, end)]


def _tell(wanted):
    global on
    with _lock:
        _abi.check(_abi.library().tenon_observe_steps(*_observer() if wanted else (None, None), None))
        on = wanted


def follow():
    """Has the library tell of steps."""
    if not on and marshal.chosen.in_c:
        _tell(True)

"""The steps of a call that are done once per tensor: in C (_lib/_door.abi3.so, from door.c) or, where that cannot be
loaded, in Python over ctypes. runner.py's generated functions call them; both ways have the same functions:

at(frame) is what bind and pointer take as `at`. bind(at, plan, args) writes the address of args[i] into word w of the
frame for each (i, w) of the plan. pointer(at, w, tensor) does so for one tensor, and returns it. step(...) is a function
that runs a program. state(args, plan) tells address and version of the tensors args[i]; current(args, plan, state),
whether they still are these. `in_c` says which. TENON_DOOR=ctypes chooses ctypes. Tested by tests/torch/test_door.py.
"""

import ctypes
import functools
import os
import struct

import torch

from . import _abi


class InC:
    in_c = True

    def __init__(self, module):
        self.bind, self.pointer, self.state, self.current = module.bind, module.pointer, module.state, module.current
        self.module = module

    @staticmethod
    def plan(*columns):
        rows = [n for row in zip(*columns) for n in row]
        return struct.pack(f"{len(rows)}q", *rows)

    @staticmethod
    def at(frame):
        return ctypes.addressof(frame.block)

    def step(self, program, inputs, outputs):
        """inputs, outputs: ctypes arrays of addresses, and how many count."""
        function = ctypes.cast(_abi.run_function(), ctypes.c_void_p).value
        tables = [n for table, count in (inputs, outputs) for n in (ctypes.addressof(table), count)]
        return functools.partial(self.module.run, function, program.handle.value, *tables)


class InPython:
    in_c = False

    @staticmethod
    def plan(*columns):
        return list(zip(*columns))

    @staticmethod
    def at(frame):
        return frame.words

    @staticmethod
    def bind(words, plan, args):
        for i, word in plan:
            words[word] = args[i].data_ptr()

    @staticmethod
    def pointer(words, word, tensor):
        words[word] = tensor.data_ptr()
        return tensor

    @staticmethod
    def step(program, inputs, outputs):
        tables = [x for table, count in (inputs, outputs)
                  for x in (ctypes.c_void_p(ctypes.addressof(table)), ctypes.c_size_t(count))]
        return functools.partial(_abi.run_function(), program.handle, *tables)

    @staticmethod
    def state(args, plan):
        return [(args[i].data_ptr(), args[i]._version) for i, in plan]

    @staticmethod
    def current(args, plan, state):
        return state == [(args[i].data_ptr(), args[i]._version) for i, in plan]


def load():
    if os.environ.get("TENON_DOOR") == "ctypes":
        return InPython()
    try:
        from ._lib import _door

        _door.open(torch.Tensor.__dlpack_c_exchange_api__)
    except (ImportError, AttributeError, ValueError):  # not built, or a PyTorch without the table
        return InPython()
    return InC(_door)


chosen = load()

"""Does the work per tensor in a call: writes addresses, shapes and strides into a frame, and makes the outputs.

Two classes have the same functions. InC calls the extension module (_lib/_marshal.abi3.so, from marshal.c). InPython uses
ctypes; it serves where the extension module cannot be loaded, or with TENON_MARSHAL=ctypes. `chosen` is an object of one of
the two. The functions that codegen.py writes call:

- empty(shape, strides, dtype): a tensor on the CPU. InC keeps the memory of large ones for later calls (outputs.h); release() returns
  to the system what no tensor uses.
- in_c: whether the object is an InC.
- plan(column, ...): rows of integers, in the form that the other functions read. Each argument is a column.
- at(frame): the frame, in the form that the other functions take as `at`.
- pointer(at, w, rank, tensor): writes the tensor's address into word w of the frame. Unless rank is -1, it also writes the
  tensor's shape and strides into the words that follow.
- step(program, plan, donated, inputs, outputs, made, fail, count, device): returns a function f(at, args, output...). f calls pointer with
  args[i] for each (i, w, rank) of the plan, makes the outputs and calls pointer with them. Then it runs the program (on a GPU
  on PyTorch's current stream) and returns the tuple of outputs. donated: a plan of (number of the input, i) of each donated input. If there
  are some, an InC makes outputs of static shapes when the program first writes to them, and replaces each donated args[i] by Ellipsis as soon as no
  step reads it. A program that fails on the way may have overwritten donated arguments, so then all of them are Ellipsis. inputs, outputs:
  (first word, length) of the frame's tables of tensors. made: for each output (w, rank, arguments of `empty`, or None if the caller passes
  the output). fail(status) raises.
  count: the word that counts calls, or -1. device: (type, id) of the program.
- state(args, plan): address, version and some bytes of each args[i], on the CPU. current(args, plan, state): whether these are still the same; not
  if state is None.
- draw(generator, bits, count, p): twister_bits of twister.h with the state of a torch.Generator, for twister.py. None in InPython.
- apart(args, plan): the first row of the plan is a number n, the others are indices. Whether the tensors of the first n indices
  share no memory with each other or with the tensors of the other indices. A tensor without readable memory shares none.

Tested by tests/torch/test_marshal.py.
"""

import ctypes
import os
import struct

import torch

from ... import _abi
from ..lowering.tensors import DTYPES

# DLPack's code and bits of a dtype.
DLPACK = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i64": (0, 64), "i32": (0, 32),
           "i16": (0, 16), "i8": (0, 8), "u8": (1, 8), "bool": (6, 8), "f8e4m3fn": (10, 8), "f8e5m2": (12, 8)}


def dlpack_type(dtype):
    """The DLDataType of a dtype of graph text, as an integer."""
    code, bits = DLPACK[dtype]
    return code | bits << 8 | 1 << 16


empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu


def empty_on(device):
    """A function f(shape, strides, dtype) that makes a tensor on the device."""
    if device[0] != _abi.CUDA:
        return chosen.empty
    if torch.cuda.device_count() == 1:
        return torch._C._dynamo.guards._empty_strided_cuda  # on the current device
    where = torch.device("cuda", device[1])
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=where)


def context(device):
    """The tenon_context whose programs allocate memory on the device through PyTorch. None on the CPU, and where PyTorch offers no
    such function and Tenon allocates through the driver."""
    global _context
    if device[0] == _abi.CUDA and _context is None and chosen.in_c and (memory := chosen.module.device_memory()):
        _context = _abi.context(*memory)
    return _context if device[0] == _abi.CUDA else None


_context = None


def table(words, place):
    """A table of tensors in a frame, as two arguments of tenon_program_run_on: its address and its length."""
    word, count = place
    return ctypes.c_void_p(ctypes.addressof(words.obj) + 8 * word), ctypes.c_size_t(count)


def span(tensor):
    """The addresses of a tensor's first byte and of the byte after its last one; (0, 0) without readable memory."""
    try:
        begin = tensor.data_ptr() if tensor.numel() else 0
        reach = sum(s * (n - 1) for n, s in zip(tensor.shape, tensor.stride()))
    except RuntimeError:
        begin = 0
    return (begin, begin + (reach + 1) * tensor.element_size()) if begin else (0, 0)


def samples(tensor):
    """The first, middle and last bytes of a tensor in the CPU's memory, as in marshal.c."""
    begin, end = span(tensor)
    n = min(8, end - begin)
    return [ctypes.string_at(begin + (end - begin - n) // 2 * i, n) for i in range(3)]


class InC:
    in_c = True

    def __init__(self, module):
        self.pointer, self.state, self.current, self.apart = module.pointer, module.state, module.current, module.apart
        self.empty = module.outputs(empty_strided_cpu, {dtype: dlpack_type(name) for dtype, name in DTYPES.items()})
        self.release = module.outputs_release
        self.draw = module.draw
        self.module = module

    @staticmethod
    def plan(*columns):
        rows = [n for row in zip(*columns) for n in row]
        return struct.pack(f"{len(rows)}q", *rows)

    @staticmethod
    def at(frame):
        return ctypes.addressof(frame.block)

    def step(self, program, plan, donated, inputs, outputs, made, fail, count, device):
        function, with_host = (ctypes.cast(f, ctypes.c_void_p).value for f in (_abi.run_function(), _abi.library()["tenon_program_run_with"]))
        return self.module.step(function, with_host, program.handle.value, program, plan, donated, inputs, outputs, tuple(made),
                                empty_on(device), fail, count, device)


class InPython:
    in_c = False
    draw = None  # PyTorch draws
    empty = staticmethod(empty_strided_cpu)

    @staticmethod
    def release():
        pass  # PyTorch allocates the outputs

    @staticmethod
    def plan(*columns):
        return list(zip(*columns))

    @staticmethod
    def at(frame):
        return frame.words

    @staticmethod
    def pointer(words, word, rank, tensor):
        words[word] = tensor.data_ptr()
        if rank >= 0:
            for i, n in enumerate((*tensor.shape, *tensor.stride()), word + 6):
                words[i] = n

    @classmethod
    def step(cls, program, plan, donated, inputs, outputs, made, fail, count, device):
        run, empty = _abi.run_function(), empty_on(device)
        stream = torch._C._cuda_getCurrentRawStream if device[0] == _abi.CUDA else lambda _: None

        def step(words, args, *given):
            for i, word, rank in plan:
                cls.pointer(words, word, rank, args[i])
            given = iter(given)
            results = tuple(next(given) if arguments is None else empty(*arguments) for _, _, arguments in made)
            for (word, rank, _), tensor in zip(made, results):
                cls.pointer(words, word, rank, tensor)
            if count >= 0:
                words[count] += 1
            on = ctypes.c_void_p(stream(device[1]))
            if status := run(program.handle, *table(words, inputs), *table(words, outputs), on):
                if status >= 3:  # as in marshal.c: it failed on the way
                    for _, i in donated:
                        args[i] = ...
                return fail(status)
            return results

        return step

    @staticmethod
    def apart(args, plan):
        (count,), *indices = plan
        spans = [span(args[i]) for i, in indices]
        return not any(a < d and c < b for k, (a, b) in enumerate(spans[:count]) for c, d in (*spans[:k], *spans[count:]))

    @staticmethod
    def state(args, plan):
        return [(args[i].data_ptr(), args[i]._version, samples(args[i])) for i, in plan]

    @staticmethod
    def current(args, plan, state):
        return state is not None and len(state) == len(plan) and all(
            (t.data_ptr(), t._version) == (address, version) and samples(t) == read
            for t, (address, version, read) in zip((args[i] for i, in plan), state))


def load():
    if os.environ.get("TENON_MARSHAL") == "ctypes":
        return InPython()
    try:
        from ..._lib import _marshal

        _marshal.open(torch.Tensor.__dlpack_c_exchange_api__)
    except (ImportError, AttributeError, ValueError):  # the module is not built, or PyTorch has no such table
        return InPython()
    return InC(_marshal)


chosen = load()

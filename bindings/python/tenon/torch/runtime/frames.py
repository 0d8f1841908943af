"""Frames: a frame has all DLTensors of a call in one block of words, which is prepared once.

Each call takes a frame from a pool, so calls of several threads share none. Shapes that depend on symbols are written into the
frame in each call, static shapes once. codegen.py writes the functions that use them. Tested by tests/torch/test_aot_semantics.py.
"""

import ctypes
from typing import NamedTuple

from ... import _abi
from . import marshal

_DLPACK = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i64": (0, 64), "i32": (0, 32),
           "i16": (0, 16), "i8": (0, 8), "u8": (1, 8), "bool": (6, 8), "f8e4m3fn": (10, 8), "f8e5m2": (12, 8)}


class Layout:
    """The words of a frame: the place of each DLTensor, and all values that are known before a call."""

    def __init__(self, device=_abi.CPU):
        """device: of the tensors, (type, id) as in a DLTensor."""
        self.words, self.pointers, self.segments, self.frozen, self.device = [0], [], [], None, tuple(device)
        self.calls = 0  # the word that counts calls

    def tensor(self, dtype, shape, strides, device=None):
        """Adds a DLTensor. Returns the index of its data word, and its rank if a size depends on symbols, else -1."""
        kind, number = device or self.device
        code, bits = _DLPACK[dtype]
        at, rank = len(self.words), len(shape)
        self.words += [0, kind | number << 32, rank | (code | bits << 8 | 1 << 16) << 32, 0, 0, 0]
        self.pointers += [(at + 3, at + 6), (at + 4, at + 6 + rank)]
        static = all(isinstance(value, int) for value in (*shape, *strides))
        self.words += [*shape, *strides] if static else [0] * (2 * rank)
        self.words.append(0)  # a shape of rank 0 needs an address too
        return at, -1 if static else rank

    def table(self, ats):
        """Adds a list of addresses of DLTensors, None for NULL. Returns (first word, length)."""
        start = len(self.words)
        self.words += [0] * len(ats)
        self.pointers += [(start + i, at) for i, at in enumerate(ats) if at is not None]
        return start, len(ats)

    def word(self):
        self.words.append(0)
        return len(self.words) - 1

    def scalar(self):
        """Adds an i64 scalar with room for its value. Returns the indices of its data word and of the value."""
        at, _ = self.tensor("i64", (), (), _abi.CPU)
        value = self.word()
        self.pointers.append((at, value))
        return at, value

    def bind(self):
        """Makes the functions that run the segments."""
        self.steps = []
        for number, s in enumerate(self.segments):
            plan, table = marshal.chosen.plan(*zip(*s.bound)), self.table(s.inputs)
            calls = [(_abi.check, self.calls)] if not s.retry else [(None, self.calls), (_abi.check, -1)]
            for fail, count in calls:
                count = count if number == 0 else -1
                self.steps.append(marshal.chosen.step(s.program, plan, table, s.outputs, s.made, fail, count, self.device))
        return self

    def copy(self):
        """The same words, without segments."""
        new = Layout(self.device)
        new.words, new.pointers = list(self.words), list(self.pointers)
        return new

    def with_programs(self, programs, frozen):
        """A layout of the same words and more, for other programs. programs: (program, value of each of its symbols) per
        segment. A value is an int, or a symbol that the segment's program here has among its own values."""
        new = self.copy()
        new.frozen = frozen
        for (program, values), s in zip(programs, self.segments):
            scalars = dict(zip(map(str, s.values), s.inputs))
            for value in values:
                if str(value) not in scalars:
                    scalars[str(value)], word = new.scalar()
                    new.words[word] = value
            inputs = [scalars[str(value)] for value in values] + s.inputs[len(s.values):]
            new.segments.append(s._replace(program=program, values=values, inputs=inputs))
        return new

    def make(self):
        return Frame(self)


class Part(NamedTuple):
    """A segment in a layout."""

    program: _abi.Program
    values: list    # of its symbols; they are the first inputs
    inputs: list    # of the program: the words of their DLTensors, None for those that are packed into it
    outputs: tuple  # (first word, length) of their table
    bound: list     # (argument, word, rank): the plan of marshal's step
    made: list      # as in marshal's step
    retry: bool     # a second step follows, for calls in which the first one refuses its buffers


class Frame:
    """The block of words of one call. at: the frame as marshal.py takes it; steps: run the programs; frozen: their packed parameters."""

    __slots__ = ("block", "words", "at", "steps", "frozen")

    def __init__(self, layout):
        self.block = (ctypes.c_int64 * len(layout.words))(*layout.words)
        base = ctypes.addressof(self.block)
        for at, to in layout.pointers:
            self.block[at] = base + 8 * to
        self.words = memoryview(self.block).cast("B").cast("q")
        self.at, self.steps, self.frozen = marshal.chosen.at(self), layout.steps, layout.frozen


class Refusing:
    """Stands for a frame in a call that an error keeps from its programs: each step raises the error."""

    def __init__(self, frame, error):
        def step(*_):
            raise error

        self.at, self.words, self.steps = frame.at, frame.words, (step,) * len(frame.steps)


class Pool:
    """The frames of a function. free: those that no call has; busy: those of calls that run programs with packed parameters.
    An interrupted call may lose its frame, but leaves none in `busy` (see runner.whole)."""

    def __init__(self, layout):
        self.layout, self.free, self.busy = layout, [], set()
        self.calls = 0  # counted by frames that are gone

    def make(self):
        return self.layout.make()

    def move(self, layout):
        """Makes frames of another layout from now on. A frame in use comes back to `free` as it is, and still computes right results."""
        self.layout = layout
        for _ in range(len(self.free)):
            try:
                self.calls += self.free.pop().words[layout.calls]
            except IndexError:  # taken by a call
                break

"""Frames. A frame is one block of int64 words that holds all DLTensors of a call.

Each call takes a frame from a pool, so calls of several threads share none. Static shapes are written when a frame is made;
shapes that depend on symbols are written in each call. codegen.py writes the functions that use frames.
Tested by tests/torch/test_aot_semantics.py.
"""

import ctypes
from typing import NamedTuple

from ... import _abi
from . import marshal


def dltensor_words(dtype, shape, strides, device=_abi.CPU):
    """The words of a DLTensor, then its shape and strides. The addresses are 0: word 0 of the data, word 3 of the shape, word 4 of the strides."""
    kind, number = device
    return [0, kind | number << 32, len(shape) | marshal.dlpack_type(dtype) << 32, 0, 0, 0, *shape, *strides, 0]  # a shape of rank 0 needs an address too


class Layout:
    """The words that a new frame starts with: the positions of the DLTensors, and all values that are known before a call."""

    def __init__(self, device=_abi.CPU):
        """device: (type, id) of the tensors, as in a DLTensor."""
        self.words, self.pointers, self.segments, self.frozen, self.device = [0], [], [], None, tuple(device)
        self.calls = 0  # the word that counts calls

    def tensor(self, dtype, shape, strides, device=None):
        """Adds a DLTensor. Returns the index of its data word, and its rank if a size depends on symbols, else -1."""
        at, rank = len(self.words), len(shape)
        self.pointers += [(at + 3, at + 6), (at + 4, at + 6 + rank)]
        static = all(isinstance(value, int) for value in (*shape, *strides))
        self.words += dltensor_words(dtype, *(shape, strides) if static else ([0] * rank,) * 2, device or self.device)
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
        """Adds an i64 scalar whose value is in the frame. Returns the indices of its data word and of the value."""
        at, _ = self.tensor("i64", (), (), _abi.CPU)
        value = self.word()
        self.pointers.append((at, value))
        return at, value

    def bind(self):
        """Makes the functions that run the segments."""
        self.steps = []
        for number, s in enumerate(self.segments):
            plan, table = marshal.chosen.plan(*zip(*s.bound)), self.table(s.inputs)
            donated = marshal.chosen.plan(*zip(*((len(s.values) + tensor, i) for tensor, i in s.donated)))
            count = self.calls if number == 0 else -1
            self.steps.append(marshal.chosen.step(s.program, plan, donated, table, s.outputs, s.made, _abi.check, count, self.device))
        return self

    def copy(self):
        """A Layout of the same words, without segments."""
        new = Layout(self.device)
        new.words, new.pointers = list(self.words), list(self.pointers)
        return new

    def with_programs(self, programs, frozen):
        """A Layout for other programs; it has these words and maybe more. programs: (program, values of its symbols) per segment.
        A value is an int, or a symbol that is also among the values of the segment's present program."""
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
    values: list    # of the program's symbols, which are its first inputs
    inputs: list    # the data word of each input's DLTensor; None for a packed parameter
    outputs: tuple  # (first word, length) of the table of outputs
    bound: list     # (argument, word, rank): the plan of marshal's step
    donated: list   # (position among the tensors, argument) of each donated input
    made: list      # as in marshal's step


class Frame:
    """The words of one call. at: the frame in the form that marshal.py takes; steps: the functions that run the programs; frozen:
    the packed parameters of these programs."""

    __slots__ = ("block", "words", "at", "steps", "frozen")

    def __init__(self, layout):
        self.block = (ctypes.c_int64 * len(layout.words))(*layout.words)
        base = ctypes.addressof(self.block)
        for at, to in layout.pointers:
            self.block[at] = base + 8 * to
        self.words = memoryview(self.block).cast("B").cast("q")
        self.at, self.steps, self.frozen = marshal.chosen.at(self), layout.steps, layout.frozen


class Refusing:
    """Replaces the frame of a call that cannot run its programs because of an error. Each step raises the error."""

    def __init__(self, frame, error):
        def step(*_):
            raise error

        self.at, self.words, self.steps = frame.at, frame.words, (step,) * len(frame.steps)


class Pool:
    """The frames of a function. free: frames that no call uses; busy: frames of calls that run programs with packed parameters.
    An interrupted call may lose its frame, but never leaves it in `busy` (see runner.whole)."""

    def __init__(self, layout):
        self.layout, self.free, self.busy = layout, [], set()
        self.calls = 0  # the counts of frames that have been dropped

    def make(self):
        return self.layout.make()

    def move(self, layout):
        """Makes all further frames from another layout. A frame in use returns to `free` unchanged and still computes right results."""
        self.layout = layout
        for _ in range(len(self.free)):
            try:
                self.calls += self.free.pop().words[layout.calls]
            except IndexError:  # a call has taken it
                break

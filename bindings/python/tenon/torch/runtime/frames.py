"""Frames: all DLTensors of a call in one block of words, prepared once.

Frames are pooled, so calls from several threads never share one. Shapes that depend on symbols are written into the frame per
call, static ones never again. codegen.py writes the functions that use them. Tested by tests/torch/test_aot_semantics.py.
"""

import ctypes
from typing import NamedTuple

from ... import _abi
from . import marshal

_DLPACK = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i64": (0, 64), "i32": (0, 32),
           "i16": (0, 16), "i8": (0, 8), "u8": (1, 8), "bool": (6, 8), "f8e4m3fn": (10, 8), "f8e5m2": (12, 8)}


class Layout:
    """The words of a frame: where each DLTensor stands, and what is known before a call."""

    def __init__(self, device=_abi.CPU):
        """device: of the tensors, (type, id) as in a DLTensor."""
        self.words, self.pointers, self.segments, self.frozen, self.device = [0], [], [], None, tuple(device)
        self.calls = 0  # the word that counts calls

    def tensor(self, dtype, shape, strides, device=None):
        """Adds a DLTensor; returns the index of its data word, and its rank if a size depends on symbols, else -1."""
        kind, number = device or self.device
        code, bits = _DLPACK[dtype]
        at, rank = len(self.words), len(shape)
        self.words += [0, kind | number << 32, rank | (code | bits << 8 | 1 << 16) << 32, 0, 0, 0]
        self.pointers += [(at + 3, at + 6), (at + 4, at + 6 + rank)]
        static = all(isinstance(value, int) for value in (*shape, *strides))
        self.words += [*shape, *strides] if static else [0] * (2 * rank)
        self.words.append(0)  # so that the shape of rank 0 has an address too
        return at, -1 if static else rank

    def table(self, ats):
        """Adds a list of addresses of DLTensors, None for NULL; returns (its first word, its length)."""
        start = len(self.words)
        self.words += [0] * len(ats)
        self.pointers += [(start + i, at) for i, at in enumerate(ats) if at is not None]
        return start, len(ats)

    def word(self):
        self.words.append(0)
        return len(self.words) - 1

    def scalar(self):
        """Adds an i64 scalar with room for its value; returns the index of its data word and of the value."""
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
        """The same words and more, for other programs. programs: (program, value of each of its symbols) per segment; a
        value is an int, or the symbol of a value that the program before it was told too."""
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
    values: list    # of its symbols
    inputs: list    # their words, None for what is packed into the program
    outputs: tuple  # first word of their table, and how many
    bound: list     # (argument, word, rank) of what is bound: plan of marshal.step
    made: list      # of marshal.step
    retry: bool     # a second step follows, for when the first one refuses its buffers


class Frame:
    """One call's block of words. `at` is the frame for marshal.py; `steps` run the programs, which are packed with `frozen`."""

    __slots__ = ("block", "words", "at", "steps", "frozen")

    def __init__(self, layout):
        self.block = (ctypes.c_int64 * len(layout.words))(*layout.words)
        base = ctypes.addressof(self.block)
        for at, to in layout.pointers:
            self.block[at] = base + 8 * to
        self.words = memoryview(self.block).cast("B").cast("q")
        self.at, self.steps, self.frozen = marshal.chosen.at(self), layout.steps, layout.frozen


class Refusing:
    """A frame in whose place the call runs without programs, because of an error: each step raises it."""

    def __init__(self, frame, error):
        def step(*_):
            raise error

        self.at, self.words, self.steps = frame.at, frame.words, (step,) * len(frame.steps)


class Pool:
    """Frames of a function. free: those that no call has; busy: those of calls that run programs with packed parameters. A
    call that is interrupted may lose its frame, but leaves none in `busy` (see runner.whole)."""

    def __init__(self, layout):
        self.layout, self.free, self.busy = layout, [], set()
        self.calls = 0  # of frames that are gone

    def make(self):
        return self.layout.make()

    def move(self, layout):
        """Frames of another layout from now on. One in use comes back and stays what it is, which is right too."""
        self.layout = layout
        for _ in range(len(self.free)):
            try:
                self.calls += self.free.pop().words[layout.calls]
            except IndexError:  # taken by a call
                break

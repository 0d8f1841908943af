"""Parameters that are packed into programs (options={"freeze": True}). Tested by tests/torch/test_packing.py.
"""

import ctypes
import threading
import time
import weakref

from torch.utils._python_dispatch import _disable_current_modes

from ... import report
from ..lowering import sizes
from ..lowering.tensors import DTYPES
from . import marshal
from .frames import Layout

MOST = 256   # sets of parameters that one function keeps packed
FEW = 3      # calls that a packing has to serve to be worth its time
WASTED = 8   # packings in a row that served fewer, until a function stops packing
STEADY = 64  # calls with the same parameters until it packs again

class Frozen:
    """Parameters packed into programs. A call compares data pointer and version of each; a difference re-packs.

    Functions that share the programs share this. Undetectable, and documented: writes through p.data or NumPy, which
    change neither. An alias of every parameter is kept, so that a replaced tensor's address cannot come back with other
    contents.
    """

    def __init__(self, programs, tensors):
        """programs: (program, graph inputs, input numbers); `tensors` fill these numbers, one after the other."""
        self.programs, self.pools, self.lock = programs, weakref.WeakSet(), threading.Lock()
        self.expected = self.keep(tensors)
        for program, _, _ in programs:
            program.frozen_with = weakref.ref(self)

    def keep(self, tensors):
        with _disable_current_modes():  # while compiling, PyTorch would want fake tensors
            self.kept = [t.detach() for t in tensors]
        self.owners = [weakref.ref(t) for t in tensors]
        return marshal.chosen.state(tensors, marshal.chosen.plan(range(len(tensors))))

    def belongs_to(self, tensors):
        return all(owner() is t for owner, t in zip(self.owners, tensors))

    def owned(self):
        """Whether the parameters live."""
        return all(owner() is not None for owner in self.owners)

    def refresh(self, args, indices, plan):
        """Re-packs for args[indices]. update_params must not run beside run, so this waits for all frames."""
        with self.lock:
            if marshal.chosen.current(args, plan, self.expected):
                return
            self.expected = None  # from here on every caller comes to the lock
            while any(pool.busy for pool in list(self.pools)):
                time.sleep(0)
            tensors = [args[i] for i in indices]
            expected, left = self.keep(tensors), iter(tensors)
            for program, count, numbers in self.programs:
                params = Params(count, [(number, next(left)) for number in numbers] + program.constants)
                program.update_params(params.addresses)
            self.expected = expected


class Params:
    """DLTensors of real tensors, one address per graph input, None for an input that is not frozen."""

    def __init__(self, count, numbered):
        self.addresses, layout = [None] * count, Layout()
        ats = [like(layout, t) for _, t in numbered]
        self.frame = layout.bind().make()
        for (number, t), at in zip(numbered, ats):
            self.frame.words[at] = t.data_ptr()
            self.addresses[number] = ctypes.addressof(self.frame.block) + 8 * at


def packed_together(uses):
    """(True, what the programs' parameters are packed with) if one function made all that are packed, and nothing else;
    None if they hold only constants. Else (False, None): packing anew concerns all of a function's programs."""
    packed = [use.program for use in uses if use.template.frozen]
    made_with = [program.frozen_with and program.frozen_with() for program in packed]
    if all(program.frozen_with is None for program in packed):
        return True, None
    frozen = made_with[0]
    together = frozen and all(m is frozen for m in made_with) and [p for p, _, _ in frozen.programs] == packed
    return (True, frozen) if together else (False, None)


class Packings:
    """Which function takes a call whose parameters are not the packed ones. Dynamo shares a function between modules that differ
    in parameters only, such as layers that are compiled one by one: each set of parameters is packed into programs of its own.
    Where parameters change with nearly every call, a function with nothing packed takes the calls, until they stay the same.
    """

    def __init__(self, compiled, assemble, plain=None):
        """compiled: of the function that asks. assemble(layout, indices, uses, plain): makes another function, as runner.assemble.
        plain: of the function that made this one for one set of parameters, if one did."""
        self.compiled, self.assemble, self.lock = compiled, assemble, threading.Lock()
        self.others = {} if plain is None else None  # ids of parameters -> (function, Frozen)
        self.plain = plain or Plain()
        self.served, self.wasted = 0, 0
        self.last, self.steady = None, 0

    def turn(self, args, frame):
        """Another function for the call; None if this one is to pack the call's parameters in place of what it has packed."""
        indices, layout = self.compiled.indices, self.compiled.pool.layout
        tensors, frozen = [args[i] for i in indices], layout.frozen
        if self.others is not None and frozen.owned() and not frozen.belongs_to(tensors):
            return self._other(layout, tensors)
        served = self.compiled.own_calls() + frame.words[layout.calls]
        self.wasted = self.wasted + 1 if served - self.served < FEW else 0
        self.served = served
        if self.wasted <= WASTED or self._are_steady(args, marshal.chosen.plan(indices)):
            return None
        return self._unpacked(layout, tensors)

    def _are_steady(self, args, plan):
        """Whether the parameters have been the same for long; then packing is tried anew."""
        if self.last is None or not marshal.chosen.current(args, plan, self.last):
            self.last, self.steady = marshal.chosen.state(args, plan), 0
        self.steady += 1
        if self.steady > STEADY:
            self.last, self.wasted = None, 0
        return self.last is None

    def _other(self, layout, tensors):
        key = tuple(map(id, tensors))
        with self.lock:
            if key not in self.others:
                self.others = {k: (call, frozen) for k, (call, frozen) in self.others.items() if frozen.owned()}
                if len(self.others) >= MOST:
                    return self._unpacked(layout, tensors)
                self.others[key] = self._packed(layout, tensors)
            return self.others[key][0]

    def _packed(self, layout, tensors):
        """(function, Frozen) of these parameters."""
        left, made = iter(tensors), {}
        for program, count, numbers in layout.frozen.programs:
            params = Params(count, [(number, next(left)) for number in numbers] + program.constants)
            made[program] = program.again(True, params.addresses)
        frozen = Frozen([(made[program], count, numbers) for program, count, numbers in layout.frozen.programs], tensors)
        programs = [(made.get(s.program, s.program), s.values) for s in layout.segments]
        return self._function(layout.with_programs(programs, frozen), made, self.compiled.indices, self.plain), frozen

    def _unpacked(self, layout, tensors):
        with self.plain.lock:
            if self.plain.function is None:
                made = {program: program.again(False) for program, _, _ in layout.frozen.programs}
                new = without_packing(layout, made, list(zip(self.compiled.indices, tensors)))
                self.plain.function = self._function(new, made, [], None)
            return self.plain.function

    def _function(self, layout, made, indices, plain):
        for program in made.values():
            report.born(program)
        uses = [use.of(s.program) for use, s in zip(self.compiled.uses, layout.segments)]
        function, compiled = self.assemble(layout, indices, uses, plain)
        self.compiled.others.append(compiled)
        return function


class Plain:
    """A function with nothing packed, once there is one: functions that differ in what they pack share it."""

    def __init__(self):
        self.function, self.lock = None, threading.Lock()


def without_packing(layout, made, arguments):
    """The layout for programs that take as inputs what others have packed. made: program with packed parameters -> program
    without; arguments: (number in args, a tensor like it) of each parameter, in the order of layout.frozen.programs."""
    new, left = layout.copy(), iter(arguments)
    packed = {program: [(number, *next(left)) for number in numbers] for program, _, numbers in layout.frozen.programs}
    for s in layout.segments:
        inputs, bound = list(s.inputs), list(s.bound)
        for number, argument, tensor in packed.get(s.program, ()):
            inputs[number] = like(new, tensor)
            bound.append((argument, inputs[number], -1))
        for number, tensor in s.program.constants if s.program in made else ():
            inputs[number] = like(new, tensor)
            new.words[inputs[number]] = tensor.data_ptr()
        new.segments.append(s._replace(program=made.get(s.program, s.program), inputs=inputs, bound=bound))
    return new


def like(layout, tensor):
    """Adds a DLTensor; returns the index of its data word."""
    return layout.tensor(DTYPES[tensor.dtype], tensor.shape, sizes.normal_strides(tensor.shape, tensor.stride()))[0]

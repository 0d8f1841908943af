"""Packs parameters into programs (options={"freeze": True}) and packs them again when they change.

Tested by tests/torch/test_packing.py.
"""

import ctypes
import threading
import time
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _disable_current_modes

from ... import report
from ..lowering import layouts
from ..lowering.tensors import DTYPES
from . import marshal
from .frames import Layout

MOST = 256   # sets of parameters that one function keeps packed
FEW = 3      # a packing that serves fewer calls counts as wasted
WASTED = 8   # after more wasted packings in a row, a function stops packing
STEADY = 64  # after more calls in a row with the same parameters, it packs again


def can_pack(tensor):
    """Whether the library packs a parameter. It packs tensors that have elements and are dense in some order of their axes. A tensor
    made under inference_mode has no version, so a change could not be noticed."""
    return (type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and not tensor.is_inference() and tensor.numel() > 0
            and torch.ops.aten.is_non_overlapping_and_dense(tensor))


_live, _lock = weakref.WeakSet(), threading.Lock()  # all Frozen


def _notice_step(optimizer, args, kwargs):
    """Has the parameters that a fused optimizer has changed packed again: its kernels leave versions as they are."""
    if torch.compiler.is_compiling() or not any(group.get("fused") for group in optimizer.param_groups):
        return
    changed = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with _lock:
        live = list(_live)
    for frozen in live:
        if any(id(owner()) in changed for owner in frozen.owners):
            frozen.expected = None


# At import, because a hook that comes later would have Dynamo compile steps again.
register_optimizer_step_post_hook(_notice_step)


class Frozen:
    """Parameters packed into programs. A call compares data pointer, version and some bytes of each, and packs again if one differs.

    Functions that share the programs share one Frozen. A write that changes neither the version nor these bytes is not noticed
    (docs/promises.md). A Frozen keeps an alias of every parameter, so that no other tensor can get the address of a replaced one.
    """

    def __init__(self, programs, tensors):
        """programs: (program, how many inputs its graph has, numbers of the packed inputs) each. tensors: the packed tensors of all
        programs, in order."""
        self.programs, self.pools, self.lock = programs, weakref.WeakSet(), threading.Lock()
        self.expected = self.keep(tensors)
        for program, _, _ in programs:
            program.frozen_with = weakref.ref(self)
        with _lock:
            _live.add(self)

    def keep(self, tensors):
        with _disable_current_modes():  # while compiling, PyTorch would want fake tensors
            self.kept = [t.detach() for t in tensors]
        self.owners = [weakref.ref(t) for t in tensors]
        return marshal.chosen.state(tensors, marshal.chosen.plan(range(len(tensors))))

    def belongs_to(self, tensors):
        return all(owner() is t for owner, t in zip(self.owners, tensors))

    def owned(self):
        """Whether all parameters are still alive."""
        return all(owner() is not None for owner in self.owners)

    def refresh(self, args, indices, plan):
        """Packs args[indices] instead. Waits until no frame is busy, because no program may run during its update_params."""
        with self.lock:
            if marshal.chosen.current(args, plan, self.expected):
                return
            self.expected = None  # from now on every other call waits for the lock
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
    """(True, Frozen) if the programs with packed parameters are exactly those of one Frozen; (True, None) if they pack only
    constants; else (False, None). A function needs them all in one Frozen, because it repacks all of its programs at once."""
    packed = [use.program for use in uses if use.template.frozen]
    made_with = [program.frozen_with and program.frozen_with() for program in packed]
    if all(program.frozen_with is None for program in packed):
        return True, None
    frozen = made_with[0]
    together = frozen and all(m is frozen for m in made_with) and [p for p, _, _ in frozen.programs] == packed
    return (True, frozen) if together else (False, None)


class Packings:
    """Chooses the function for a call whose parameters are not the packed ones.

    Dynamo shares a function between modules that differ only in parameters, such as layers that are compiled one by one. Each
    set of parameters then gets programs of its own. If the parameters change in nearly every call, a function without packed
    parameters runs the calls until the parameters stay the same.
    """

    def __init__(self, compiled, assemble, plain=None):
        """compiled: the Compiled of the function that calls choose(). assemble(layout, indices, uses, plain) makes another function
        (see runner.assemble). plain: None for a function of Dynamo's; for a function that this class made for one set of
        parameters, the Plain of the function it was made from."""
        self.compiled, self.assemble, self.lock = compiled, assemble, threading.Lock()
        self.others = {} if plain is None else None  # ids of parameters -> (function, Frozen)
        self.plain = plain or Plain()
        self.served, self.wasted = 0, 0
        self.last, self.steady = None, 0

    def choose(self, args, frame):
        """The function that has to run the call. None: this function runs it, after it has packed the parameters of the call."""
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
        """Whether the last STEADY calls had the same parameters, so that packing is worth it again."""
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
        """Makes a function with these parameters packed. Returns (function, Frozen)."""
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
            report.track(program)
        uses = [use.of(s.program) for use, s in zip(self.compiled.uses, layout.segments)]
        function, compiled = self.assemble(layout, indices, uses, plain)
        self.compiled.others.append(compiled)
        return function


class Plain:
    """Holds the function without packed parameters, once it exists. Functions that differ in packed parameters share it."""

    def __init__(self):
        self.function, self.lock = None, threading.Lock()


def without_packing(layout, made, arguments):
    """The Layout for programs that take the packed parameters as inputs. made: program with packed parameters -> program
    without them; arguments: for each parameter (index in args, a tensor of the same shape and strides), in the order of
    layout.frozen.programs."""
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
    """Adds a DLTensor with the tensor's dtype, shape and strides. Returns the index of its data word."""
    return layout.tensor(DTYPES[tensor.dtype], tensor.shape, layouts.normal_strides(tensor.shape, tensor.stride()))[0]

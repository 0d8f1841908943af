"""Makes a compiled function from the text that codegen.py writes. The function takes one list of arguments.

A call runs programs and the host steps between them. At the end it copies new values to the inputs that no program updates. A program's step
(marshal.py) fills the DLTensors of a frame (frames.py) and allocates outputs with PyTorch's own strides.
Tested by tests/torch/test_aot_semantics.py.
"""

import functools
import math
import sys

import torch

from . import events, marshal, twister
from .benchmark import Benchmark
from .frames import Pool, Refusing
from .packing import Packings, packed_together
from .refusal import InPyTorch, Refused, Rescue, fixed


def to_device(scalar, device):
    """A copy of the scalar on the device. full() reads the number now; a copy in a captured CUDA graph would read it at each replay."""
    return torch.full((), scalar.item(), dtype=scalar.dtype, device=device)


def lies_at(t, offset):
    """Refuses an input whose storage offset is not that of the traced input."""
    if t.storage_offset() != offset:
        raise Refused("as_strided with a storage offset, of an input whose own storage offset is not that of the traced input")


def view_of(root, size, stride, offset):
    return root.as_strided(size, stride, root.storage_offset() + offset)


def draw_mask(shape, strides, p, number):
    """A mask of a dropout that keeps elements with probability p, as aten.native_dropout draws it on a CPU. number: differs for all
    masks of a graph, because PyTorch's partitioner merges equal calls."""
    return torch.empty_strided(shape, strides, dtype=torch.bool, device="cpu").bernoulli_(p)


def draw_bits(shape, strides, p, number):
    """The mask that draw_mask draws, as bits in row-major order (twister.packed)."""
    if strides == tuple(math.prod(shape[i + 1:]) for i in range(len(shape))) and (bits := twister.bits(math.prod(shape), p)) is not None:
        return bits
    return twister.packed(draw_mask(shape, strides, p, number))


def draw(op, shape, strides, dtype, number, *args):
    """The numbers that op, which reads no element of its first operand, draws for a tensor of this type on a CPU. args: its other operands;
    number: as for draw_mask."""
    return op(torch.empty_strided(shape, strides, dtype=dtype, device="cpu"), *args)


def draw_seeds(count, device):
    """Seeds of random numbers, from PyTorch's generator of the device."""
    return torch.randint(-2**63, 2**63 - 1, [count], device=device)


DRAWING_FUNCTIONS = (draw, draw_mask, draw_bits, draw_seeds)  # run in PyTorch


def unshare(args, indices):
    """Replaces saved tensors that somebody may read after this call by copies, because the programs overwrite them: a later backward
    pass over the same graph, or a hook of saved tensors that keeps them."""
    again = torch._C._autograd._get_current_graph_task_keep_graph()
    for i in indices:
        if again or _users(args, i) != _ALONE:
            args[i] = torch.empty_strided(args[i].shape, args[i].stride(), dtype=args[i].dtype, device=args[i].device).copy_(args[i])


def _users(args, i):
    """How many references there are to a tensor, and to its memory."""
    return sys.getrefcount(args[i]), torch._C._storage_Use_Count(args[i].untyped_storage()._cdata)


_ALONE = _users([torch.empty(1)], 0)  # of a tensor that only a list holds


class Compiled:
    """The parts of a boxed function that other modules need. It does not hold the function, which dies with its last user."""

    def __init__(self, body, constants, rescues, pool, indices, uses):
        """rescues: (text, constants) of each segment's Rescue; indices: of the arguments that are packed into programs."""
        self.others = []  # Compiled of the functions that Packings makes from this one
        self.body, self.constants, self.rescues, self.pool, self.indices, self.uses = body, constants, rescues, pool, indices, uses

    @property
    def source(self):
        return whole(self.body, bool(self.indices))

    def calls(self):
        return self.own_calls() + sum(other.calls() for other in self.others)

    def own_calls(self):
        """How often the function ran. Every frame counts its own calls; frames in use are not included."""
        return self.pool.calls + sum(frame.words[self.pool.layout.calls] for frame in list(self.pool.free))

    def programs(self):
        return [use.program for use in self.uses]

    def move(self, found):
        """Makes the function run other programs from now on. found: (program, values of its symbols) per use. Does nothing if their
        parameters are not packed together, or if a symbol's value needs a size that this function does not pass to its programs."""
        uses = [Use(*pair, use.template) for pair, use in zip(found, self.uses)]
        told = [{str(v) for v in use.symbols} for use in self.uses]
        together, frozen = packed_together(uses)
        if not together or any(not isinstance(v, int) and str(v) not in t for use, t in zip(uses, told) for v in use.symbols):
            return
        if frozen:
            frozen.pools.add(self.pool)
        self.pool.move(self.pool.layout.with_programs(found, frozen).bind())
        self.uses = uses


class Use:
    """A program that computes a segment. symbols: the values of the program's symbols for this segment; template: the segment's
    Template; frozen: input node -> tensor, for the inputs that are packed into the program; numbers: their input numbers."""

    def __init__(self, program, symbols, template, frozen=None, numbers=()):
        self.program, self.symbols, self.template = program, symbols, template
        self.frozen, self.numbers = frozen or {}, numbers

    def of(self, program):
        return Use(program, self.symbols, self.template)


def whole(body, packed):
    """The text of the function. packed: whether a call compares its parameters with the packed ones.

    A KeyboardInterrupt may come after any call in the text. A frame that has been taken but not assigned is then lost, and nobody
    waits for it. A frame in `busy` has been assigned, so `finally` removes it from `busy` with its first call."""
    run = ["run = frame"]
    if packed:
        run = ["busy.add(frame)", "run = frame",
               "try:",
               "    while not current(args, params, frame.frozen.expected):",
               "        busy.discard(frame)",
               "        if other := choose(args, frame):",
               "            break",
               "        frame.frozen.refresh(args, indices, params)",
               "        busy.add(frame)",
               "except Exception as error:  # the parameters cannot be packed",
               "    run = Refusing(frame, error)",
               "if other:",
               "    return other(args)"]
    take = ["frame = other = None" if packed else "frame = None",
            "try:", "    try:", "        frame = take()", "    except IndexError:", "        frame = make()",
            *("    " + line for line in run)]
    give = ["finally:", "    if frame is not None:", *["        busy.discard(frame)"] * packed, "        give(frame)"]
    watch = ["if profiler._is_profiler_enabled:", "    follow()"]
    return "\n".join(["def call(args):", *("    " + line for line in watch + take), body, *("    " + line for line in give)]) + "\n"


def assemble(body, constants, rescues, name, refused, layout, indices, uses, plain=None):
    """Returns (boxed function, Compiled). refused: as in codegen.build; plain: as in Packings."""
    pool = Pool(layout.bind())
    if layout.frozen:
        layout.frozen.pools.add(pool)
    scope = dict(constants, math=math, take=pool.free.pop, give=pool.free.append, make=pool.make, busy=pool.busy, Refusing=Refusing,
                 pointer=marshal.chosen.pointer, empty=marshal.empty_on(layout.device), fixed=fixed,
                 profiler=events.profiler, follow=events.follow, to_device=to_device, lies_at=lies_at, view_of=view_of, unshare=unshare, indices=indices,
                 params=marshal.chosen.plan(indices), current=marshal.chosen.current,
                 InPyTorch=InPyTorch, **{f"rescue{i}": Rescue(*rescue, refused) for i, rescue in enumerate(rescues)},
                 **{f"benchmark{i}": Benchmark(refused) for i in range(len(rescues))})
    compiled = Compiled(body, constants, rescues, pool, indices, uses)
    if indices:
        scope["choose"] = Packings(compiled, functools.partial(assemble, body, constants, rescues, name, refused), plain).choose
    exec(compile(whole(body, bool(indices)), f"<tenon {name}>", "exec"), scope)
    call = scope.pop("call")  # or a cycle would keep the programs alive after Dynamo has dropped the function
    call._boxed_call = True
    return call, compiled

"""The compiled function: one generated Python function per graph, called with one list of arguments.

A call runs programs and the host steps between them, and copies mutated inputs back at the end. A program's step (door.py)
fills prepared DLTensors and allocates outputs with PyTorch's own strides. All DLTensors of a call live in one block of
words, a frame; frames are pooled, so calls from several threads never share one. Shapes that depend on symbols are
written into the frame per call, static ones never again. Tested by tests/torch/test_aot_semantics.py.
"""

import ctypes
import itertools
import operator
import re
import threading
import time
import weakref
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import _abi, door, lower, symexpr
from .partition import Segment
from .refusal import Rescue, fixed

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
            plan, table = door.chosen.plan(*zip(*s.bound)), self.table(s.inputs)
            calls = [(_abi.check, self.calls)] if not s.retry else [(None, self.calls), (_abi.check, -1)]
            for fail, count in calls:
                count = count if number == 0 else -1
                self.steps.append(door.chosen.step(s.program, plan, table, s.outputs, s.made, fail, count, self.device))
        return self

    def with_programs(self, programs, frozen):
        """The same words and more, for other programs. programs: (program, value of each of its symbols) per segment; a
        value is an int, or the symbol of a value that the program before it was told too."""
        new = Layout(self.device)
        new.words, new.pointers, new.frozen = list(self.words), list(self.pointers), frozen
        for (program, values), s in zip(programs, self.segments):
            scalars = dict(zip(map(str, s.values), s.inputs))
            for value in values:
                if str(value) not in scalars:
                    scalars[str(value)], word = new.scalar()
                    new.words[word] = value
            inputs = [scalars[str(value)] for value in values] + s.inputs[len(s.values):]
            new.segments.append(s._replace(program=program, values=values, inputs=inputs))
        return new.bind()

    def make(self):
        return Frame(self)


class Part(NamedTuple):
    """A segment in a layout."""

    program: _abi.Program
    values: list    # of its symbols
    inputs: list    # their words, None for what is packed into the program
    outputs: tuple  # first word of their table, and how many
    bound: list     # (argument, word, rank) of what is bound: plan of door.step
    made: list      # of door.step
    retry: bool     # a second step follows, for when the first one refuses its buffers


class Frame:
    """One call's block of words. `at` is the frame for the door; `steps` run the programs, which are packed with `frozen`."""

    __slots__ = ("block", "words", "at", "steps", "frozen")

    def __init__(self, layout):
        self.block = (ctypes.c_int64 * len(layout.words))(*layout.words)
        base = ctypes.addressof(self.block)
        for at, to in layout.pointers:
            self.block[at] = base + 8 * to
        self.words = memoryview(self.block).cast("B").cast("q")
        self.at, self.steps, self.frozen = door.chosen.at(self), layout.steps, layout.frozen


class Refusing:
    """A frame in whose place the call runs without programs, because of an error: each step raises it."""

    def __init__(self, frame, error):
        def step(*_):
            raise error

        self.at, self.words, self.steps = frame.at, frame.words, (step,) * len(frame.steps)


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
        return door.chosen.state(tensors, door.chosen.plan(range(len(tensors))))

    def refresh(self, args, indices, plan):
        """Re-packs for args[indices]. update_params must not run beside run, so this waits for all frames."""
        with self.lock:
            if door.chosen.current(args, plan, self.expected):
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
        ats = [layout.tensor(lower.DTYPES[t.dtype], t.shape, symexpr.normal_strides(t.shape, t.stride()))[0]
               for _, t in numbered]
        self.frame = layout.bind().make()
        for (number, t), at in zip(numbered, ats):
            self.frame.words[at] = t.data_ptr()
            self.addresses[number] = ctypes.addressof(self.frame.block) + 8 * at


class Pool:
    """Frames of a function. free: those that no call has; busy: those of calls that run programs with packed parameters. A
    call that is interrupted may lose its frame, but leaves none in `busy` (see whole)."""

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


def to_device(scalar, device):
    """A copy on the device, as of now also for a capture, which may not read the host's memory."""
    return torch.full((), scalar.item(), dtype=scalar.dtype, device=device)


def view_of(root, size, stride, offset):
    return root.as_strided(size, stride, root.storage_offset() + offset)


class Writer:
    """Writes the function of one partition."""

    def __init__(self, partition, uses):
        self.p, self.uses = partition, uses
        self.layout, self.lines, self.steps = Layout(partition.place), [], []
        self.names, self.globals = {}, {}
        self.counter = itertools.count()
        self.rescues = []  # (text, constants) of a Rescue per segment

    def name(self, n):
        if n not in self.names:
            self.names[n] = f"v{next(self.counter)}"
        return self.names[n]

    def constant(self, value):
        name = f"c{next(self.counter)}"
        self.globals[name] = value
        return name

    def line(self, text):
        self.lines.append("        " + text)

    def tuple_text(self, values):
        values = [symexpr.text(symexpr.size(v)) for v in values]
        return "(" + ", ".join(values) + ("," if len(values) == 1 else "") + ")"

    def argument(self, x):
        """An fx argument as Python text."""
        if isinstance(x, torch.fx.Node):
            if x.op == "get_attr":
                return self.get_attr(x)
            return self.name(x.args[0] if self.p._is_copy(x) else x)  # a copy_ gives back what it wrote to
        if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
            inner = ", ".join(self.argument(y) for y in x)
            return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
        if isinstance(x, dict):
            return "{" + ", ".join(f"{k!r}: {self.argument(v)}" for k, v in x.items()) + "}"
        if isinstance(x, slice):
            return f"slice({self.argument(x.start)}, {self.argument(x.stop)}, {self.argument(x.step)})"
        if x is None or isinstance(x, (bool, int, str)):
            return repr(x)
        if isinstance(x, torch.SymInt):
            return symexpr.text(symexpr.size(x))
        return self.constant(x)

    def get_attr(self, n):
        if n not in self.names:
            self.names[n] = self.constant(operator.attrgetter(n.target)(self.p.gm))
        return self.names[n]

    def read_symbols(self, n):
        """Assigns the symbols whose source is node n."""
        for symbol, (source, where, axis) in self.p.symbol_source.items():
            if source is n and symbol in self.symbols:
                v = self.name(n)
                self.line(f"{symbol} = {v}" if where is None else f"{symbol} = {v}.{where}[{axis}]" if where == "shape"
                          else f"{symbol} = {v}.stride({axis})")

    def write(self):
        p = self.p
        self.symbols = self._used_symbols()
        self.in_place = self._find_in_place()
        self.placeholders = [n for n in p.nodes if n.op == "placeholder"]
        for n in self.placeholders:
            self.read_symbols(n)
        order = p.order()
        last = self._last_reads(order)
        for number, step in enumerate(order):
            if isinstance(step, Segment):
                self._segment(step)
            elif step in p.host_views:
                self._view(step)
            else:
                self._host(step)
            for n in last.get(number, ()):
                self.line(f"del {self.name(n)}")
        for destination, source in p.copies:
            value = self.argument(source)
            if source in self.in_place:  # AOTAutograd counts the version of mutated inputs itself
                self.line(f"if {value} is not {self.name(destination)}:")
                self.line(f"    {self.name(destination)}.copy_({value})")
            else:
                self.line(f"{self.name(destination)}.copy_({value})")
        output = next(n for n in p.nodes if n.op == "output")
        results = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
        if not self.layout.segments:
            self.line(f"words[{self.layout.calls}] += 1")
        self.line("args.clear()")
        self.line("return (" + "".join(self.argument(r) + ", " for r in results) + ")")
        named = set(re.findall(r"\bv\d+\b", "\n".join(self.lines)))
        unpack = [f"        {name} = args[{i}]" for i, n in enumerate(self.placeholders) if (name := self.name(n)) in named]
        self.lines = [*unpack, *self.lines]

    def body(self):
        steps = [f"        {', '.join(self.steps)}, = run.steps"] * bool(self.steps)
        words = ["        words = run.words"] * any("words[" in line for line in self.lines)
        return "\n".join(["        at = run.at", *steps, *words, *self.lines])

    def _last_reads(self, order):
        """Step number -> host tensors that no later step reads; they are dropped there, so memory is returned early."""
        kept = {d for n in self.p.nodes if n.op == "output" or self.p._is_copy(n) for d in n.all_input_nodes}
        kept |= {self.p.root(n) for n in kept}
        last = {}
        for number, step in enumerate(order):
            if isinstance(step, Segment):  # what its program reads, and what PyTorch would
                reads = [*(n for n, _ in step.inputs), *self._given(step), *step.outputs]
            else:
                reads = [*step.all_input_nodes, step]
            for n in reads:
                last[n] = last[self.p.root(n)] = number
        made = {n for step in order for n in (step.outputs if isinstance(step, Segment) else [step])}
        kept |= {source for source, _, _ in self.p.symbol_source.values()}
        result = {}
        for n, number in last.items():
            if n in made and n not in kept and number < len(order) - 1:
                result.setdefault(number, []).append(n)
        return result

    def _used_symbols(self):
        used = set()
        for segment in self.p.segments:
            used |= set(segment.symbols)
        for n in self.p.nodes:
            val = n.meta.get("val")
            if self.p.is_size(n) and self.p.size_text(n) is not None:
                used |= symexpr.symbols(symexpr.size(val))
            elif isinstance(val, torch.Tensor) and n not in self.p.lowered and n.op == "call_function" or n in self.p.host_views:
                for s in (*val.shape, *val.stride(), *((val.storage_offset(),) if n in self.p.host_views else ())):
                    used |= symexpr.symbols(symexpr.size(s))
        return used

    def _segment(self, segment):
        use, number = self.uses[segment], len(self.layout.segments)
        inputs, bound, before = [], [], len(self.lines)
        for value in use.symbols:
            at, word = self.layout.scalar()
            inputs.append(at)
            if isinstance(value, int):
                self.layout.words[word] = value
            else:
                self.line(f"    words[{word}] = {value if isinstance(value, str) else symexpr.text(value)}")
        for n, _ in segment.inputs:
            if n in use.frozen:
                inputs.append(None)
                continue
            at, rank = self._tensor(n)
            inputs.append(at)
            if lower.is_moved(n.meta["val"], self.p.device):
                moved = f"m{next(self.counter)}"  # lives until the call ends
                self.line(f"    {moved} = to_device({self.argument(n)}, {self.constant(self.p.device)})")
                self.line(f"    pointer(at, {at}, {rank}, {moved})")
            elif n.op == "placeholder":
                bound.append((self.placeholders.index(n), at, rank))
            else:
                self.line(f"    pointer(at, {at}, {rank}, {self.argument(n)})")
        outputs, made, given, retry = [], [], [], False
        for n in segment.outputs:
            at, rank = self._tensor(n)
            outputs.append(at)
            destination = self.in_place.get(n)
            shape, strides, dtype = self._empty_arguments(n)
            if destination is None and all(isinstance(s, int) for s in (*shape, *strides)):
                made.append((at, rank, (shape, strides, dtype)))
                continue
            made.append((at, rank, None))
            given.append((self._empty(n), destination and self.name(destination)))
            retry = retry or destination is not None
        self.layout.segments.append(Part(use.program, use.symbols, inputs, self.layout.table(outputs), bound, made, retry))
        self.steps += [f"step{number}", f"again{number}"][:2 if retry else 1]

        def call(name, arguments):
            return f"{name}({', '.join(['at', 'args', *arguments])})"

        names = "".join(f"{self.name(n)}, " for n in segment.outputs) + "= "
        result = call(f"step{number}", [destination or fresh for fresh, destination in given])
        self.lines.insert(before, "        try:")
        if retry:
            self.line(f"    r = {result}")
            self.line("    if r is None:  # the buffer may share memory with an input: nothing was read from it, so write elsewhere")
            self.line(f"        r = {call(f'again{number}', [fresh for fresh, _ in given])}")
            result = "r"
        self.line(f"    {names}{result}")
        self.line("except Exception as error:")
        self.line(f"    {names}rescue{number}({', '.join(['error', 'args', *self._rescue(segment)])})")

    def _given(self, segment):
        """The nodes whose values PyTorch needs to compute the segment, each before what is computed from it, and whether it
        is computed: None, a node that has its value, or the node itself."""
        owners, result, stack = {name: n for n, name in segment.inputs}, {}, [(n, False) for n in reversed(segment.outputs)]
        while stack:
            n, seen = stack.pop()
            if n in result:
                continue
            value = self.p.values.get(n) if n in self.p.lowered else None
            source = owners.get(value.name) if isinstance(value, lower.Value) else None
            given = n not in self.p.lowered and not self.p.is_arithmetic(n) or source is n
            needs = [] if given or self._size_text(n) is not None else [source] if source else n.all_input_nodes
            if seen:
                result[n] = None if given else source or n
            else:
                stack += [(n, True), *((m, False) for m in needs if m not in result)]
        return result

    def _rescue(self, segment):
        """Adds the text of a function that computes the segment's outputs in PyTorch; returns what it is given beside args."""
        outer, self.globals = (self.globals, self.lines), {}
        self.lines, given = [], []
        names = self.names
        self.names = {n: name for n, name in names.items() if n.op != "get_attr"}
        for n, source in self._given(segment).items():
            if source is not None:
                self.line(f"{self.name(n)} = {self._computed(n) if source is n else self.argument(source)}")
            elif n.op == "placeholder":
                self.line(f"{self.name(n)} = args[{self.placeholders.index(n)}]")
            elif n.op != "get_attr":
                given.append(self.argument(n))
        results = "".join(f"({self.name(n)}, {self.tuple_text(n.meta['val'].shape)}, {self.tuple_text(n.meta['val'].stride())}), "
                          for n in segment.outputs)
        self.line(f"return owned([{results}], args)")
        text = "\n".join(line[4:] for line in self.lines)
        given += [s for s in sorted(self.symbols) if re.search(rf"\b{s}\b", text)]
        self.rescues.append((f"def pytorch({', '.join(['args', *given])}):\n{text}\n", self.globals))
        self.names, (self.globals, self.lines) = names, outer
        return given

    def _empty_arguments(self, n):
        fake = n.meta["val"]
        return symexpr.sizes(fake.shape), symexpr.sizes(fake.stride()), fake.dtype

    def _empty(self, n):
        fake = n.meta["val"]
        return f"empty({self.tuple_text(fake.shape)}, {self.tuple_text(fake.stride())}, {self.constant(fake.dtype)})"

    def _find_in_place(self):
        """Segment outputs that may be written straight into the mutated input they end in: no other segment or host step reads
        either. Where the segment itself reads that input, its program knows whether it may be overwritten, and refuses the
        buffer otherwise. None where a fault may end the call: inputs are changed when all has been computed."""
        if self.p.can_fault():
            return {}
        result = {}
        read = {self.p.root(v) for v in self.p.host_views} | {source for _, source in self.p.copies}
        readers = {}
        for segment in self.p.segments:
            for n, _ in segment.inputs:
                readers.setdefault(n, []).append(segment)
        for destination, source in self.p.copies:
            if source not in self.p.wanted or source not in self.p.lowered:
                continue
            if any(u not in self.p.lowered and not self.p._is_copy(u) for u in destination.users) or destination in read:
                continue
            if any(source not in segment.outputs for segment in readers.get(destination, ())):
                continue
            if any(u not in self.p.lowered and not self.p._is_copy(u) for u in source.users) or source in result:
                continue
            if source in {self.p.root(v) for v in self.p.host_views}:
                continue
            if len([1 for _, other in self.p.copies if other is source]) != 1:
                continue
            to, value = destination.meta["val"], source.meta["val"]
            same = [all(map(symexpr.same, symexpr.sizes(a), symexpr.sizes(b)))
                    for a, b in ((to.shape, value.shape), (to.stride(), value.stride()))]
            if to.dtype == value.dtype and to.dim() == value.dim() and all(same):
                result[source] = destination
        return result

    def _tensor(self, n):
        fake = n.meta["val"]
        shape = symexpr.sizes(fake.shape)
        return self.layout.tensor(lower.DTYPES[fake.dtype], shape,
                                  symexpr.normal_strides(shape, symexpr.sizes(fake.stride())))

    def _view(self, n):
        root = self.p.root(n)
        fake, base = n.meta["val"], root.meta["val"]
        offset = symexpr.size(symexpr.size(fake.storage_offset()) - symexpr.size(base.storage_offset()))
        self.line(f"{self.name(n)} = view_of({self.argument(root)}, {self.tuple_text(fake.shape)}, "
                  f"{self.tuple_text(fake.stride())}, {symexpr.text(offset)})")

    def _host(self, n):
        v = self.name(n)
        self.line(f"{v} = {self._computed(n)}")
        if self._size_text(n) is not None:
            return
        self.read_symbols(n)
        fake = n.meta.get("val")
        if isinstance(fake, torch.Tensor) and lower.why_not(fake, self.p.device) is None:
            if any(u in self.p.lowered or u in self.p.host_views for u in n.users):
                self.line(f"{v} = fixed({v}, {self.tuple_text(fake.shape)}, {self.tuple_text(fake.stride())})")

    def _size_text(self, n):
        return self.p.size_text(n) if self.p.is_size(n) else None

    def _computed(self, n):
        """The text of a node's value on the host."""
        return text if (text := self._size_text(n)) is not None else self._call(n)

    def _call(self, n):
        """The text of the call by which PyTorch computes a node."""
        if n.target is operator.getitem:
            return f"{self.argument(n.args[0])}[{n.args[1]}]"
        arguments = [self.argument(a) for a in n.args] + [f"{k}={self.argument(a)}" for k, a in n.kwargs.items()]
        return f"{self.constant(n.target)}({', '.join(arguments)})"


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


class Compiled:
    """A boxed function as others see it, without holding it."""

    def __init__(self, body, constants, rescues, pool, indices, uses):
        """rescues: text and constants of one for each segment; indices: the arguments that are packed into programs."""
        self.body, self.constants, self.rescues, self.pool, self.indices, self.uses = body, constants, rescues, pool, indices, uses

    @property
    def source(self):
        return whole(self.body, bool(self.indices))

    def calls(self):
        """How often it ran: every frame counts its own calls."""
        return self.pool.calls + sum(frame.words[self.pool.layout.calls] for frame in list(self.pool.free))

    def programs(self):
        return [use.program for use in self.uses]

    def move(self, found):
        """To other programs: (program, values of its symbols) per use. Nothing happens if they are not packed together,
        or depend on a size that this function does not tell its programs."""
        uses = [Use(*pair, use.template) for pair, use in zip(found, self.uses)]
        told = [{str(v) for v in use.symbols} for use in self.uses]
        together, frozen = packed_together(uses)
        if not together or any(not isinstance(v, int) and str(v) not in t for use, t in zip(uses, told) for v in use.symbols):
            return
        if frozen:
            frozen.pools.add(self.pool)
        self.pool.move(self.pool.layout.with_programs(found, frozen))
        self.uses = uses


class Use:
    """A program in the place of a segment, whose template is `template`. symbols: the value of each of its symbols;
    frozen: input nodes that are packed into it -> their tensors, at the input numbers `numbers`."""

    def __init__(self, program, symbols, template, frozen=None, numbers=()):
        self.program, self.symbols, self.template = program, symbols, template
        self.frozen, self.numbers = frozen or {}, numbers


def build(partition, uses, name, refused):
    """-> (boxed function, Compiled). uses: segment -> Use. refused(error): is told of each call that a program refuses."""
    writer = Writer(partition, uses)
    writer.write()
    indices, tensors, packed = [], [], []
    for segment, use in uses.items():
        named = [(number, n) for number, n in zip(use.numbers, use.frozen) if n.op == "placeholder"]
        use.program.constants = [(number, use.frozen[n]) for number, n in zip(use.numbers, use.frozen)
                                 if n.op != "placeholder"]
        if named:
            packed.append((use.program, len(use.symbols) + len(segment.inputs), [number for number, _ in named]))
            indices += [writer.placeholders.index(n) for _, n in named]
            tensors += [use.frozen[n] for _, n in named]
    if packed:
        writer.layout.frozen = packed_together(uses.values())[1] or Frozen(packed, tensors)
    light = [Use(use.program, use.symbols, use.template) for use in uses.values()]  # which hold no graph
    return assemble(writer.body(), writer.globals, writer.rescues, writer.layout, indices, light, name, refused)


def whole(body, packed):
    """The text of the function. packed: whether parameters have to be looked at. An interrupt may come after any call: a frame
    that was taken by then and not yet given a name is gone, and nobody waits for it; one that is in `busy` has its name, and
    the first call of `finally` takes it out."""
    run = ["run = frame"]
    if packed:
        run = ["busy.add(frame)", "run = frame",
               "try:",
               "    while not current(args, params, frame.frozen.expected):",
               "        busy.discard(frame)",
               "        frame.frozen.refresh(args, indices, params)",
               "        busy.add(frame)",
               "except Exception as error:  # they cannot be packed",
               "    run = Refusing(frame, error)"]
    take = ["frame = None", "try:", "    try:", "        frame = take()", "    except IndexError:", "        frame = make()",
            *("    " + line for line in run)]
    give = ["finally:", "    if frame is not None:", *["        busy.discard(frame)"] * packed, "        give(frame)"]
    return "\n".join(["def call(args):", *("    " + line for line in take), body, *("    " + line for line in give)]) + "\n"


def assemble(body, constants, rescues, layout, indices, uses, name, refused):
    """-> (boxed function, Compiled). refused: as in build."""
    pool = Pool(layout.bind())
    if layout.frozen:
        layout.frozen.pools.add(pool)
    scope = dict(constants, take=pool.free.pop, give=pool.free.append, make=pool.make, busy=pool.busy, Refusing=Refusing,
                 pointer=door.chosen.pointer, empty=door.empty_on(layout.device), fixed=fixed,
                 to_device=to_device, view_of=view_of, indices=indices, params=door.chosen.plan(indices), current=door.chosen.current,
                 **{f"rescue{i}": Rescue(*rescue, refused) for i, rescue in enumerate(rescues)})
    exec(compile(whole(body, bool(indices)), f"<tenon {name}>", "exec"), scope)
    call = scope.pop("call")  # no cycle: programs go when Dynamo drops the function
    call._boxed_call = True
    return call, Compiled(body, constants, rescues, pool, indices, uses)

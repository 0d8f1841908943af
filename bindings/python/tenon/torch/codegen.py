"""Generates the Python code of a compiled function. The code runs the programs of Tenon and, between them, host steps in PyTorch.

A host step computes a node that Tenon does not take, a view, or a size. runtime/runner.py compiles the code.
Tested by tests/torch/test_aot_semantics.py.
"""

import functools
import itertools
import operator
import re

import torch

from ..graph_text import Value
from . import images
from .lowering import layouts, sizes
from .lowering.tensors import DTYPES, is_moved, why_not
from .partition import Segment
from .runtime.frames import Layout, Part
from .runtime.packing import Frozen, packed_together
from .runtime.refusal import Refused
from .runtime.runner import Use, assemble


@functools.cache
def _name_of(value):
    """A Python name of an operator or a dtype, such as aten_add_Tensor and torch_float32."""
    return re.sub(r"\W", "_", str(value))


class Writer:
    """Writes the function of one partition."""

    def __init__(self, partition, uses, benchmark):
        """uses: segment -> Use, in the order of the segments; their programs may be None until build(); benchmark: whether calls
        measure if PyTorch is faster (runtime/benchmark.py)."""
        self.p, self.uses, self.benchmark = partition, uses, benchmark
        self.layout, self.lines, self.steps = Layout(partition.place), [], []
        self.names, self.globals = {}, {}
        self.counter = itertools.count()
        self.rescues = []  # (text, constants) of the Rescue of each segment

    def name(self, n):
        if n not in self.names:
            self.names[n] = f"v{next(self.counter)}"
        return self.names[n]

    def constant(self, value):
        """The name of a value that is no literal. Equal operators and dtypes have one name."""
        name = _name_of(value) if isinstance(value, (torch._ops.OpOverload, torch.dtype)) else f"c{next(self.counter)}"
        if self.globals.setdefault(name, value) is not value:
            name = f"c{next(self.counter)}"
            self.globals[name] = value
        return name

    def line(self, text):
        self.lines.append("        " + text)

    def tuple_text(self, values):
        values = [sizes.text(sizes.size(v)) for v in values]
        return "(" + ", ".join(values) + ("," if len(values) == 1 else "") + ")"

    def argument(self, x):
        """The Python text of an fx argument."""
        if isinstance(x, torch.fx.Node):
            if x.op == "get_attr":
                return self.get_attr(x)
            return self.name(x.args[0] if self.p._is_write(x) else x)  # the result of a write is its destination
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
            return sizes.text(sizes.size(x))
        return self.constant(x)

    def get_attr(self, n):
        if n not in self.names:
            self.names[n] = self.constant(operator.attrgetter(n.target)(self.p.gm))
        return self.names[n]

    def read_symbols(self, n):
        """Writes assignments of the symbols whose source is node n, and of the symbols that can be computed from these."""
        for symbol, (source, where, axis) in self.p.symbol_source.items():
            if source is n and symbol in self.symbols:
                v = self.name(n)
                self.line(f"{symbol} = {v}" if where is None else f"{symbol} = {v}.{where}[{axis}]" if where == "shape"
                          else f"{symbol} = {v}.stride({axis})")
                self.given.add(symbol)
        for symbol in sorted(self.symbols - self.given):
            if (needed := self.p.made_of(symbol)) and needed <= self.given:
                self.line(f"{symbol} = {sizes.python(self.p.opaque[symbol].expr)}")
                self.given.add(symbol)

    def write(self):
        p = self.p
        self.symbols, self.given = self._used_symbols(), set()  # given: the symbols that have been assigned so far
        self.placeholders = {n: i for i, n in enumerate(n for n in p.nodes if n.op == "placeholder")}
        for n in self.placeholders:
            self.read_symbols(n)
        order = p.order()
        self.sources = {segment: self._sources(segment) for segment in p.segments}
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
            if destination not in p.updates:  # AOTAutograd increments the versions of inputs that programs write to
                self.line(f"{self.name(destination)}.copy_({self.argument(source)})")
        for destination, source in p.replaced:
            self.line(f"{self.name(destination)}.set_({self.argument(source)})")
        output = next(n for n in p.nodes if n.op == "output")
        results = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
        if not self.layout.segments:
            self.line(f"words[{self.layout.calls}] += 1")
        self.line("args.clear()")
        self.line("return (" + "".join(self.argument(r) + ", " for r in results) + ")")
        words = set(re.findall(r"\w+", "\n".join(self.lines)))
        if missing := words & (self.symbols - self.given):  # Dynamo may know a size by a number that it reads from a tensor later
            raise Refused(f"no input has the size {min(missing)}")
        named = {word for word in words if re.fullmatch(r"v\d+", word)}
        unpack = [f"        {name} = args[{i}]" for n, i in self.placeholders.items() if (name := self.name(n)) in named]
        if given := tuple(sorted(self.placeholders[n] for n in p.donated)):
            unpack.insert(0, f"        unshare(args, {given})")
        self.lines = [*unpack, *self.lines]

    def body(self):
        steps = [f"        {', '.join(self.steps)}, = run.steps"] * bool(self.steps)
        words = ["        words = run.words"] * any("words[" in line for line in self.lines)
        return "\n".join(["        at = run.at", *steps, *words, *self.lines])

    def _last_reads(self, order):
        """Step number -> the host tensors that no later step reads. The function deletes them after this step to free their memory."""
        kept = {d for n in self.p.nodes if n.op == "output" or self.p._is_write(n) for d in n.all_input_nodes}
        kept |= {self.p.root(n) for n in kept}
        last = {}
        for number, step in enumerate(order):
            if isinstance(step, Segment):  # reads the inputs of its program and of its Rescue
                reads = [*(n for n, _ in step.inputs), *self.sources[step], *step.outputs]
            else:
                reads = [*step.all_input_nodes, step]
            for n in reads:
                last[n] = last[self.p.host_views[n].base if n in self.p.host_views else self.p.root(n)] = number
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
                used |= sizes.symbols(sizes.size(val))
            elif n in self.p.host_views:
                used |= self.p.host_views[n].symbols()
            elif isinstance(val, torch.Tensor) and n not in self.p.lowered and n.op == "call_function":
                used |= sizes.symbols_of(*map(sizes.size, (*val.shape, *val.stride())))
        return used.union(*map(self.p.made_of, used))

    def _segment(self, segment):
        use, number = self.uses[segment], len(self.layout.segments)
        inputs, bound, before = [], [], len(self.lines)
        for n in dict.fromkeys(n for m in segment.nodes for n in self.p.lowered[m].placed):
            self.line(f"    lies_at(args[{self.placeholders[n]}], {n.meta['val'].storage_offset()})")
        for value in use.symbols:
            at, word = self.layout.scalar()
            inputs.append(at)
            if isinstance(value, int):
                self.layout.words[word] = value
            else:
                self.line(f"    words[{word}] = {value if isinstance(value, str) else sizes.text(value)}")
        for n, _ in segment.inputs:
            if n in use.frozen:
                inputs.append(None)
                continue
            at, rank = self._tensor(n)
            inputs.append(at)
            if is_moved(n.meta["val"], self.p.device):
                moved = f"m{next(self.counter)}"  # keeps the copy alive until the call ends
                self.line(f"    {moved} = to_device({self.argument(n)}, {self.constant(self.p.device)})")
                self.line(f"    pointer(at, {at}, {rank}, {moved})")
            elif n.op == "placeholder":
                bound.append((self.placeholders[n], at, rank))
            else:
                self.line(f"    pointer(at, {at}, {rank}, {self.argument(n)})")
        donated = [(tensor, self.placeholders[n]) for tensor, (n, _) in enumerate(segment.inputs) if n in self.p.donated]
        outputs, made, given = [], [], []
        for n in segment.outputs:
            at, rank = self._tensor(n)
            outputs.append(at)
            shape, strides, dtype = self._empty_arguments(n)
            if all(isinstance(s, int) for s in (*shape, *strides)):
                made.append((at, rank, (shape, strides, dtype)))
            else:
                made.append((at, rank, None))
                given.append(self._empty(n))
        self.layout.segments.append(Part(None, use.symbols, inputs, self.layout.table(outputs), bound, donated, made))
        self.steps.append(f"step{number}")
        names = "".join(f"{self.name(n)}, " for n in segment.outputs) + "= " * bool(segment.outputs)
        if self.benchmark:
            values = [v if isinstance(v, str) else sizes.text(v) for v in use.symbols if not isinstance(v, int)]
            turn = [f"turn{number} = benchmark{number}.turn({', '.join(values)})", "try:", f"    if turn{number}.in_pytorch:",
                    *[f"        words[{self.layout.calls}] += 1"] * (number == 0), "        raise InPyTorch"]
            self.lines[before:before] = ["        " + text for text in turn]
        else:
            self.lines.insert(before, "        try:")
        self.line(f"    {names}step{number}({', '.join(['at', 'args', *given])})")
        self.line("except Exception as error:")
        if self.p.device.type == "cuda" and len(segment.updates) > 1:
            self.line("    if getattr(error, 'status', None) == 'environment':  # some inputs may have their new values already")
            self.line("        raise")
        self.line(f"    {names}rescue{number}({', '.join(['error', 'args', *self._rescue(segment)])})")
        if self.benchmark:
            self.line(f"turn{number}.done()")

    def _sources(self, segment):
        """Node -> source, for each node that PyTorch needs to compute the segment, each before its readers. The source is None if
        the caller has the value, another node that has the same value, or the node itself, if its value has to be computed."""
        results = (*segment.outputs, *(source for _, source in segment.updates))
        owners, result, stack = {name: n for n, name in segment.inputs}, {}, [(n, False) for n in reversed(results)]
        while stack:
            n, seen = stack.pop()
            if n in result:
                continue
            value = self.p.values.get(n) if n in self.p.lowered else None
            source = owners.get(value.name) if isinstance(value, Value) else None
            given = n not in self.p.lowered and not self.p.is_arithmetic(n) or source is n
            needs = [] if given or self._size_text(n) is not None else [source] if source else n.all_input_nodes
            if seen:
                result[n] = None if given else source or n
            else:
                stack += [(n, True), *((m, False) for m in needs if m not in result)]
        return result

    def _rescue(self, segment):
        """Adds the text of a function pytorch(args, ...) that computes the segment's outputs in PyTorch and writes its updates.
        Returns the arguments that follow args."""
        outer, self.globals = (self.globals, self.lines), {}
        self.lines, given = [], []
        names = self.names
        self.names = {n: name for n, name in names.items() if n.op != "get_attr"}
        for n, source in self.sources[segment].items():
            if source is not None:
                self.line(f"{self.name(n)} = {self._computed(n) if source is n else self.argument(source)}")
            elif n.op == "placeholder":
                self.line(f"{self.name(n)} = args[{self.placeholders[n]}]")
            elif n.op != "get_attr":
                given.append(self.argument(n))
        results = "".join(f"({self.name(n)}, {self._type(n.meta['val'])}), "
                          for n in (*segment.outputs, *(source for _, source in segment.updates)))
        written = "".join(f"args[{self.placeholders[to]}], " for to, _ in segment.updates)
        self.line(f"return updated([{written}], owned([{results}], args))")
        text = "\n".join(line[4:] for line in self.lines)
        given += [s for s in sorted(self.symbols) if re.search(rf"\b{s}\b", text)]
        self.rescues.append((f"def pytorch({', '.join(['args', *given])}):\n{text}\n", self.globals))
        self.names, (self.globals, self.lines) = names, outer
        return given

    def _empty_arguments(self, n):
        fake = n.meta["val"]
        return sizes.sizes(fake.shape), sizes.sizes(fake.stride()), fake.dtype

    def _type(self, fake):
        """The Python text of a tensor's size, stride and dtype."""
        return f"{self.tuple_text(fake.shape)}, {self.tuple_text(fake.stride())}, {self.constant(fake.dtype)}"

    def _empty(self, n):
        return f"empty({self._type(n.meta['val'])})"

    def _tensor(self, n):
        fake = n.meta["val"]
        shape = sizes.sizes(fake.shape)
        return self.layout.tensor(DTYPES[fake.dtype], shape,
                                  layouts.normal_strides(shape, sizes.sizes(fake.stride())))

    def _view(self, n):
        view = self.p.host_views[n]
        text = self.argument(view.base)
        for target, args, kwargs in view.calls:
            text = self._call_text(target, [text, *map(self.argument, args)], kwargs)
        if not view.calls:
            text = (f"view_of({text}, {self.tuple_text(view.fake.shape)}, {self.tuple_text(view.fake.stride())}, "
                    f"{sizes.text(view.offset)})")
        self.line(f"{self.name(n)} = {text}")

    def _host(self, n):
        v = self.name(n)
        self.line(f"{v} = {self._computed(n)}")
        if self._size_text(n) is not None:
            return
        self.read_symbols(n)
        fake = n.meta.get("val")
        if isinstance(fake, torch.Tensor) and why_not(fake, self.p.device) is None:
            if images.strides_may_differ(n) or any(u in self.p.lowered or u in self.p.host_views for u in n.users):
                self.line(f"{v} = fixed({v}, {self._type(fake)})")

    def _size_text(self, n):
        return self.p.size_text(n) if self.p.is_size(n) else None

    def _computed(self, n):
        """The Python text that computes a node's value on the host."""
        return text if (text := self._size_text(n)) is not None else self._call(n)

    def _call(self, n):
        """The Python text of the call of PyTorch that computes a node."""
        return self._call_text(n.target, map(self.argument, n.args), n.kwargs)

    def _call_text(self, target, arguments, kwargs):
        if target is operator.getitem:
            return "{}[{}]".format(*arguments)
        keywords = [f"{k}={self.argument(a)}" for k, a in kwargs.items()]
        return f"{self.constant(target)}({', '.join([*arguments, *keywords])})"


def build(writer, name, refused):
    """Returns (boxed function, Compiled). writer: a Writer that has written the function; its Uses have their programs. refused(error) is
    called for each call that a program refuses, and for sizes that PyTorch computes faster."""
    uses, layout = writer.uses, writer.layout
    layout.segments = [part._replace(program=use.program) for part, use in zip(layout.segments, uses.values(), strict=True)]
    indices, tensors, packed = [], [], []
    for segment, use in uses.items():
        named = [(number, n) for number, n in zip(use.numbers, use.frozen) if n.op == "placeholder"]
        use.program.constants = [(number, use.frozen[n]) for number, n in zip(use.numbers, use.frozen)
                                 if n.op != "placeholder"]
        if named:
            packed.append((use.program, len(use.symbols) + len(segment.inputs), [number for number, _ in named]))
            indices += [writer.placeholders[n] for _, n in named]
            tensors += [use.frozen[n] for _, n in named]
    if packed:
        layout.frozen = packed_together(uses.values())[1] or Frozen(packed, tensors)
    light = [Use(use.program, use.symbols, use.template) for use in uses.values()]  # without references to the graph
    return assemble(writer.body(), writer.globals, writer.rescues, name, refused, layout, indices, light)

"""Partitions an FX graph into segments for Tenon and host steps between them, in an order that respects every dependency.

Each node gets a level. The nodes of level k that Tenon takes are segment k; PyTorch runs the other nodes of level k after
the segment. A Tenon node is one level above the last PyTorch node that it depends on. So segments are convex, and there are only
as many as Tenon nodes and PyTorch nodes alternate on the longest path. Every segment that reads a view or a created tensor
computes it again. The outputs of a segment have PyTorch's own strides. If PyTorch makes a view of the memory of another result,
the host makes it as a view too. A result that AOTAutograd replaces by a view of an input to which the graph writes is made as that view.
Tested by tests/torch/test_fallback.py, test_aot_semantics.py and test_views_of_updated_inputs.py.
"""

import collections
import functools
import operator

import torch

from .. import _abi
from ..graph_text import Unsupported, Value, graph_text, input_text, line_texts
from .lowering import layouts, node, pairs, sizes
from .lowering.repeats import Repeats
from .lowering.tensors import CPU, layout_text, tensor_input_text, why_not
from .lowering.views import host_view, is_view, view_of_input
from .ops import TABLE
from .runtime import refusal
from .runtime.refusal import Refused
from .runtime.runner import DRAWING_FUNCTIONS, draw_seeds

MOST_EQUALITIES = 64  # stated in a text; the library checks further equalities with the sizes of a call
HOST_SIZE = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


class Segment:
    """One graph for Tenon. inputs: (fx node, name of its Value) of each input tensor; symbols: names of the sizes that are
    inputs as scalars; outputs: fx nodes whose results are outputs; updates: (input node, fx node) of each input into whose memory the
    program writes the result of the fx node."""

    def __init__(self, level):
        self.level, self.inputs, self.symbols, self.outputs, self.updates, self.lines, self.nodes = level, [], [], [], [], [], []


class Partition:
    def __init__(self, gm, table=None, banned=None, seeds=None, donated=(), regenerated=()):
        """banned: node name -> reason, for nodes that the library has refused. seeds: the rng.Seeds of nodes that draw random
        numbers in Tenon. Nodes that draw seeds or masks run in PyTorch and do not count as fallbacks. donated: the indices of inputs
        that nobody reads after the call. regenerated: the positions of results of which AOTAutograd reads no elements."""
        self.gm, self.table, self.banned, self.seeds = gm, table or TABLE, banned or {}, seeds
        self.nodes = list(gm.graph.nodes)
        self.device = self._device()
        self.position = {n: i for i, n in enumerate(self.nodes)}
        self.size_nodes = {n for n in self.nodes if n.op == "call_function" and isinstance(n.meta.get("val"), HOST_SIZE)}
        self.fallbacks = {}  # node -> reason
        self.values = {}     # node -> Value or tuple of Values
        self.lowered = {}    # node -> Lowered, for the nodes that Tenon takes
        self.level = {}
        self.host_views = {}  # node -> HostView
        self.copies = []     # (destination placeholder, source node)
        self.replaced = []   # (placeholder, node whose memory it gets)
        self.updates = {}    # destination -> source, for the copies that programs make; the host makes the others
        self.lengths = None  # the texts of all sizes of the graph, made by ranges()
        results = next(n for n in self.nodes if n.op == "output").args[0]
        self.regenerated = {results[i] for i in regenerated}
        self._refuse()
        self.tracer = sizes.tracer_of(self.nodes)
        self.symbolic = {n: found for n in self.nodes if (found := _symbolic_sizes(n))} if self.tracer else {}
        with sizes.tracer(self.tracer):
            while True:
                self._lower()
                self._levels()
                self._find_updates()
                if not self._find_outputs():
                    break
            self._segments()
        self.donated = self._donated(donated)  # the inputs that programs may overwrite

    def _device(self):
        """The device of the graph: a GPU if a tensor is on one, else the CPU."""
        devices = {fake.device for n in self.nodes for fake in _tensors(n.meta.get("val"))}
        gpus = {device for device in devices if device.type == "cuda"}
        if len(gpus) > 1:
            raise Refused("tensors on " + " and ".join(sorted(map(str, gpus))))
        return gpus.pop() if gpus else CPU

    @property
    def place(self):
        """The device as (type, id), with the numbers of a DLTensor."""
        return (_abi.CUDA, self.device.index or 0) if self.device.type == "cuda" else _abi.CPU

    # --- which nodes Tenon takes ---
    def _refuse(self):
        for n in self.nodes:
            fake = n.meta.get("val")
            if n.op == "placeholder" and isinstance(fake, torch.Tensor):
                if type(fake) is not torch._subclasses.FakeTensor and type(fake) is not torch.Tensor:
                    raise Refused(f"an input of type {type(fake).__name__}")
                if not fake.is_complex() and (why := why_not(fake, fake.device)) is not None:
                    raise Refused(f"an input is {why}")
            if n.op in ("call_module", "call_method"):
                raise Refused(f"a node of kind {n.op}")
            if self._is_write(n):
                if n.args[0].op != "placeholder":
                    raise Refused(f"{n.target} writes to something that is not an input")
            elif n.op == "call_function" and _writes(n.target):
                raise Refused(f"{n.target} writes to its operand")

    @staticmethod
    def _is_write(n):
        """Whether a node gives an input new values, or the memory of another tensor. The function does so at its end."""
        return n.op == "call_function" and n.target in (torch.ops.aten.copy_.default, torch.ops.aten.set_.source_Tensor)

    def is_size(self, n):
        return n in self.size_nodes

    def is_arithmetic(self, n):
        """Whether a node computes a number from numbers only. Its readers may compute it themselves."""
        return self.is_size(n) and not any(isinstance(d.meta.get("val"), torch.Tensor) for d in n.all_input_nodes)

    def _lower(self):
        self.values, self.lowered, self.copies, self.replaced = {}, {}, [], []
        known, repeats = set(), Repeats(self.values, self.device)  # known: the symbols in the sizes of earlier nodes
        for n in self.nodes:
            earlier, known = known, known | self._symbols(n) if n in self.symbolic else known
            if n.op != "call_function" or self.is_size(n) or self._is_assertion(n) or n.target in DRAWING_FUNCTIONS or n.target in pairs.VIEWS:
                continue
            if self._is_write(n):
                (self.copies if n.target is torch.ops.aten.copy_.default else self.replaced).append((n.args[0], n.args[1]))
                continue
            try:
                if n in self.fallbacks:
                    continue
                if n.name in self.banned:
                    raise Unsupported(self.banned[n.name])
                seed = self.seeds and self.seeds.of(n, self.device)
                result = node.lower_node(n, self.values, self.table, self.device, seed, repeats)
                if not known <= earlier and n.target is not operator.getitem:
                    raise Unsupported(f"{n.target}: the size of its result depends on values")
            except Exception as e:
                why = refusal.sentence(e)
                if n.target is not operator.getitem:
                    self.fallbacks[n] = why
                elif n.args[0] in self.lowered:  # the row does not compute this result, so the whole node runs in PyTorch
                    self.fallbacks[n.args[0]] = why
                    return self._lower()
                continue
            self.lowered[n], self.values[n] = result, result.result

    def _symbols(self, n):
        """The tracer's symbols in the sizes of a node."""
        return sizes.symbols_of(*(sizes.plain(sizes.size(s)) for s in self.symbolic.get(n, ())))

    def can_fault(self, n):
        """Whether a program may report a fault of a node, for which PyTorch raises an error. On a GPU no program looks for faults."""
        return self.place == _abi.CPU and self.lowered[n].faults

    @staticmethod
    def _is_assertion(n):
        return n.meta.get("val") is None and "assert" in str(n.target)

    # --- levels ---
    def _levels(self):
        self.level = {}
        self.symbol_source = self._computed_symbols()  # symbol -> (node, None: the value itself, or "shape" or "stride", axis)
        self.opaque = sizes.opaque(self.tracer)  # symbols that the host computes; from other symbols, if they have no source
        for kind in ((torch.SymInt, torch.SymFloat), torch.Tensor):  # a number is faster to read than a shape
            for n in self.nodes:
                if n.op == "placeholder" and isinstance(n.meta.get("val"), kind):
                    self._find_symbols(n)
        ordered = -1  # PyTorch nodes that draw random numbers or may have effects keep their order
        for n in self.nodes:
            if n in self.lowered:
                reads = [self.level[d] if d in self.lowered else self.level[d] + 1 for d in n.all_input_nodes]
                symbols = [self._symbol_level(s) + 1 for line in self.lowered[n].lines for s in line.symbols]
                self.level[n] = max([0, *reads, *symbols])
            elif self.is_size(n) and self.size_text(n) is not None:
                known = sizes.symbols(sizes.size(n.meta["val"]))
                self.level[n] = max([-1, *map(self._symbol_level, known)])
            else:
                self.level[n] = max([-1, *(self.level[d] for d in n.all_input_nodes)])
                if n.op == "call_function" and self._keeps_order(n):
                    ordered = self.level[n] = max(ordered, self.level[n])
                self._find_symbols(n)  # symbols that no input has

    def _computed_symbols(self):
        """Opaque symbol -> (node, None, 0): the node that computes it from numbers, if the node precedes all others that have the
        symbol in their sizes."""
        source, seen = {}, set()
        for n in self.nodes if self.tracer else ():
            if self.is_arithmetic(n) and isinstance(n.meta["val"], torch.SymInt):
                if isinstance(value := sizes.size(n.meta["val"]), sizes.Opaque) and str(value) not in seen:
                    source[str(value)] = (n, None, 0)
            seen |= sizes.symbols_of(*map(sizes.size, self.symbolic.get(n, ())))
        return source

    def _symbol_level(self, symbol):
        """The level at which the host knows the value of the symbol."""
        if symbol in self.symbol_source:
            return self.level[self.symbol_source[symbol][0]]
        return max([-1, *map(self._symbol_level, self.made_of(symbol))])

    def made_of(self, symbol):
        """The symbols from which a symbol without a source is computed."""
        return sizes.symbols(self.opaque[symbol].expr) if symbol in self.opaque and symbol not in self.symbol_source else ()

    def _find_symbols(self, n):
        """Records where the symbols of node n can be read at run time: from its value, if it is a scalar, else from its shape and
        strides."""
        if self.tracer is None:
            return
        val = n.meta.get("val")
        found = []
        if isinstance(val, (torch.SymInt, torch.SymFloat)):
            found = [(val, None, 0)]
        elif isinstance(val, torch.Tensor) and val.layout == torch.strided:
            found = [(s, "shape", i) for i, s in enumerate(val.shape)]
            found += [(s, "stride", i) for i, s in enumerate(val.stride())]
        for s, where, axis in found:
            if isinstance(s, (torch.SymInt, torch.SymFloat)) and sizes.is_symbol(s.node.expr):
                self.symbol_source.setdefault(str(s.node.expr), (n, where, axis))

    @staticmethod
    def _keeps_order(n):
        if not isinstance(n.target, torch._ops.OpOverload):
            return isinstance(n.target, torch._ops.HigherOrderOperator)
        return torch.Tag.nondeterministic_seeded in n.target.tags or n.target.namespace not in ("aten", "prims")

    # --- inputs that the graph writes to ---
    def _find_updates(self):
        """Fills `updates`. A program may write to an input if no later segment and no host step reads it, and if no later
        segment can end the call by a fault. Whether it computes the value in the input's memory is up to the library."""
        faults = max((self.level[n] for n in self.lowered if self.can_fault(n)), default=0) if self.copies else 0
        read = {self.root(d) for n, d in self._reads_on_host() if not (self._is_write(n) and d is n.args[0])}
        self.updates = {to: source for to, source in dict(self.copies).items()
                        if source in self.lowered and to not in read and self._can_update(to, source.meta["val"])
                        and self.level[source] >= max(faults, self._last_read(to))}

    def _can_update(self, to, value):
        fake = to.meta["val"]
        shape, strides = sizes.sizes(fake.shape), sizes.sizes(fake.stride())
        return (why_not(fake, self.device) is None and fake.dtype == value.dtype and fake.dim() == value.dim()
                and all(map(sizes.same, shape, sizes.sizes(value.shape))) and not layouts.overlaps(shape, strides))

    def _last_read(self, n):
        """The level of the last segment that reads a node, or a view of it."""
        last, stack = 0, [n]
        while stack:
            for user in stack.pop().users:
                if user in self.lowered:
                    last = max(last, self.level[user])
                    stack += [user] * self.lowered[user].cheap
        return last

    # --- what leaves a segment ---
    def is_view(self, n):
        source = n.args[0] if n.target is operator.getitem else n
        return source in self.lowered and is_view(n, self.table)

    def _viewed(self, n):
        """The nodes of which n is a view: the nearest first, the root last."""
        while self.is_view(n):
            n = n.args[0]
            yield n

    def root(self, n):
        return [n, *self._viewed(n)][-1]

    def _reads_on_host(self):
        """(node, tensor that it reads), for the nodes that the host computes and for the output node."""
        for n in self.nodes:
            host = n.op == "call_function" and n not in self.lowered and not (self.is_size(n) and self.size_text(n) is not None)
            if n.op == "output" or host:
                yield from ((n, d) for d in n.all_input_nodes if isinstance(d.meta.get("val"), torch.Tensor))

    def size_text(self, n):
        """The Python expression of a size node in terms of symbols, or None if the node's own function has to compute it."""
        value = n.meta["val"]
        if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)):
            return None
        try:
            value = sizes.size(value)
            known = all(self.symbol_source.get(s, (n,))[0] is not n for s in sizes.symbols(value))
            return sizes.text(value) if known else None
        except Unsupported:
            return None

    def _find_outputs(self):
        """Fills `wanted`, the nodes whose tensors the host reads, and `host_views`. Returns True if it has added a fallback, so that
        the graph has to be partitioned again."""
        self.host_views, self.wanted = {}, set()
        made = {n for n in self.nodes if self._is_write(n) and n.args[0] in self.updates}  # programs make these copies
        reads = [(n, d) for n, d in self._reads_on_host() if n not in made]
        readers, written = list(dict.fromkeys(d for _, d in reads)), {source: to for to, source in self.copies}
        regenerated = self.regenerated - {d for n, d in reads if n.op != "output"}
        # as_strided may read memory between the elements of a view.
        whole = {d for n in self.nodes if n.op == "call_function" and n not in self.lowered and "as_strided" in str(n.target)
                 for d in n.all_input_nodes}
        by_root = {}
        for n in readers:
            source = next((m for m in self._viewed(n) if m in written), None) if n in regenerated else None
            if source and (view := view_of_input(n, source, written[source])):
                self.host_views[n] = view
            else:
                by_root.setdefault(self.root(n), []).append(n)
        for root, members in by_root.items():
            inside = root in self.lowered
            for n in members:
                fake = n.meta["val"]
                overlapping = layouts.overlaps(sizes.sizes(fake.shape), sizes.sizes(fake.stride()))
                if n is root or (inside and len(members) == 1 and not overlapping and n not in whole):
                    if inside and overlapping:
                        node = n.args[0] if n.target is operator.getitem else n
                        self.fallbacks[node] = f"{node.target}: a result whose elements overlap in memory"
                        return True
                    self.wanted.add(n)
                    continue
                self.host_views[n] = host_view(root, [n, *self._viewed(n)][-2::-1])
                self.wanted.add(root)
        return False

    # --- segments ---
    def _segments(self):
        """Makes the segments from the last level to the first, because later segments determine the outputs of earlier ones."""
        producer = {}
        for n, low in self.lowered.items():
            for line in low.lines:
                producer[line.result.name] = n
        sources = {n.name: n for n in self.nodes if n not in self.lowered}
        wanted = {n for n in self.wanted if n in self.lowered}
        segments = []
        for level in sorted({self.level[n] for n in self.lowered}, reverse=True):
            outputs = sorted((n for n in wanted if self.level[n] == level), key=self.position.get)
            updates = [(to, source) for to, source in self.updates.items() if self.level[source] == level]
            if not outputs and not updates:
                continue
            segment = Segment(level)
            segment.outputs, segment.updates = outputs, updates
            taken, inputs, stack = set(), {to.name: to for to, _ in updates}, [v.name for v in self._results(segment)]
            while stack:
                name = stack.pop()
                n = producer.get(name)
                if n is None:
                    inputs[name] = sources[name]
                elif self.level[n] == level or self.lowered[n].cheap:
                    if n not in taken:
                        taken.add(n)
                        # The same segment writes all results of a node.
                        stack += [v.name for line in self.lowered[n].lines for v in line.operands
                                  if producer.get(v.name) is not n]
                else:
                    inputs[name] = n
                    # An earlier segment outputs the node whose Value has this name.
                    wanted.add(self._owner(name, n))
            segment.nodes = sorted(taken, key=self.position.get)
            segment.lines = [line for n in segment.nodes for line in self.lowered[n].lines]
            segment.lines = self._live(segment)
            segment.inputs = sorted(((self._owner(name, n), name) for name, n in inputs.items()),
                                    key=lambda pair: self.position[pair[0]])
            segments.append(segment)
        self.segments = segments[::-1]
        for segment in self.segments:
            self._collect_symbols(segment)

    def _owner(self, name, n):
        """The fx node whose tensor is the Value `name`, which node n writes: n itself, or the getitem that reads the Value from n."""
        if n not in self.lowered or (isinstance(self.values[n], Value) and self.values[n].name == name):
            return n
        for user in n.users:
            if user in self.lowered and isinstance(self.values.get(user), Value) and self.values[user].name == name:
                return user
        raise AssertionError(f"no node owns %{name}")

    def _results(self, segment):
        """The Values of a segment's outputs and updates."""
        return [self.values[n] for n in (*segment.outputs, *(source for _, source in segment.updates))]

    def _live(self, segment):
        needed = {v.name for v in self._results(segment)}
        lines = []
        for line in reversed(segment.lines):
            if line.result.name in needed:
                needed |= {v.name for v in line.operands}
                lines.append(line)
        return lines[::-1]

    def _collect_symbols(self, segment):
        symbols = set()
        for line in segment.lines:
            symbols |= line.symbols
        for n in [n for n, _ in segment.inputs] + segment.outputs:
            fake = n.meta["val"]
            for s in (*sizes.sizes(fake.shape), *sizes.sizes(fake.stride())):
                symbols |= sizes.symbols(s)
        segment.symbols = sorted(symbols)

    def _donated(self, indices):
        """The inputs of these indices that one segment reads, and nothing else."""
        if not indices:
            return set()
        places = [n for n in self.nodes if n.op == "placeholder"]
        tensors = [n for n in places if isinstance(n.meta.get("val"), torch.Tensor)]
        memory = collections.Counter(n.meta["val"].untyped_storage()._cdata for n in tensors)
        segments = collections.Counter(n for segment in self.segments for n, _ in segment.inputs)
        on_host = {self.root(d) for _, d in self._reads_on_host()}
        return {n for n in (places[i] for i in indices)
                if segments[n] == 1 and n not in on_host and memory[n.meta["val"].untyped_storage()._cdata] == 1}

    # --- the text ---
    def text(self, segment, name, params=()):
        """The graph text of a segment. params: nodes whose tensors are the same in every call."""
        symbols = [f"%{symbol}: i64[] = {symbol}" for symbol in segment.symbols]
        inputs = [tensor_input_text(n, value_name, n in params, n in self.donated) for n, value_name in segment.inputs]
        outputs = [f"%{self.values[n].name}{layout_text(n.meta['val'])}" for n in segment.outputs]
        outputs += [f"%{self.values[source].name} updates %{to.name}" for to, source in segment.updates]
        facts = [f"  ; {s} = {self.opaque[s].expr}" for s in segment.symbols if s in self.opaque]
        facts += [f"  assume {symbol} in [{low if low > sizes.LOWEST else '-inf'}, {high if high < sizes.HIGHEST else 'inf'}]"
                 for symbol, (low, high) in self.ranges(segment).items() if low != 0 or high < sizes.HIGHEST]
        facts += [f"  assume ({sizes.text(a)} == {sizes.text(b)})" for a, b in self.equalities(segment)]
        return graph_text(name, [*symbols, *inputs], [*facts, *line_texts(segment.lines, sizes.text)], outputs)

    def text_of(self, n, name):
        """The graph text of one node by itself. Its inputs are the values that the node reads."""
        lines = self.lowered[n].lines
        made = {line.result.name for line in lines}
        read = {v.name: v for line in lines for v in line.operands if v.name not in made}
        symbols = set().union(*(line.symbols for line in lines), *map(sizes.symbols, (s for v in read.values() for s in v.shape)))
        inputs = [*(f"%{symbol}: i64[] = {symbol}" for symbol in sorted(symbols)),
                  *(input_text(v, sizes.text) for v in read.values())]
        return graph_text(name, inputs, line_texts(lines, sizes.text), [f"%{lines[-1].result.name}"])

    def ranges(self, segment):
        """Symbol -> (lowest, highest), as the tracer knows them without new guards. Dynamo traces size 1 separately, so its symbols
        start at 2. Tenon's start at 1, because the graph of size 1 is usually the same (program_cache.py)."""
        if self.lengths is None and segment.symbols:
            self.lengths = {n for f in self.nodes for t in _tensors(f.meta.get("val")) for n in map(str, sizes.sizes(t.shape))}
        return {symbol: (1 if low == 2 else max(low, 0) if symbol in self.lengths else low, high)
                for symbol, (low, high) in sizes.ranges(self.tracer, segment.symbols).items()}

    def equalities(self, segment):
        """[(a, b)] of sizes that the tracer knows to be equal."""
        return sizes.equalities(self.tracer, segment.symbols)[:MOST_EQUALITIES]

    def order(self):
        """The segments and the host steps in the order of execution. A host step is an fx node; copy_ nodes are left out."""
        steps = []
        by_level = {s.level: s for s in self.segments}
        read = {n for segment in self.segments for n, _ in segment.inputs}
        hosts = [n for n in self.nodes if n.op == "call_function" and n not in self.lowered and not self._is_write(n)
                 and (n in read or n.users or n.target is not draw_seeds)]
        read_numbers = self._numbers_read()
        hosts = [n for n in hosts if n in read_numbers or not self.is_arithmetic(n)]
        hosts += sorted(self.host_views, key=self.position.get)
        for level in range(-1, max([-1, *self.level.values()]) + 1):
            if level in by_level:
                steps.append(by_level[level])
            steps += sorted((n for n in hosts if self._host_level(n) == level), key=self.position.get)
        return steps

    def _numbers_read(self):
        """The arithmetic nodes that the host has to compute. Programs get the symbols and compute other sizes themselves."""
        read = {source for source, _, _ in self.symbol_source.values()}
        for n in reversed(self.nodes):
            if (n in read and self.size_text(n) is None) if self.is_arithmetic(n) else n not in self.lowered:
                read.update(n.all_input_nodes)
        return read

    def _host_level(self, n):
        if n not in self.host_views:
            return self.level[n]
        view = self.host_views[n]
        return max([-1, self.level[view.base], *map(self._symbol_level, view.symbols())])


@functools.lru_cache(1024)
def _writes(target):
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _symbolic_sizes(n):
    """The SymInts among the sizes and strides of a node's tensors, and the size that the node computes, if it computes one."""
    val = n.meta.get("val")
    numbers = [s for t in _tensors(val) if t.layout == torch.strided for s in (*t.shape, *t.stride())]
    return [s for s in (*numbers, val) if isinstance(s, torch.SymInt)]


def _tensors(val):
    if isinstance(val, torch.Tensor):
        return (val,)
    return [v for v in val if isinstance(v, torch.Tensor)] if isinstance(val, (tuple, list)) else ()

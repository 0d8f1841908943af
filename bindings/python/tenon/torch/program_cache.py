"""A cache of programs. Graphs whose lines differ only in names, sizes and views without effect share one program.

Dynamo traces a function again when a size becomes dynamic, for size 1, and for every layer that is compiled by itself. The
graphs often differ only in sizes, and in views that have no effect at one of the sizes, such as an expand from 1 to 1; PyTorch
or the model leaves these out there.

A program serves a graph if values for the program's symbols turn its lines into those of the graph, apart from views without
effect. `N` may become 7, 1, or another symbol `M`, within the range that the text assumes. A new program may also serve the
graphs of older programs, as a program for all sizes serves the graph of one size. It then replaces them in the functions that
run them. The cache holds programs and functions weakly: a program dies with its last function.
Tested by tests/torch/test_dynamic.py.
"""

import itertools
import threading
import weakref

import sympy

from .. import _abi
from ..graph_text import Value
from .lowering import sizes
from .lowering.sizes import same_shape
from .lowering.tensors import layout_text, tensor_input_text
from .runtime import marshal

KEPT = 16  # programs per key
_lock = threading.RLock()  # reentrant: a program may die, and leave the cache, while this thread has the lock
_functions = weakref.WeakSet()  # runner.Compiled
_programs = {}  # key -> weak references, oldest first
_of_text = weakref.WeakValueDictionary()  # (text, options) -> program without packed parameters


VIEWS = ("reshape", "expand", "slice", "concat")  # have no effect at some sizes


class Line:
    """A line, input or output of a graph: its text without names and sizes, its sizes, and the names it reads."""

    def __init__(self, text, sizes, result=None, reads=()):
        self.text, self.sizes, self.result, self.reads, self.view = text, sizes, result, [v.name for v in reads], None

    def does(self, head, attrs, shape, shapes):
        """Records the attributes and shapes of a view. shape: of the result; shapes: of the values that it reads."""
        if head in VIEWS:
            self.view, self.axis, self.step = head, attrs.get("axis"), attrs.get("step", 1)
            self.shape, self.shapes = shape, shapes
        return self

    def what_stays(self, put):
        """The names that the line reads, without the empty parts of a concat; or, if the line is a view without effect, the one
        name whose value it has. put: replaces the symbols of a size by values."""
        if self.view is None:
            return self.reads
        if self.view == "concat":
            parts = [name for name, shape in zip(self.reads, self.shapes) if put(shape[self.axis]) != 0] or self.reads[:1]
            return parts[0] if len(parts) == 1 else parts
        # A slice as long as its axis is the whole axis.
        nothing = same_shape([put(n) for n in self.shapes[0]], [put(n) for n in self.shape]) and self.step == 1
        return self.reads[0] if nothing else self.reads


def without_sizes(write):
    """Calls write(size) with a function that writes "?" for each size. Returns (text, sizes that were written)."""
    found = []
    return write(lambda n: found.append(n) or "?"), found


def _endings(lines):
    """Yields (text, sizes) of each line of a segment. Lines that differ only in names share them."""
    endings = {}
    for line in lines:
        first = line.first or line
        if first not in endings:
            ending, found = without_sizes(first.ending)
            endings[first] = f"{first.head} {len(first.operands)}{ending}", found
        yield endings[first]


def anonymous(name):
    return ""


class Template:
    def __init__(self, partition, segment, params, frozen, options):
        """What the cache compares of a segment. frozen: [(input number, tensor)] of the parameters that are packed into the
        program."""
        self.inputs = [Line(*without_sizes(lambda size: tensor_input_text(n, name, n in params, n in partition.donated, size, anonymous)), name)
                       for n, name in segment.inputs]
        self.outputs = [Line(*without_sizes(lambda size: layout_text(n.meta["val"], size)), None, [partition.values[n]])
                        for n in segment.outputs]
        self.outputs += [Line(" updates", [], None, [partition.values[source], Value(to.name, None, ())])
                         for to, source in segment.updates]
        self.symbols, self.ranges = list(segment.symbols), partition.ranges(segment)
        self.equalities = partition.equalities(segment)
        self.frozen = [(number, weakref.ref(tensor)) for number, tensor in frozen]
        self._written = segment.lines, list(_endings(segment.lines))  # until finish()
        lines = [text for line, (text, _) in zip(*self._written) if line.head not in VIEWS]
        texts = [line.text for line in self.inputs] + lines + [line.text for line in self.outputs]
        self.key = ("\n".join(texts), tuple(number for number, _ in frozen), options)

    def finish(self):
        """Replaces the segment's lines by the Lines that values_for() compares. Only equal keys need them, so _build() calls this while the
        library compiles."""
        if self._written is None:
            return
        self.lines = [Line(*ending, line.result.name, line.operands).does(line.head, line.attrs, line.result.shape, [v.shape for v in line.operands])
                      for line, ending in zip(*self._written)]
        self.lasting = [*self.inputs, *(line for line in self.lines if line.view is None), *self.outputs]
        self._written = None

    def values_for(self, other):
        """The values of this template's symbols, in order, with which it is the same graph as `other`; None if there are none.
        Both templates have the same key."""
        self.finish()
        other.finish()
        if any(a() is None or a() is not b() for (_, a), (_, b) in zip(self.frozen, other.frozen)):
            return None
        pairs = [pair for a, b in zip(self.lasting, other.lasting) for pair in zip(a.sizes, b.sizes)]
        values = {str(a): b for a, b in reversed(pairs) if sizes.is_symbol(a)}
        if set(values) != set(self.symbols) or not all(other._lies_in(values[s], self.ranges[s]) for s in values):
            return None
        known = {}

        def put(n):
            if isinstance(n, int):
                return n
            if n not in known:
                known[n] = sizes.size(n.xreplace({s: sympy.sympify(values[str(s)]) for s in n.free_symbols}))
            return known[n]

        if not all(other._holds(put(a), put(b)) for a, b in self.equalities):
            return None
        mine, theirs = self._normal(put), other._normal(lambda n: n)
        if all(a == b and same_shape(m, t) for (*a, m), (*b, t) in itertools.zip_longest(mine, theirs, fillvalue=(None, ()))):
            return [values[s] for s in self.symbols]
        return None

    def _normal(self, put):
        """(text, numbers of the values that it reads, sizes) of each line, without the views that have no effect."""
        numbers, count = {}, 0
        for line in (*self.inputs, *self.lines, *self.outputs):
            reads = line.what_stays(put)
            if isinstance(reads, str):
                numbers[line.result] = numbers[reads]
                continue
            numbers[line.result] = count
            count += 1
            yield line.text, [numbers[name] for name in reads], [put(n) for n in line.sizes]

    def _lies_in(self, value, within):
        low, high = sizes.range_of(value, self.ranges)
        return within[0] <= low and high <= within[1]

    def _holds(self, a, b):
        """Whether two sizes of this graph are equal."""
        return sizes.same(a, b) or any(sizes.same(a, x) and sizes.same(b, y) for x, y in self.equalities)


def program(text, params, num_threads, place, device_graphs, verify):
    """A program. params: the packing.Params of its packed parameters, or None if it packs none, for which the result is the living program
    of the same text and options, if there is one."""
    key = (text, num_threads, place, device_graphs, verify)
    with _lock:
        found = _of_text.get(key) if params is None else None
    if found is None:
        found = _abi.Program(text, params is not None, num_threads, params.addresses if params else (), place, marshal.context(place), device_graphs,
                             verify if place == _abi.CPU else 0)
        if params is None:
            with _lock:
                _of_text[key] = found
    return found


def find(template):
    """(program, values of its symbols), for a living program that serves the template; None if there is none."""
    with _lock:
        candidates = [r() for r in _programs.get(template.key, ())]
    for program in reversed(candidates):
        if program is not None and (values := program.template.values_for(template)) is not None:
            return program, values
    return None


def remember(compiled, made):
    """Adds a function and the programs that were made for it. find() returns these programs as long as they live."""
    with _lock:
        for program in made:
            _remember(program)
        for other in list(_functions) if made else ():
            after = [_successor(use, made) for use in other.uses]
            if any(after):
                other.move([new or (use.program, use.symbols) for new, use in zip(after, other.uses)])
        _functions.add(compiled)


def _successor(use, made):
    """(program, values of its symbols), for a program of `made` that serves both the graph of the use and the graph for which the
    use's program was made; None if there is none."""
    for program in made:
        t = program.template
        if t.key == use.template.key and t.values_for(use.program.template) is not None:
            if (values := t.values_for(use.template)) is not None:
                return program, values
    return None


def _remember(program):
    key = program.template.key

    def forget(reference):
        with _lock:
            rest = [r for r in _programs.get(key, ()) if r is not reference]
            if rest:
                _programs[key] = rest
            else:
                _programs.pop(key, None)

    reference = weakref.ref(program, forget)
    _programs[key] = [*_programs.get(key, ()), reference][-KEPT:]


def living():
    """How many programs find() can still return."""
    with _lock:
        return sum(r() is not None for references in _programs.values() for r in references)

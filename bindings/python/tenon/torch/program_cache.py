"""Programs that serve more than one graph: the same lines up to names, sizes and no-ops are compiled once.

Dynamo traces a function anew for a size that became dynamic, for size 1, and for every layer that is compiled by itself;
the graphs often differ in nothing but sizes, and in views that do nothing at one of the sizes: PyTorch, or the model's
own code, leaves them out there. A living program serves a graph if there is a value for each of its symbols that makes
its lines the graph's, views that do nothing left out of both: `N` may become 7, 1, or another `M`, within the range that
its text assumes. A program that can stand for another one, as that of all sizes can for that of the first, takes its
place in the functions that run it. Programs and functions are held weakly: with its last function a program is gone.
Tested by tests/torch/test_dynamic.py.
"""

import itertools
import threading
import weakref

import sympy

from .lowering import sizes
from .lowering.sizes import same_shape
from .partition import layout_text, tensor_input_text

KEPT = 16  # of programs with one template text
_lock = threading.RLock()  # a program may die, and be forgotten, in the middle of anything
_functions = weakref.WeakSet()  # runner.Compiled
_programs = {}  # key -> weak references, oldest first


VIEWS = ("reshape", "expand", "slice", "concat")  # may do nothing


class Line:
    """A line, input or output of a graph: its text without names and sizes, its sizes, and the names it reads."""

    def __init__(self, text, result=None, reads=()):
        self.sizes = []
        self.text = text(lambda n: self.sizes.append(n) or "?")
        self.result, self.reads, self.view = result, [v.name for v in reads], None

    def does(self, head, attrs, shape, shapes):
        """Remembers what a view does. shape, shapes: of the result, and of what is read."""
        if head in VIEWS:
            self.view, self.axis, self.step = head, attrs.get("axis"), attrs.get("step", 1)
            self.shape, self.shapes = shape, shapes
        return self

    def what_stays(self, put):
        """The names it reads, the empty parts of a concat left out; or one name, if it is nothing but that value."""
        if self.view is None:
            return self.reads
        if self.view == "concat":
            parts = [name for name, shape in zip(self.reads, self.shapes) if put(shape[self.axis]) != 0] or self.reads[:1]
            return parts[0] if len(parts) == 1 else parts
        # A slice as long as its axis is all of it: it has no other place to begin.
        nothing = same_shape([put(n) for n in self.shapes[0]], [put(n) for n in self.shape]) and self.step == 1
        return self.reads[0] if nothing else self.reads


def anonymous(name):
    return ""


class Template:
    def __init__(self, partition, segment, params, frozen, options):
        """frozen: [(input number, tensor)] that are packed into the program."""
        self.inputs = [Line(lambda size: tensor_input_text(n, name, n in params, size, anonymous), name)
                       for n, name in segment.inputs]
        self.lines = [Line(lambda size: line.text(size, anonymous), line.result.name, line.operands)
                      .does(line.head, line.attrs, line.result.shape, [v.shape for v in line.operands])
                      for line in segment.lines]
        self.outputs = [Line(lambda size: layout_text(n.meta["val"], size), None, [partition.values[n]])
                        for n in segment.outputs]
        self.symbols, self.ranges = list(segment.symbols), partition.ranges(segment)
        self.equalities = partition.equalities(segment)
        self.frozen = [(number, weakref.ref(tensor)) for number, tensor in frozen]
        self.lasting = [*self.inputs, *(line for line in self.lines if line.view is None), *self.outputs]
        self.key = ("\n".join(line.text for line in self.lasting), tuple(number for number, _ in frozen), options)

    def values_for(self, other):
        """What this template's symbols have to be, in their order, to be `other`, which has the same key; or None."""
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
        """(text, numbers of what is read, sizes) of each line that does something."""
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


def find(template):
    """(program, values of its symbols) of a living program that can stand for the template; or None."""
    with _lock:
        candidates = [r() for r in _programs.get(template.key, ())]
    for program in reversed(candidates):
        if program is not None and (values := program.template.values_for(template)) is not None:
            return program, values
    return None


def remember(compiled, made):
    """A function, and the programs that were made for it, for find() as long as somebody else holds them."""
    with _lock:
        for program in made:
            _remember(program)
        for other in list(_functions) if made else ():
            after = [_successor(use, made) for use in other.uses]
            if any(after):
                other.move([new or (use.program, use.symbols) for new, use in zip(after, other.uses)])
        _functions.add(compiled)


def _successor(use, made):
    """(program, values of its symbols) of a program that can stand for the use's and for its graph; or None."""
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

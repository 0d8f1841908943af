"""Programs that serve more than one graph: the same lines up to names and sizes are compiled once.

Dynamo traces a function anew for a size that became dynamic, for size 1, and for every layer that is compiled by itself;
the graphs often differ in nothing but sizes. A Template is a graph's text with the names numbered and the sizes taken
out. A living program whose template has the same text serves a graph if there is a value for each of its symbols that
makes its sizes the graph's: `N` may become 7, 1, or another `M`, within the range that its text assumes. Programs are held
weakly: with their last function they are gone. Tested by tests/torch/test_dynamic.py.
"""

import threading
import weakref

import sympy

from . import symexpr
from .partition import HIGHEST

KEPT = 16  # of programs with one template text
_lock = threading.RLock()  # a program may die, and be forgotten, in the middle of anything
_programs = {}  # key -> weak references, oldest first


class Template:
    def __init__(self, partition, segment, params, frozen, options):
        """frozen: [(input number, tensor)] that are packed into the program."""
        self.sizes, names = [], {}
        inputs, lines = partition.body(segment, params, lambda n: self.sizes.append(n) or "?",
                                       lambda name: names.setdefault(name, str(len(names))))
        self.symbols, self.ranges = list(segment.symbols), partition.ranges(segment)
        self.frozen = frozen
        self.key = ("\n".join([*inputs, *lines]), tuple(number for number, _ in frozen), options)

    def values_for(self, other):
        """What this template's symbols have to be, in their order, to make its sizes those of `other`; or None."""
        if any(a is not b for (_, a), (_, b) in zip(self.frozen, other.frozen)):
            return None
        pairs = dict.fromkeys(zip(self.sizes, other.sizes))
        values = {str(a): b for a, b in reversed(pairs) if symexpr.is_symbol(a)}
        if set(values) != set(self.symbols) or not all(other._lies_in(values[s], self.ranges[s]) for s in values):
            return None
        for a, b in pairs:
            if not isinstance(a, int):
                a = symexpr.size(a.xreplace({s: sympy.sympify(values[str(s)]) for s in a.free_symbols}))
            if not symexpr.same(a, b):
                return None
        return [values[s] for s in self.symbols]

    def _lies_in(self, value, within):
        low, high = (value, value) if isinstance(value, int) else self.ranges.get(str(value), (0, HIGHEST))
        return within[0] <= low and high <= within[1]


def find(template):
    """(program, values of its symbols) of a living program that can stand for the template; or None."""
    with _lock:
        candidates = [r() for r in _programs.get(template.key, ())]
    for program in reversed(candidates):
        if program is not None and (values := program.template.values_for(template)) is not None:
            return program, values
    return None


def remember(program):
    """For find(), as long as somebody else holds the program. It has .template."""
    key = program.template.key

    def forget(reference):
        with _lock:
            rest = [r for r in _programs.get(key, ()) if r is not reference]
            if rest:
                _programs[key] = rest
            else:
                _programs.pop(key, None)

    reference = weakref.ref(program, forget)
    with _lock:
        _programs[key] = [*_programs.get(key, ()), reference][-KEPT:]


def living():
    """How many programs find() can still return."""
    with _lock:
        return sum(r() is not None for references in _programs.values() for r in references)

"""PyTorch's symbolic sizes: translates the sympy expression of a SymInt to a size of the graph text or to a Python expression.

This package reads only `.node.expr` of a SymInt. int(), bool(), == and hash would add a guard, and each added guard makes
Dynamo compile more often. So sizes here are ints or sympy expressions, never SymInts. This module also reads facts about the
symbols from the tracer's ShapeEnv: ranges, and the guards that exist when the graph is lowered.

The graph text has sums, products, quotients, remainders, max and min. Any other function in a size, as in int(0.7*n) or
n & ~3, becomes an Opaque: a symbol of the text whose value the host computes in each call from other sizes.
Tested by tests/torch/test_size_text.py, test_sizes.py and test_aot_semantics.py.
"""

import ast
import contextlib
import threading
import weakref

import sympy
import torch
from torch.utils._sympy import functions as torch_functions
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from ...graph_text import Sizes, Unsupported

LOWEST, HIGHEST = -(2**62), 2**62 - 1  # limits of a symbol's value in the graph text
_tracer = threading.local()


def size(value):
    """An int or a SymInt as an int or a sympy expression."""
    if type(value) is int:  # nearly always
        return value
    if isinstance(value, bool):
        raise Unsupported("a bool where a size is expected")
    if isinstance(value, int):
        return value
    env = None
    if isinstance(value, torch.SymInt):
        env, value = value.node.shape_env, value.node.expr
    if isinstance(value, sympy.Symbol):
        return value
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.Expr):
        return _in_words(value, env)
    raise Unsupported(f"{type(value).__name__} where a size is expected")


class Real:
    """A float that the host computes from sizes. expr: the sympy expression of a SymFloat."""

    def __init__(self, expr):
        self.expr = expr

    def __float__(self):
        raise Unsupported(f"{self.expr} where a constant is expected")


def is_symbolic(number):
    """Whether an argument of an operator is a number that is not known when the graph is compiled."""
    return isinstance(number, Real) or (isinstance(number, sympy.Expr) and bool(number.free_symbols))


class Opaque(sympy.Symbol):
    """The symbol of a size that the graph text cannot express. expr: its value, an expression of the tracer's symbols."""

    def __new__(cls, name, expr):
        self = sympy.Symbol.__xnew__(cls, name, integer=True)
        self.expr = expr
        return self

    def _hashable_content(self):
        return (*super()._hashable_content(), self.expr)


class Written:
    """The sizes of one tracer, rewritten for the graph text, and their Opaques."""

    def __init__(self):
        self.sizes, self.opaque = {}, {}  # expression -> size, expression -> Opaque
        self.rounded = {}  # quotient in the text -> the tracer's expression that it replaces, a rounded number

    def name(self, expr):
        if expr.is_integer is False:
            raise Unsupported(f"size {expr}: {type(expr).__name__} cannot be written in the graph text")
        if expr not in self.opaque:
            python(expr)  # raises Unsupported if the host cannot compute it
            self.opaque[expr] = Opaque(f"z{len(self.opaque)}", expr)
        return self.opaque[expr]


_written = weakref.WeakKeyDictionary()  # ShapeEnv -> Written


def _of(env):
    return _written.setdefault(env, Written())


def opaque(env):
    """Name -> Opaque, for all Opaques that this tracer has so far."""
    return {str(o): o for o in _of(env).opaque.values()} if env is not None else {}


def plain(e):
    """A size or a relation in which each Opaque is replaced by its expression."""
    if isinstance(e, int):
        return e
    found = {s: s.expr for s in e.free_symbols if isinstance(s, Opaque)}
    return e.xreplace(found) if found else e


def _in_words(value, env):
    """A size, rewritten as an expression that the graph text can state."""
    env = env or getattr(_tracer, "env", None)
    if env is None:
        return _rewritten(value, None)
    written = _of(env)
    if value not in written.sizes:
        with tracer(env):
            written.sizes[value] = _rewritten(value, written)
    return written.sizes[value]


def _rewritten(e, written):
    """written: the Written of the tracer. If it is None, no Opaques are made, and text() refuses the expressions that the graph text
    cannot state."""
    def to_words(e):
        if isinstance(e, (sympy.Symbol, sympy.Integer)):
            return e
        if isinstance(e, TO_INT):
            try:
                inner = {a: to_words(a) for a in e.args[0].atoms(*TO_INT)}
                rounded = e.func(e.args[0].xreplace(inner))
                if not isinstance(rounded, TO_INT):
                    return to_words(rounded)
                whole, sign = _whole(rounded)
                if written and isinstance(whole, torch_functions.FloorDiv):
                    written.rounded.setdefault(plain(whole), sign * plain(e))
                return to_words(sign * whole)
            except Unsupported:
                if written is None:
                    raise
        elif isinstance(e, WORDS) and (not isinstance(e, POWERS) or e.args[1] in range(1, 9)):
            args = [to_words(a) for a in e.args]
            return e if all(a is b for a, b in zip(args, e.args)) else e.func(*args)
        return written.name(plain(e)) if written else e  # text() refuses e

    result = to_words(e)
    return int(result) if isinstance(result, sympy.Integer) else result


POWERS = (sympy.Pow, torch_functions.PowByNatural)
WORDS = (sympy.Add, sympy.Mul, *POWERS, torch_functions.FloorDiv, torch_functions.Mod, torch_functions.PythonMod, torch_functions.ModularIndexing,
         torch_functions.Max, sympy.Max, torch_functions.Min, sympy.Min, torch_functions.Identity)
ROUND_UP = (torch_functions.CeilToInt, sympy.ceiling)
TO_INT = (torch_functions.TruncToInt, torch_functions.FloorToInt, sympy.floor, *ROUND_UP)


def _whole(value):
    """(a, sign): an integer expression a, so that sign * a is the rounded number. Raises Unsupported unless floats compute the number
    exactly for sizes below 2**40, as in int(0.5*n), floor(n/m) and ceil(n - 0.5)."""
    def number(e):
        """(p, q), for a constant p/q with few enough bits to compute exactly in floats; else None."""
        top, bottom = float(e).as_integer_ratio() if isinstance(e, (sympy.Float, sympy.Integer)) else (0, 2**13)
        return (sympy.Integer(top), bottom) if max(abs(top), bottom) <= 2**12 else None

    def fraction(e):
        """(p, q), so that the float is exactly p/q and q is a power of two."""
        if isinstance(e, torch_functions.ToFloat):
            return e.args[0], 1
        if found := number(e):
            return found
        if isinstance(e, sympy.Add):
            parts = [fraction(a) for a in e.args]
            bottom = max(q for _, q in parts)
            return sum(p * (bottom // q) for p, q in parts), bottom
        if isinstance(e, sympy.Mul) and (factor := number(e.args[0])):
            p, q = fraction(sympy.Mul(*e.args[1:]))
            return factor[0] * p, factor[1] * q
        if isinstance(e, torch_functions.FloatTrueDiv) and number(e.args[1]) and (factor := number(1 / e.args[1])):  # by a power of two
            p, q = fraction(e.args[0])
            return factor[0] * p, factor[1] * q
        raise Unsupported(f"size {value}: rounds a float")

    inner = value.args[0]
    if isinstance(value, (sympy.floor, sympy.ceiling)):
        p, q = sympy.together(inner).as_numer_denom()
    else:
        p, q = inner.args if isinstance(inner, torch_functions.IntTrueDiv) else fraction(inner)
    if isinstance(value, ROUND_UP):
        return torch_functions.FloorDiv(-p, q), -1
    if isinstance(value, torch_functions.TruncToInt) and not (at_least(p, 0) and at_least(q, 1)):
        raise Unsupported(f"size {value}: rounds a number that may be negative")
    return torch_functions.FloorDiv(p, q), 1


@contextlib.contextmanager
def tracer(env):
    """A context in which this thread's sizes belong to this ShapeEnv (None: to no tracer) and known() asks it."""
    before, _tracer.env = getattr(_tracer, "env", None), env
    try:
        yield
    finally:
        _tracer.env = before


def tracer_of(nodes):
    """The ShapeEnv of a graph's nodes, or None."""
    for n in nodes:
        val = n.meta.get("val")
        if isinstance(val, torch.Tensor):
            numbers = val.shape if val._has_symbolic_sizes_strides else ()
        else:
            numbers = (val,)
        for s in numbers:
            if isinstance(s, (torch.SymInt, torch.SymFloat)) and s.node.shape_env is not None:
                return s.node.shape_env
    return None


def known(relation):
    """Whether a relation of sizes holds by the tracer's ranges and guards: True, False, or None. Adds no guard."""
    if relation in (True, False, sympy.true, sympy.false):
        return bool(relation)
    env = getattr(_tracer, "env", None)
    if env is None:
        return None
    relation = plain(relation)
    facts = tuple(f for fact in env.get_axioms() if isinstance(fact, sympy.And) for f in fact.args)  # the terms of conjunctions
    for asked in dict.fromkeys([relation, relation.xreplace(_of(env).rounded)]):
        for axioms in (None, facts) if facts else (None,):
            answer = env._maybe_evaluate_static(asked, axioms=axioms)
            if answer in (sympy.true, sympy.false):
                return bool(answer)
    return None


def at_least(a, b):
    return known(sympy.Ge(a, b))


def same(a, b):
    """Whether algebra or the tracer shows that two sizes are equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return _equal_by_algebra(a, b) or known(sympy.Eq(a, b)) is True


def is_zero(n):
    """Whether a size is the number 0. False for a symbol, whatever the tracer knows about it."""
    return isinstance(n, int) and n == 0


def is_empty(shape):
    """Whether one of the sizes is the number 0."""
    return any(map(is_zero, shape))


def ranges(env, symbols):
    """Name -> (lowest, highest), for these symbols, as the tracer knows them."""
    found = {str(s): r for s, r in env.var_to_range.items()} if env is not None else {}
    found |= {name: _bounds(o.expr, env.var_to_range) for name, o in opaque(env).items() if name in symbols}
    result = {}
    for name in symbols:
        r = found.get(name)
        low, high = (getattr(r, "lower", None), getattr(r, "upper", None))
        result[name] = (max(int(low), LOWEST) if isinstance(low, sympy.Integer) else LOWEST,
                        min(int(high), HIGHEST) if isinstance(high, sympy.Integer) else HIGHEST)
    return result


def _bounds(expr, ranges):
    try:
        return bound_sympy(expr, ranges)
    except ArithmeticError:  # a float overflows at an end of a range
        return ValueRanges.unknown_int()


def range_of(value, within):
    """(lowest, highest) of a size whose symbols have these ranges."""
    if isinstance(value, int):
        return value, value
    known = {s: ValueRanges(*(sympy.Integer(n) for n in within.get(str(s), (LOWEST, HIGHEST)))) for s in value.free_symbols}
    bounds = _bounds(value, known)
    low, high = (int(n) if isinstance(n, sympy.Integer) else default
                 for n, default in ((bounds.lower, LOWEST), (bounds.upper, HIGHEST)))
    return max(low, LOWEST), min(high, HIGHEST)


def equalities(env, symbols):
    """[(a, b)]: pairs of sizes that the tracer's guards and assertions make equal. symbols: names; no size has other symbols."""
    if env is None:
        return []
    found = {}
    for fact in env.get_axioms():
        if not isinstance(fact, sympy.Eq):
            continue
        try:
            a, b = (_in_words(env.replace(side), env) for side in fact.args)
            if symbols_of(a, b) and symbols_of(a, b) <= set(symbols) and not _equal_by_algebra(a, b):
                found.setdefault((text(a), text(b)), (a, b))
        except Unsupported:
            continue
    return list(found.values())


def symbols_of(*sizes):
    return set().union(*map(symbols, sizes))


def _equal_by_algebra(a, b):
    return a == b or sympy.expand(a - b) == 0


def remainder(a, b):
    """a % b, as Python computes it."""
    return a % b if isinstance(a, int) and isinstance(b, int) else size(torch_functions.PythonMod(sympy.sympify(a), sympy.sympify(b)))


def larger(a, b):
    """max(a, b); the larger of the two itself, if the tracer knows which it is."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if at_least(a, b):
        return a
    return b if at_least(b, a) else size(torch_functions.Max(a, b))


def smaller(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if at_least(b, a):
        return a
    return b if at_least(a, b) else size(torch_functions.Min(a, b))


def symbols(value):
    return frozenset() if isinstance(value, int) else {str(s) for s in value.free_symbols}


def is_symbol(value):
    return isinstance(value, sympy.Symbol)


def text(value):
    """The text of a size in the graph text. It is also a Python expression in which the symbols are variables."""
    return str(value) if isinstance(value, int) else _print(value, 0)


# strength: what e is part of, and so whether it needs parentheses. 0: of nothing, 1: of a sum, 2: of a product.
def _print(e, strength):
    if isinstance(e, int) or isinstance(e, sympy.Integer):
        s = str(int(e))
        return f"({s})" if strength > 1 and s[0] == "-" else s
    if isinstance(e, sympy.Symbol):
        return str(e)
    if isinstance(e, torch_functions.Identity):
        return _print(e.args[0], strength)
    if isinstance(e, sympy.Add):
        s = "+".join(_print(a, 1) for a in e.args).replace("+-", "-")
        return f"({s})" if strength > 0 else s
    if isinstance(e, sympy.Mul):
        coefficient, factors = e.as_coeff_mul()
        if not isinstance(coefficient, sympy.Integer):
            raise Unsupported(f"size {e}: is not an integer expression")
        if coefficient == -1:
            s = "-" + "*".join(_print(a, 2) for a in factors)
        else:
            s = "*".join(_print(a, 2) for a in (factors if coefficient == 1 else (coefficient, *factors)))
        return f"({s})" if strength > 1 else s
    if isinstance(e, (sympy.Pow, torch_functions.PowByNatural)):
        base, exponent = e.args
        if not isinstance(exponent, sympy.Integer) or not 1 <= int(exponent) <= 8:
            raise Unsupported(f"size {e}: a power with an exponent outside 1 to 8")
        s = "*".join([_print(base, 2)] * int(exponent))
        return f"({s})" if strength > 1 else s
    if isinstance(e, torch_functions.FloorDiv):
        return f"({_print(e.args[0], 2)}//{_print(e.args[1], 2)})"
    if isinstance(e, (torch_functions.Mod, torch_functions.PythonMod)):
        return f"({_print(e.args[0], 2)}%{_print(e.args[1], 2)})"
    if isinstance(e, torch_functions.ModularIndexing):
        base, divisor, modulus = (_print(a, 2) for a in e.args)
        return f"(({base}//{divisor})%{modulus})"
    if isinstance(e, (torch_functions.Max, sympy.Max, torch_functions.Min, sympy.Min)):
        name = "max" if isinstance(e, (torch_functions.Max, sympy.Max)) else "min"
        s = _print(e.args[0], 0)
        for a in e.args[1:]:
            s = f"{name}({s},{_print(a, 0)})"
        return s
    raise Unsupported(f"size {e}: {type(e).__name__} cannot be written in the graph text")


class _Printer(PythonPrinter):
    """Prints functions of numbers also for symbolic arguments, for which PyTorch's own printer refuses them."""

    def _call(self, e):
        return f"{self._functions[type(e).__name__]}({', '.join(map(self._print, e.args))})"

    _functions = {"ToFloat": "float"} | {f"OpaqueUnaryFn_{f}": f"math.{f}" for f in ("sqrt", "exp", "log", "asinh")}
    _print_ToFloat = _print_OpaqueUnaryFn_sqrt = _print_OpaqueUnaryFn_exp = _print_OpaqueUnaryFn_log = _print_OpaqueUnaryFn_asinh = _call


def python(expr):
    """The Python expression of one of the tracer's sympy expressions. Its symbols become variables. Raises Unsupported."""
    try:
        text = _Printer().doprint(expr)
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    except (NotImplementedError, AssertionError, TypeError, SyntaxError):
        names = {None}
    if not names <= {*map(str, expr.free_symbols), "math", "float", "round", "abs", "max", "min"}:
        raise Unsupported(f"size {expr}: cannot be written as a Python expression")
    return text


_BINARY = {ast.Add: lambda a, b: size(a + b), ast.Sub: lambda a, b: size(a - b), ast.Mult: lambda a, b: size(a * b),
           ast.FloorDiv: lambda a, b: floor_div(a, b), ast.Mod: lambda a, b: size(torch_functions.PythonMod(a, b))}
_FUNCTIONS = {"max": torch_functions.Max, "min": torch_functions.Min}


def parse(text, names):
    """The size that the graph text writes as `text`: the inverse of text(). names: symbols by name. None if the text is no size."""
    def value(e):
        if isinstance(e, ast.Constant) and type(e.value) is int:
            return e.value
        if isinstance(e, ast.Name):
            return names[e.id]
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            return -value(e.operand)
        if isinstance(e, ast.Call):
            return size(_FUNCTIONS[e.func.id](*map(value, e.args)))
        return _BINARY[type(e.op)](value(e.left), value(e.right))

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (AttributeError, KeyError, SyntaxError, TypeError):
        return None


def floor_div(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return size(torch_functions.FloorDiv(sympy.sympify(a), sympy.sympify(b)))


class Symbolic(Sizes):
    size, text, symbols, same, floor_div = map(staticmethod, (size, text, symbols, same, floor_div))


SYMBOLIC = Symbolic()
sizes, product, is_one, same_shape, broadcast = \
    SYMBOLIC.sizes, SYMBOLIC.product, SYMBOLIC.is_one, SYMBOLIC.same_shape, SYMBOLIC.broadcast

"""Sizes as text: the sympy expression of a SymInt becomes a dim of the graph text or a Python expression.

Only `.node.expr` of a SymInt is read. int(), bool(), == or hash on it would add a guard, and every guard of ours is a
recompile for the user. Sizes inside this package are therefore ints or sympy expressions, never SymInts.
Tested by tests/torch/test_symexpr.py and test_aot_semantics.py.
"""

import sympy
import torch
from torch.utils._sympy import functions as torch_functions


class Unsupported(Exception):
    """Tenon cannot take this; the message is the sentence that stats() and explain() show."""


def size(value):
    """An int or a SymInt as an int or a sympy expression."""
    if isinstance(value, bool):
        raise Unsupported("a bool where a size is expected")
    if isinstance(value, int):
        return value
    if isinstance(value, torch.SymInt):
        value = value.node.expr
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.Expr):
        return value
    raise Unsupported(f"{type(value).__name__} where a size is expected")


def sizes(values):
    return tuple(size(v) for v in values)


def same(a, b):
    """Whether two sizes are equal for all values of their symbols, as far as algebra shows. Adds no guard."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or sympy.expand(a - b) == 0


def product(values):
    result = 1
    for v in values:
        result = result * v
    return size(result)


def symbols(value):
    return set() if isinstance(value, int) else {str(s) for s in value.free_symbols}


def is_symbol(value):
    return isinstance(value, sympy.Symbol)


def text(value):
    """The size in the graph text; Python reads the same text, with the symbols as variables."""
    return str(value) if isinstance(value, int) else _print(value, 0)


# Binding strength: 0 anything, 1 terms of a sum, 2 factors of a product.
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
            raise Unsupported(f"size {e}: not an integer expression")
        if coefficient == -1:
            s = "-" + "*".join(_print(a, 2) for a in factors)
        else:
            s = "*".join(_print(a, 2) for a in (factors if coefficient == 1 else (coefficient, *factors)))
        return f"({s})" if strength > 1 else s
    if isinstance(e, (sympy.Pow, torch_functions.PowByNatural)):
        base, exponent = e.args
        if not isinstance(exponent, sympy.Integer) or not 1 <= int(exponent) <= 8:
            raise Unsupported(f"size {e}: a power")
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
    raise Unsupported(f"size {e}: {type(e).__name__} is not a size expression of Tenon")


def dense_strides(shape):
    """Row-major strides. Size-1 axes and empty tensors are treated as ordinary."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step = size(step * extent)
    return tuple(reversed(strides))


def normal_strides(shape, strides):
    """Strides in which an axis of size 1, or any axis of an empty tensor, has its row-major stride."""
    dense = dense_strides(shape)
    if any(isinstance(n, int) and n == 0 for n in shape):
        return dense
    return tuple(d if isinstance(n, int) and n == 1 else s for n, s, d in zip(shape, strides, dense))


def is_dense(shape, strides):
    return all(same(a, b) for a, b in zip(normal_strides(shape, strides), dense_strides(shape)))


def overlaps(shape, strides):
    """Whether two elements may share memory. Symbolic strides count as safe when they are products of the sizes."""
    if any(isinstance(n, int) and n == 0 for n in shape):
        return False
    axes = [(s, n) for n, s in zip(shape, normal_strides(shape, strides)) if not (isinstance(n, int) and n <= 1)]
    if any(isinstance(s, int) and s == 0 for s, _ in axes):
        return True
    if all(isinstance(s, int) and isinstance(n, int) for s, n in axes):
        reach = 0
        for s, n in sorted(axes):
            if s <= reach:
                return True
            reach += s * (n - 1)
    return False

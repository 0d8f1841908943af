"""Rows of linear algebra: norms, distances, products, and algorithms on small matrices, each step of which runs for all matrices
of a batch at once. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import math

from ...graph_text import Unsupported
from ..lowering import sizes
from ..lowering.sizes import broadcast
from ..lowering.term import Term
from .map import norm, vector_norm
from .row import row

_MOST_SUBSTITUTED, _MOST_ELIMINATED, _MOST_SWAPPED = 8, 5, 16  # rows of a matrix up to which the steps are unrolled


def _checked(x, most, *extents):
    if x.dtype not in ("f32", "f64"):
        raise Unsupported(f"linear algebra of {x.dtype}")
    if not all(isinstance(n, int) and n <= most for n in extents):
        raise Unsupported("linear algebra of matrices that are not small")


# --- triangular systems -----------------------------------------------------------------------------------------------
def _substituted(e, a, b, upper, unit):
    """Solves a x = b by substitution. a and b have the same batch axes."""
    n, axis = a.shape[-1], b.rank - 2
    part = lambda v, i, j: e.slice(e.slice(v, v.rank - 2, i, i + 1), v.rank - 1, j, j + 1)
    found = {}
    for i in reversed(range(n)) if upper else range(n):
        total = e.slice(b, axis, i, i + 1)
        for j, x in found.items():
            total = e.map("sub", total, e.map("mul", part(a, i, j), x))
        found[i] = total if unit else e.map("div", total, part(a, i, i))
    return e.concat([found[i] for i in range(n)], axis)


def _solved(e, a, b, upper, unit):
    _checked(a, _MOST_SUBSTITUTED, a.shape[-1])
    if sizes.is_empty(a.shape) or sizes.is_empty(b.shape):
        raise Unsupported("a linear system without equations")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    return _substituted(e, e.expand(a, batch + a.shape[-2:]), e.expand(b, batch + b.shape[-2:]), upper, unit)


@row("linalg_solve_triangular")
def _(e, a, b, upper, left=True, unitriangular=False):
    b = e.cast(b, a.dtype)
    if left:
        return _solved(e, a, b, upper, unitriangular)
    turn = lambda v: e.swap(v, -1, -2)
    return turn(_solved(e, turn(a), turn(b), not upper, unitriangular))


@row("triangular_solve")
def _(e, b, a, upper=True, transpose=False, unitriangular=False):
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    matrix = e.swap(a, -1, -2) if transpose else a
    return _solved(e, matrix, b, upper != transpose, unitriangular), e.expand(a, batch + a.shape[-2:])


# --- determinants -----------------------------------------------------------------------------------------------------
def _diagonal(e, a):
    """For each matrix of the batch: (the diagonal of U in P L U = a, by elimination with the largest pivot of each column; whether
    the elimination exchanged rows an odd number of times)."""
    n, batch = a.shape[-1], a.shape[:-2]
    element = lambda i, j: e.reshape(e.slice(e.slice(a, a.rank - 2, i, i + 1), a.rank - 1, j, j + 1), batch)
    rows = [[element(i, j) for j in range(n)] for i in range(n)]
    odd = e.full(False, "bool", batch)
    for k in range(n - 1):
        best = e.map("abs", rows[k][k])
        swapped = None
        for i in range(k + 1, n):  # the pivot's row comes up to row k: a larger one takes its place
            size = e.map("abs", rows[i][k])
            larger = e.map("gt", size, best)
            best = e.map("where", larger, size, best)
            for j in range(k, n):
                up, down = rows[i][j], rows[k][j]
                rows[k][j], rows[i][j] = e.map("where", larger, up, down), e.map("where", larger, down, up)
            swapped = larger if swapped is None else e.map("logical_xor", swapped, larger)
        odd = e.map("logical_xor", odd, swapped)
        none = e.map("eq", rows[k][k], e.scalar_like(best, 0.0))
        for i in range(k + 1, n):
            share = e.map("div", rows[i][k], e.map("where", none, e.scalar_like(best, 1.0), rows[k][k]))
            for j in range(k + 1, n):
                rows[i][j] = e.map("sub", rows[i][j], e.map("mul", share, rows[k][j]))
    return [rows[k][k] for k in range(n)], odd


def _signed(e, odd, v):
    return e.map("where", odd, e.map("neg", v), v)


def _determinant_of(e, a, results):
    if any(e.used(i) for i in results):
        raise Unsupported("a determinant with its factorization")
    _checked(a, _MOST_ELIMINATED, a.shape[-1])
    if sizes.is_empty(a.shape[:-2]):
        raise Unsupported("determinants of an empty batch")
    if a.shape[-1] == 0:
        return [], e.full(False, "bool", a.shape[:-2])
    return _diagonal(e, a)


@row("_linalg_det")
def _(e, a):
    diagonal, odd = _determinant_of(e, a, (1, 2))
    product = e.full(1.0, a.dtype, a.shape[:-2])
    for v in diagonal:
        product = e.map("mul", product, v)
    return _signed(e, odd, product), None, None


@row("_linalg_slogdet")
def _(e, a):
    diagonal, odd = _determinant_of(e, a, (2, 3))
    sign, logarithm = e.full(1.0, a.dtype, a.shape[:-2]), e.full(0.0, a.dtype, a.shape[:-2])
    for v in diagonal:
        sign = e.map("mul", sign, e.map("sign", v))
        logarithm = e.map("add", logarithm, e.map("log", e.map("abs", v)))
    return _signed(e, odd, sign), logarithm, None, None


# --- factorizations ---------------------------------------------------------------------------------------------------
@row("lu_unpack")
def _(e, data, pivots, unpack_data=True, unpack_pivots=True):
    rows, columns = data.shape[-2:]
    lead = data.shape[:-2]
    lower = upper = order = None
    if unpack_data and (e.used(1) or e.used(2)):
        if sizes.is_empty(data.shape) or not isinstance(rows, int) or not isinstance(columns, int):
            raise Unsupported("lu_unpack of no elements, or of symbolic sizes")
        both = min(rows, columns)
        at = lambda shape: (e.iota(shape, axis=0), e.iota(shape, axis=1))
        zero = e.scalar_like(data, 0)
        i, j = at((rows, both))
        left = e.slice(data, data.rank - 1, 0, both)
        lower = e.map("where", e.map("gt", i, j), left, e.map("where", e.map("eq", i, j), e.scalar_like(data, 1), zero))
        i, j = at((both, columns))
        upper = e.map("where", e.map("le", i, j), e.slice(data, data.rank - 2, 0, both), zero)
    if unpack_pivots and e.used(0):
        steps = pivots.shape[-1]
        if not isinstance(rows, int) or not isinstance(steps, int) or steps > _MOST_SWAPPED or sizes.is_empty(data.shape):
            raise Unsupported("lu_unpack of many pivots")
        places, number = e.iota([rows]), (lambda n: e.full(n, "i64"))
        here = e.expand(places, lead + (rows,))
        for k in range(steps):  # exchanges row k and the row of the pivot
            pivot = e.map("sub", e.cast(e.slice(pivots, pivots.rank - 1, k, k + 1), "i64"), number(1))
            to = e.map("eq", places, e.map("index_in", pivot, number(rows)))
            there = e.reduce("sum", e.map("where", to, here, number(0)), [here.rank - 1], True)
            now = e.slice(here, here.rank - 1, k, k + 1)
            here = e.map("where", e.map("eq", places, number(k)), there, e.map("where", to, now, here))
        order = e.map("eq", e.reshape(here, lead + (1, rows)), e.reshape(places, (rows, 1)))
        order = e.cast(order, data.dtype)
    return order, lower, upper


# --- norms ------------------------------------------------------------------------------------------------------------
@row("norm.Scalar", "norm.ScalarOpt_dim")
def _(e, x, p=2, dim=None, keepdim=False):
    return vector_norm(e, x, 2 if p is None else p, dim, keepdim)


@row("norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def _(e, x, p, *dim_and_keepdim, dtype):
    return vector_norm(e, x, 2 if p is None else p, *dim_and_keepdim)


@row("renorm")
def _(e, x, p, dim, maxnorm):
    v = e.wide(x)
    axes = [i for i in range(x.rank) if i != dim % x.rank]
    n = _norm_or_0(e, v, p, axes, True)
    scaled = e.map("div", e.scalar_like(v, float(maxnorm)), e.map("add", n, e.scalar_like(v, 1e-7)))
    factor = e.map("where", e.map("gt", n, e.scalar_like(v, float(maxnorm))), scaled, e.scalar_like(v, 1.0))
    return e.cast(e.map("mul", v, factor), x.dtype)


def _norm_or_0(e, v, p, axes, keepdims):
    """The p-norm over axes. The norm of no elements is 0 for every p."""
    return norm(e, v, 1 if sizes.is_empty(v.shape[i] for i in axes) else p, axes, keepdims)


# --- distances --------------------------------------------------------------------------------------------------------
@row("_cdist_forward")
def _(e, a, b, p, compute_mode):
    rows, columns = a.shape[-2], b.shape[-2]
    if p == 2 and compute_mode != 2:
        product = True if compute_mode == 1 else _more_than_25(rows, columns)
        if product is None:
            raise Unsupported("a distance whose formula depends on a symbolic size")
        if product:
            return _euclidean(e, a, b)
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    spread = lambda v, shape: e.reshape(v, v.shape[:-2] + shape)
    difference = e.map("sub", spread(a, (rows, 1, a.shape[-1])), spread(b, (1, columns, b.shape[-1])))
    return e.expand(_norm_or_0(e, difference, p, [difference.rank - 1], False), lead + (rows, columns))


def _more_than_25(*extents):
    """Whether one of the extents is more than 25; PyTorch then multiplies matrices. None if it depends on symbols."""
    answers = [sizes.at_least(n, 26) for n in extents]
    return True if True in answers else None if None in answers else False


@row("_euclidean_dist")
def _euclidean(e, a, b):
    """|a - b| = sqrt(|a|^2 - 2ab + |b|^2), as one matrix product."""
    squares = lambda v: e.reduce("sum", e.map("square", v), [v.rank - 1], True)
    ones = lambda v: e.full(1.0, v.dtype, v.shape[:-1] + (1,))
    left = e.concat([e.map("mul", a, e.scalar_like(a, -2.0)), squares(a), ones(a)], a.rank - 1)
    right = e.concat([b, ones(b), squares(b)], b.rank - 1)
    product = e.matmul(left, e.swap(right, -1, -2))
    return e.map("sqrt", e.map("maximum", product, e.scalar_like(product, 0.0)))


@row("_pdist_forward")
def _(e, x, p=2.0):
    """Result k is the distance of rows i and j, where (i, j) is entry k of the strict upper triangle of a matrix, row by row."""
    n, count = x.shape[0], e.shape[0]
    if sizes.is_zero(count):
        return e.full(0.0, x.dtype, e.shape)
    k, number = e.iota([count]), lambda m: e.full(m, "i64")
    half = e.map("sub", e.cast(number(n), "f64"), e.full(0.5, "f64"))
    root = e.map("sub", e.map("square", half), e.map("add", e.map("mul", e.cast(k, "f64"), e.full(2.0, "f64")), e.full(1.0, "f64")))
    i = e.cast(e.map("sub", half, e.map("sqrt", root)), "i64")
    before = e.map("sub", e.map("mul", i, number(n)),
                   e.map("floor_div", e.map("mul", i, e.map("add", i, number(1))), number(2)))
    j = e.map("add", e.map("sub", k, before), e.map("add", i, number(1)))
    difference = e.map("sub", e.gather(x, i, 0, wrap=False), e.gather(x, j, 0, wrap=False))
    return _norm_or_0(e, difference, p, [1], False)


def _distance_gradient(e, grad, difference, distance, p):
    """The gradient of the p-norms `distance` of differences along the last axis. It is 0 where PyTorch's is, at distance 0 too."""
    grad, difference, distance = (Term(e, v) for v in (grad, difference, distance))
    if p == 0:
        return e.full(0.0, difference.value.dtype, difference.value.shape)
    size, sign = difference.map("abs"), difference.map("sign")
    if p == math.inf:
        return size.map("eq", distance).where(grad * sign, 0.0).value
    if p == 1:
        return (grad * sign).value
    if p == 2:
        return distance.map("eq", 0.0).where(0.0, grad * difference / distance).value
    if p < 1:
        size = size.map("eq", 0.0).where(math.inf, size)  # its power is then 0
    return distance.map("eq", 0.0).where(0.0, sign * size.map("pow", p - 1.0) * grad / distance.map("pow", p - 1.0)).value


@row("_cdist_backward")
def _(e, grad, a, b, p, distance):
    spread = lambda v, axis: e.reshape(v, v.shape[:axis % (v.rank + 1)] + (1,) + v.shape[axis % (v.rank + 1):])
    difference = e.map("sub", spread(a, -2), spread(b, -3))
    if sizes.is_empty((*difference.shape, *grad.shape)):
        return e.full(0.0, a.dtype, e.shape)
    each = _distance_gradient(e, spread(grad, -1), difference, spread(distance, -1), p)
    return e.expand(e.reduce("sum", each, [each.rank - 2]), e.shape)


@row("_pdist_backward")
def _(e, grad, x, p, distance):
    n, number = x.shape[0], lambda m: e.full(m, "i64")
    if sizes.is_empty((*x.shape, *grad.shape)):
        return e.full(0.0, x.dtype, e.shape)
    one, other = e.iota([n, n], axis=0), e.iota([n, n], axis=1)
    i, j = e.map("minimum", one, other), e.map("maximum", one, other)
    before = e.map("sub", e.map("mul", i, number(n)), e.map("floor_div", e.map("mul", i, e.map("add", i, number(1))), number(2)))
    k = e.map("add", before, e.map("sub", e.map("sub", j, i), number(1)))
    k = e.map("where", e.map("eq", i, j), number(0), k)
    pairs = lambda v: e.reshape(e.gather(v, k, 0, wrap=False), (n, n, 1))
    difference = e.map("sub", e.reshape(x, (n, 1, x.shape[1])), e.reshape(x, (1, n, x.shape[1])))
    return e.reduce("sum", _distance_gradient(e, pairs(grad), difference, pairs(distance), p), [1])


# --- products ---------------------------------------------------------------------------------------------------------
@row("linalg_cross")
def _(e, a, b, dim=-1):
    shape = broadcast(a.shape, b.shape)
    dtype = e.dtype
    a, b = (e.expand(e.cast(v, dtype), shape) for v in (a, b))
    axis = dim % len(shape)
    part = lambda v, i: e.slice(v, axis, i, i + 1)
    parts = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        parts.append(e.map("sub", e.map("mul", part(a, i), part(b, j)), e.map("mul", part(a, j), part(b, i))))
    return e.concat(parts, axis)


@row("vdot")
def _(e, a, b):
    return e.matmul(a, b)


class _Trilinear:
    """The sum of the products of three factors through a matrix product. factors: of equal rank; axes: the axes that each factor has."""

    def __init__(self, e, factors, axes, summed):
        self.e, self.factors, self.axes, self.summed, self.extent = e, factors, axes, set(summed), {}
        self.kept = [i for i in range(factors[0].rank) if i not in self.summed]
        self.broadcasts = not all(sizes.same(self.extent.setdefault(i, v.shape[i]), v.shape[i])
                                  for v, mine in zip(factors, axes) for i in mine)

    def result(self):
        """None if no two factors leave a matrix product, or if an axis is broadcast."""
        if self.broadcasts:
            return None
        orders = [order for third in range(3) for order in (self._outer_product(third), self._matrix_product(third)) if order]
        return min(orders, key=lambda order: self._elements(order[0]))[1]() if orders else None

    def _outer_product(self, third):
        """The axes of the outer product of two factors, and a function that multiplies it as a matrix by the third factor."""
        first, second = (i for i in range(3) if i != third)
        outer, last = self.axes[first] | self.axes[second], self.axes[third]
        rows, columns = ([i for i in self.kept if i in mine] for mine in (outer, last))
        if not self.summed <= outer & last or sorted(rows + columns) != self.kept:
            return None

        def make():
            product = self.e.map("mul", self.factors[first], self.factors[second])
            product = self._times(product, self.factors[third], rows, sorted(self.summed), columns)
            return self.e.reshape(product, [self.extent[i] for i in self.kept])

        return outer, make

    def _matrix_product(self, third):
        """The axes of the matrix product of two factors, and a function that sums its products with the elements of the third factor."""
        first, second = (i for i in range(3) if i != third)
        inner = self.axes[first] & self.axes[second]
        rows, columns = sorted(self.axes[first] - inner), sorted(self.axes[second] - inner)
        if not inner or not inner <= self.summed - self.axes[third]:
            return None

        def make():
            product = self._times(self.factors[first], self.factors[second], rows, sorted(inner), columns)
            product = self.e.reshape(product, [self.extent[i] if i in rows + columns else 1 for i in range(self.factors[0].rank)])
            return self.e.reduce("sum", self.e.map("mul", product, self.factors[third]), sorted(self.summed))

        return {*rows, *columns}, make

    def _elements(self, axes):
        """How many elements a tensor with the axes has, without the axes whose extents are symbols."""
        return math.prod(self.extent[i] for i in axes if isinstance(self.extent[i], int))

    def _times(self, a, b, rows, inner, columns):
        """The product of two factors as matrices, with an axis for each of `rows` and `columns`, in ascending order."""
        e, product = self.e, self.e.matmul(self._matrix(a, rows, inner), self._matrix(b, inner, columns))
        product = e.reshape(product, [self.extent[i] for i in rows + columns])
        return e.transpose(product, [(rows + columns).index(i) for i in sorted(rows + columns)])

    def _matrix(self, v, rows, columns):
        """v [.., rows, .., columns, ..], whose other axes have one element."""
        others = [i for i in range(v.rank) if i not in rows + columns]
        extents = [sizes.product([self.extent[i] for i in part]) for part in (rows, columns)]
        return self.e.reshape(self.e.transpose(v, others + rows + columns), extents)


@row("_trilinear")
def _(e, a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    def spread(v, axes):
        shape = list(v.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return e.wide(e.reshape(v, shape))

    factors = [spread(v, expand) for v, expand in ((a, expand1), (b, expand2), (c, expand3))]
    axes = [set(range(v.rank)) - set(expand) for v, expand in zip(factors, (expand1, expand2, expand3))]
    product = _Trilinear(e, factors, axes, sumdim).result() if sumdim else None
    if product is None:
        product = e.map("mul", e.map("mul", factors[0], factors[1]), factors[2])
        product = e.reduce("sum", product, sumdim) if sumdim else product
    return e.cast(product, e.dtype)

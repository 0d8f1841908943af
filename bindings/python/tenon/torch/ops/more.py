"""Rows of distances, norms over axes, products and the like. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

from ...graph_text import FLOATS, Unsupported
from ..lowering import sizes
from ..lowering.sizes import broadcast
from .map import axes_of, norm, vector_norm
from .row import row


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
    """The p-norm over axes. Of no elements it is 0, whatever p is."""
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
    """Whether one of the extents is more than 25: then PyTorch multiplies matrices. None: it depends on symbols."""
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
    """Distance k is that of rows i < j, where (i, j) is entry k of the upper triangle of a matrix, row by row."""
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


@row("_prelu_kernel")
def _(e, x, weight):
    return e.map("where", e.map("gt", x, e.scalar_like(x, 0.0)), x, e.map("mul", weight, x))


@row("vdot")
def _(e, a, b):
    return e.matmul(a, b)


@row("_trilinear")
def _(e, a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    def spread(v, axes):
        shape = list(v.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return e.wide(e.reshape(v, shape))

    product = e.map("mul", e.map("mul", spread(a, expand1), spread(b, expand2)), spread(c, expand3))
    return e.cast(e.reduce("sum", product, sumdim) if sumdim else product, e.dtype)


@row("nansum")
def _(e, x, dim=None, keepdim=False, dtype=None):
    v = e.cast(x, e.dtype)
    if x.dtype in FLOATS:
        v = e.map("where", e.map("isnan", x), e.scalar_like(v, 0), v)
    return e.reduce("sum", v, axes_of(dim), keepdim)

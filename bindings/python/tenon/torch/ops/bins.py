"""Rows that count elements in bins: histogram and histogramdd. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

from ...graph_text import Unsupported
from ..lowering import sizes
from .move import evenly_spaced
from .row import row


def _checked(x, *bins):
    if x.dtype not in ("f32", "f64") or sizes.is_empty(x.shape):
        raise Unsupported(f"a histogram of {x.dtype}, or of no elements")
    if not all(isinstance(n, int) and n > 0 for n in bins):
        raise Unsupported("a histogram whose number of bins is not constant")


def _bounds(e, x, columns, given):
    """(lowest, highest, faults) of each column, from the arguments of the call if it gives them, else from the elements. If PyTorch
    refuses the bounds, an index is out of range, which is a fault, and PyTorch raises its error."""
    if given is not None:
        if not all(isinstance(b, (int, float)) for b in given):
            raise Unsupported("a histogram with symbolic bounds")
        low, high = (e.concat([e.full(float(b), x.dtype, [1]) for b in given[i::2]], 0) for i in (0, 1))
    else:
        low, high = e.reduce("min", x, [0]), e.reduce("max", x, [0])
    fine = e.map("logical_and", e.map("isfinite", low), e.map("isfinite", high))
    fine = e.reduce("all", e.map("logical_and", fine, e.map("le", low, high)), [0])
    faults = e.map("index_in", e.cast(e.map("logical_not", fine), "i64"), e.full(1, "i64"))
    same, half = e.map("eq", low, high), e.full(0.5, x.dtype)
    low, high = (e.map("where", same, e.map(head, v, half), v) for head, v in (("sub", low), ("add", high)))
    column = lambda v, i: e.reshape(e.slice(v, 0, i, i + 1), [])
    return [(column(low, i), column(high, i)) for i in range(columns)], faults


def _edges(e, bounds, bins):
    """The edges of each column."""
    return [evenly_spaced(e, low, high, n + 1) for (low, high), n in zip(bounds, bins)]


def _between_even(e, v, edges, bounds, bins):
    """The bin of each element among even edges, by interpolation. Rounding may make it a neighbour of the right one."""
    low, high = bounds
    inside = e.map("logical_and", e.map("ge", v, low), e.map("le", v, high))
    place = e.map("div", e.map("mul", e.map("sub", v, low), e.full(float(bins), v.dtype)), e.map("sub", high, low))
    place = e.cast(e.map("where", inside, place, e.scalar_like(v, 0.0)), "i64")
    number = lambda n: e.full(n, "i64")
    place = e.map("maximum", e.map("minimum", place, number(bins - 1)), number(0))
    at = lambda offset: e.gather(edges, e.map("add", place, number(offset)), 0, wrap=False)
    above, below = e.map("ge", v, at(1)), e.map("lt", v, at(0))
    place = e.map("sub", e.map("add", place, e.cast(above, "i64")), e.cast(below, "i64"))
    return e.map("maximum", e.map("minimum", place, number(bins - 1)), number(0)), inside


def _between(e, v, edges):
    """The bin of each element among edges at any distances."""
    edge = lambda i: e.reshape(e.slice(edges, 0, i, i + 1), [])
    bins = edges.shape[0] - 1
    inside = e.map("logical_and", e.map("ge", v, edge(0)), e.map("le", v, edge(bins)))
    place = e.map("sub", e.op("search", [edges, v], "i64", v.shape, right=True), e.full(1, "i64"))
    return e.map("maximum", e.map("minimum", place, e.full(bins - 1, "i64")), e.full(0, "i64")), inside


def _counted(e, places, bins, weight, density, edges, faults, dtype):
    """places: (bin, inside) of each column."""
    flat = within = None
    for (place, inside), n in zip(places, bins):
        flat = place if flat is None else e.map("add", e.map("mul", flat, e.full(n, "i64")), place)
        within = inside if within is None else e.map("logical_and", within, inside)
    flat = e.map("where", within, flat, e.full(0, "i64"))
    if faults is not None:
        flat = e.map("add", flat, faults)
    amount = e.cast(within, dtype)
    if weight is not None:
        amount = e.map("where", within, e.reshape(weight, flat.shape), e.full(0.0, dtype))
    total = [sizes.product(bins)]
    y = e.reshape(e.op("index_put", [e.full(0, dtype, total), flat, amount], dtype, total, axis=0, mode="add", wrap=False), bins)
    if density:
        y = e.map("div", y, e.reduce("sum", y, None))
        for i, n in enumerate(bins):
            lengths = e.map("sub", e.slice(edges[i], 0, 1, n + 1), e.slice(edges[i], 0, 0, n))
            y = e.map("div", y, e.reshape(lengths, (n,) + (1,) * (len(bins) - 1 - i)))
    return y


def _even(e, x, bins, given):
    """(columns of x, edges of each, places of each, faults)"""
    bounds, faults = _bounds(e, x, len(bins), given)
    columns = [e.reshape(e.slice(x, 1, i, i + 1), x.shape[:1]) for i in range(len(bins))]
    edges = _edges(e, bounds, bins)
    return edges, [_between_even(e, *part) for part in zip(columns, edges, bounds, bins)], faults


def _rows(e, x, columns):
    return e.reshape(x, [sizes.product(x.shape[:-1]) if columns else sizes.product(x.shape), columns or 1])


@row("histogram.bin_ct")
def _(e, x, bins=100, range=None, weight=None, density=False):
    _checked(x, bins)
    edges, places, faults = _even(e, _rows(e, x, 0), [bins], range)
    return _counted(e, places, [bins], weight, density, edges, faults, x.dtype), edges[0]


@row("histogram.bins_tensor")
def _(e, x, bins, weight=None, density=False):
    _checked(x, bins.shape[0] - 1 if isinstance(bins.shape[0], int) else None)
    number = bins.shape[0] - 1
    v = e.reshape(x, [sizes.product(x.shape)])
    return _counted(e, [_between(e, v, bins)], [number], weight, density, [bins], None, x.dtype), bins


@row("_histogramdd_bin_edges")
def _(e, x, bins, range=None, weight=None, density=False):
    _checked(x, *bins)
    bounds, faults = _bounds(e, _rows(e, x, len(bins)), len(bins), range)
    fine = e.map("eq", faults, e.full(0, "i64"))  # reads the check, so that it is computed
    return tuple(e.map("where", fine, edges, e.scalar_like(edges, 0.0)) for edges in _edges(e, bounds, bins))


@row("_histogramdd_from_bin_cts")
def _(e, x, bins, range=None, weight=None, density=False):
    _checked(x, *bins)
    edges, places, faults = _even(e, _rows(e, x, len(bins)), list(bins), range)
    return _counted(e, places, list(bins), weight, density, edges, faults, x.dtype)

"""Rows that sample images between their pixels: grid_sampler in two and three dimensions. How rows are written: row.py.

Tested by tests/torch/test_lower.py.
"""

import itertools

from ...graph_text import HALVES, Unsupported
from ..lowering import sizes
from .row import row

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_FEW = 8192  # up to so many elements, Tenon is done before a call of PyTorch has begun
_CHANNELS = {_BILINEAR: 8, _NEAREST: 32, _BICUBIC: 1}  # with so many channels, finding a pixel takes little time beside reading it
_CUBIC = -0.75  # the free coefficient of the cubic convolution


class _Axis:
    """One axis of the image, and the grid's coordinates along this axis, in pixels."""

    def __init__(self, e, coordinate, extent, padding, corners, flat):
        self.e, self.extent, self.padding, self.corners, self.flat = e, extent, padding, corners, flat
        size = e.full(extent, coordinate.dtype)
        self.last = e.full(sizes.size(extent - 1), coordinate.dtype)
        half = e.map("mul", self.last if corners else size, self.number(coordinate, 0.5))
        place = e.map("mul", e.map("add", coordinate, self.number(coordinate, 1)), half)
        self.place = place if corners else e.map("sub", place, self.number(coordinate, 0.5))

    def number(self, v, x):
        return self.e.scalar_like(v, float(x))

    def clipped(self, v):
        """v, clipped to the first and the last pixel, with one machine instruction per bound. As in PyTorch, NaN becomes the first
        pixel in two dimensions, else the last."""
        e, first = self.e, self.number(v, 0)
        v = e.map("where", e.map("gt", v, first), v, first) if self.flat else e.map("where", e.map("lt", v, first), first, v)
        return e.map("where", e.map("lt", v, self.last), v, self.last)

    def padded(self, v):
        """The coordinate inside the image at which the padding mode reads. With padding by zeros, v itself."""
        e = self.e
        if self.padding == _ZEROS:
            return v
        if self.padding == _REFLECTION:
            v = self.reflected(v)
        return self.clipped(v)

    def reflected(self, v):
        e = self.e
        if self.corners and not (isinstance(self.extent, int) and self.extent > 1):
            if not sizes.is_one(self.extent):
                raise Unsupported("reflection with align_corners along an axis of symbolic size")
            return e.map("mul", v, self.number(v, 0))
        low = self.number(v, 0 if self.corners else -0.5)
        span = self.last if self.corners else e.full(self.extent, v.dtype)
        away = e.map("abs", e.map("sub", v, low))
        turns = e.map("floor", e.map("div", away, span))
        rest = e.map("sub", away, e.map("mul", turns, span)) if self.flat else e.map("fmod", away, span)  # as PyTorch each
        half = e.map("mul", turns, self.number(v, 0.5))
        odd = e.map("ne", half, e.map("floor", half))
        return e.map("add", e.map("where", odd, e.map("sub", span, rest), rest), low)

    def inside(self, v):
        e = self.e
        return e.map("logical_and", e.map("ge", v, self.number(v, 0)), e.map("le", v, self.last))


class _Sampler:
    """The image with its pixels along one axis, and the axes of the grid in reverse order: the last axis of the image is the grid's
    first coordinate."""

    def __init__(self, e, x, grid, padding, corners):
        if x.dtype in HALVES:
            raise Unsupported("grid_sampler of 16-bit floats")
        if sizes.is_empty(x.shape) or sizes.is_empty(grid.shape):
            raise Unsupported("grid_sampler of no elements")
        self.e, self.extents = e, x.shape[2:]
        self.pixels = sizes.product(self.extents)
        self.x = e.reshape(x, x.shape[:2] + (self.pixels,))
        self.points = sizes.product(grid.shape[1:-1])
        self.integer = "i32" if isinstance(self.pixels, int) and self.pixels < 2**31 else "i64"
        axes = len(self.extents)
        grid = e.reshape(grid, (x.shape[0], 1, self.points, axes))
        part = lambda i: e.reshape(e.slice(grid, 3, i, i + 1), (x.shape[0], 1, self.points))
        self.axes = [_Axis(e, part(axes - 1 - i), n, padding, corners, axes == 2) for i, n in enumerate(self.extents)]

    def tap(self, places):
        """For each axis (integer coordinate, clipped to the image; whether the coordinate was inside). places: whole coordinates, one
        per axis."""
        e, taps = self.e, []
        for axis, v in zip(self.axes, places):
            near = axis.clipped(v)
            taps.append((e.cast(near, self.integer), e.map("eq", v, near)))
        return taps

    def at(self, taps, weight=None):
        """The pixels at these coordinates, times weight; 0 outside the image."""
        e = self.e
        inside = flat = None
        for axis, (place, within) in zip(self.axes, taps):
            inside = within if inside is None else e.map("logical_and", inside, within)
            flat = place if flat is None else e.map("add", e.map("mul", flat, e.full(axis.extent, self.integer)), place)
        # NaN may become any integer, so the place is clipped. With known bounds the compiler also omits the check of the index.
        flat = e.map("minimum", e.map("maximum", flat, e.scalar_like(flat, 0)), e.full(sizes.size(self.pixels - 1), self.integer))
        shape = self.x.shape[:2] + (self.points,)
        y = e.op("take_along", [self.x, e.expand(flat, shape)], self.x.dtype, shape, axis=2, wrap=False)
        none = e.scalar_like(y, 0.0)
        if weight is None:
            return e.map("where", inside, y, none)
        if len(taps) > 2:  # PyTorch skips pixels outside, so a NaN weight counts as 0 there
            return e.map("where", inside, e.map("mul", y, weight), none)
        return e.map("mul", e.map("where", inside, y, none), weight)

    def nearest(self):
        return self.at(self.tap([self.e.map("round", axis.padded(axis.place)) for axis in self.axes]))

    def linear(self):
        """Linear interpolation: the sum over the cell's corners, each times the volume between the point and the opposite corner."""
        e, total = self.e, None
        places = [axis.padded(axis.place) for axis in self.axes]
        low = [e.map("floor", v) for v in places]
        high = [e.map("add", v, axis.number(v, 1)) for axis, v in zip(self.axes, low)]
        taps = list(zip(self.tap(low), self.tap(high)))
        for corner in itertools.product((0, 1), repeat=len(places)):
            weight = None
            for v, a, b, up in zip(places, low, high, corner):
                share = e.map("sub", v, a) if up else e.map("sub", b, v)
                weight = share if weight is None else e.map("mul", weight, share)
            y = self.at([pair[up] for pair, up in zip(taps, corner)], weight)
            total = y if total is None else e.map("add", total, y)
        return total

    def cubic(self):
        e = self.e
        low = [e.map("floor", axis.place) for axis in self.axes]
        shares = [self.cubic_shares(e.map("sub", axis.place, a)) for axis, a in zip(self.axes, low)]
        rows = [self.tap([axis.padded(e.map("add", a, axis.number(a, k - 1))) for axis, a in zip(self.axes, low)]) for k in range(4)]
        blend = lambda values, share: self.sum([e.map("mul", v, s) for v, s in zip(values, share)])
        return blend([blend([self.at([y, x]) for _, x in rows], shares[1]) for y, _ in rows], shares[0])

    def sum(self, values):
        total = values[0]
        for v in values[1:]:
            total = self.e.map("add", total, v)
        return total

    def cubic_shares(self, t):
        """The weights of the four pixels around a point. t: the distance of the point from the second pixel."""
        e, number = self.e, lambda x: self.e.scalar_like(t, float(x))

        def near(s):
            y = e.map("fma", number(_CUBIC + 2), s, number(-(_CUBIC + 3)))
            return e.map("fma", e.map("mul", y, s), s, number(1))

        def far(s):
            y = e.map("fma", number(_CUBIC), s, number(-5 * _CUBIC))
            return e.map("fma", e.map("fma", y, s, number(8 * _CUBIC)), s, number(-4 * _CUBIC))

        back = e.map("sub", number(1), t)
        return [far(e.map("add", t, number(1))), near(t), near(back), far(e.map("add", back, number(1)))]


@row("grid_sampler_2d", "grid_sampler_3d")
def _(e, x, grid, interpolation_mode, padding_mode, align_corners):
    few = sizes.at_least(sizes.product(e.shape), _FEW + 1) is False
    if x.rank == 4 and not few and sizes.at_least(x.shape[1], _CHANNELS[interpolation_mode]) is not True:
        raise Unsupported("grid_sampler_2d of few channels, which PyTorch computes faster")
    sampler = _Sampler(e, x, grid, padding_mode, align_corners)
    form = {_BILINEAR: sampler.linear, _NEAREST: sampler.nearest, _BICUBIC: sampler.cubic}[interpolation_mode]
    return e.reshape(form(), e.shape)

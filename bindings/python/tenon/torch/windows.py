"""Saves the places of max pooling as bytes.

The backward pass of max pooling reads an i64 per window: the place of the largest element in the plane. plant_offsets() computes this place
from the offset of the element in its window. The offset fits in a byte, so PyTorch's min-cut saves the offsets.
Tested by tests/torch/test_recompute.py.
"""

import math
import operator
from typing import NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .lowering.maker import Maker
from .size_nodes import size_nodes

aten = torch.ops.aten
RANKS = {aten.max_pool2d_with_indices.default: 2, aten.max_pool3d_with_indices.default: 3}
GRADIENTS = (aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
MOST = 256  # elements of a window whose offsets are bytes


class _Axis(NamedTuple):
    """Windows along one axis. extent: of the plane; start: a node, the first position of each window."""
    extent: object
    start: torch.fx.Node
    kernel: int
    dilation: int


def plant_offsets(joint):
    """Rewrites the max poolings of a joint graph, except those with sizes that depend on values."""
    for n in list(joint.graph.nodes):
        if n.target not in GRADIENTS:
            continue
        _, x, kernel, stride, padding, dilation, _, places = n.args
        rank = RANKS.get(places.args[0].target) if places.target is operator.getitem else None
        if rank is None or free_unbacked_symbols((x.meta["val"], places.meta["val"])):
            continue
        kernel, *rest = (list(values) * (rank // len(values)) for values in (kernel, stride or kernel, padding, dilation))
        if math.prod(kernel) > MOST:
            continue
        plane = x.meta["val"].shape[-rank:]
        small = all(isinstance(n, int) for n in plane) and math.prod(plane) < 2**31
        make = _Maker(joint.graph, places.meta["val"].fake_mode, torch.int32 if small else torch.int64)
        with joint.graph.inserting_before(places.next):
            extents = size_nodes(joint.graph, (*plane, *places.meta["val"].shape[-rank:]))
            if extents is None:
                continue
            axes = _axes(make, places, extents[:rank], extents[rank:], kernel, *rest)
            offsets = _offsets(make, places, axes)
        with joint.graph.inserting_before(n):
            n.update_arg(7, _places(make, offsets, axes))


class _Maker(Maker):
    """dtype: holds each place of a plane."""

    def __init__(self, graph, fake_mode, dtype):
        super().__init__(graph, fake_mode)
        self.dtype = dtype

    def divide(self, a, number):
        return a if number == 1 else self(aten.div.Scalar_mode, a, number, rounding_mode="floor")


def _axes(make, places, extents, counts, kernel, stride, padding, dilation):
    rank, found = len(kernel), []
    for axis, (extent, count, k, s, p, d) in enumerate(zip(extents, counts, kernel, stride, padding, dilation)):
        window = make(aten.arange.default, count, dtype=make.dtype, device=places.meta["val"].device)
        start = make(aten.sub.Tensor, make(aten.mul.Tensor, window, s), p)
        found.append(_Axis(extent, make(aten.view.default, start, [count, *[1] * (rank - axis - 1)]), k, d))
    return found


def _offsets(make, places, axes):
    rest, result, unit = make(aten._to_copy.default, places, dtype=make.dtype), None, 1
    for number, axis in reversed(list(enumerate(axes))):
        position = make(aten.remainder.Scalar, rest, axis.extent) if number else rest
        rest = make.divide(rest, axis.extent) if number else None
        here = make.divide(make(aten.sub.Tensor, position, axis.start), axis.dilation)
        result = here if result is None else make(aten.add.Tensor, result, make(aten.mul.Tensor, here, unit))
        unit *= axis.kernel
    return make(aten._to_copy.default, result, dtype=torch.uint8)


def _places(make, offsets, axes):
    rest, positions = make(aten._to_copy.default, offsets, dtype=make.dtype), []
    for number, axis in reversed(list(enumerate(axes))):
        here = rest
        if number:  # rest is less than 2**8, and the kernel is at most 2**8: this is rest // kernel
            rest = make(aten.__rshift__.Scalar, make(aten.mul.Tensor, here, 2**16 // axis.kernel + 1), 16)
            here = make(aten.sub.Tensor, here, make(aten.mul.Tensor, rest, axis.kernel))
        positions.append((axis.extent, make(aten.add.Tensor, axis.start, make(aten.mul.Tensor, here, axis.dilation))))
    _, result = positions.pop()  # of the outermost axis
    for extent, position in reversed(positions):
        result = make(aten.add.Tensor, make(aten.mul.Tensor, result, extent), position)
    return make(aten._to_copy.default, result, dtype=torch.int64)

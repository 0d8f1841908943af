"""Strides of tensors with symbolic sizes: row-major ones, and whether elements of a tensor share memory.

Tested by tests/torch/test_size_text.py.
"""

import functools
import itertools

from .sizes import is_empty, is_zero, same, size


def dense_strides(shape):
    """The row-major strides of a shape."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step = size(step * extent)
    return tuple(reversed(strides))


def normal_strides(shape, strides):
    """The strides, with the row-major stride in place of one that has no effect: for an axis of size 1, and for every axis of an
    empty tensor."""
    return _strides(shape, strides)[0]


def is_dense(shape, strides):
    return _strides(shape, strides)[1]


def _strides(shape, strides):
    """(normal_strides, is_dense)"""
    shape, strides = tuple(shape), tuple(strides)
    return (_static_strides if all([type(n) is int for n in shape + strides]) else _computed_strides)(shape, strides)


def _computed_strides(shape, strides):
    dense = dense_strides(shape)
    if is_empty(shape):
        return dense, True
    normal = tuple(d if isinstance(n, int) and n == 1 else s for n, s, d in zip(shape, strides, dense))
    return normal, all(same(a, b) for a, b in zip(normal, dense))


_static_strides = functools.lru_cache(4096)(_computed_strides)


def overlaps(shape, strides):
    """Whether two elements share memory, if each symbolic size is at least 2 unless the tracer knows that it is 1. With symbolic strides, only
    a stride of 0 and two equal strides are detected."""
    if is_empty(shape) or is_dense(shape, strides):
        return False
    axes = [(s, n) for n, s in zip(shape, normal_strides(shape, strides)) if not (isinstance(n, int) and n <= 1)]
    if any(is_zero(s) for s, _ in axes):
        return True
    reach = 0  # of the axes so far, at least
    for s, n in sorted(((s, n if isinstance(n, int) else 2) for s, n in axes if isinstance(s, int))):
        if s <= reach:
            return True
        reach += s * (n - 1)
    symbolic = [axis for axis in axes if not isinstance(axis[0], int)]
    return any(same(s, t) and not same(m, 1) and not same(n, 1) for (s, m), (t, n) in itertools.combinations(symbolic, 2))

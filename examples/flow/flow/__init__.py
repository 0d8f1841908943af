"""flow: symbolic tensors in the style of TinyFlow, on Tenon's C ABI, with NumPy only.

    import flow as tf
    x, w = tf.placeholder(shape=(None, 4)), tf.Variable(tf.zeros((4, 1)))
    loss = tf.reduce_mean((x @ w - 1) ** 2)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = tf.Session()
    session.run(tf.initialize_all_variables())
    session.run([loss, step], {x: data})
"""

import numpy

from . import nn, train
from .core import (Action, Placeholder, Session, Tensor, Variable, assign, constant, gradients, group, infer_variable_shapes,
                   initialize_all_variables, op, placeholder, variables_of)
from .library import FlowError, Word

_random = numpy.random.default_rng(0)


def seed(number):
    """Sets the random numbers of normal() and of the first values of layers' variables."""
    global _random
    _random = nn._random = numpy.random.default_rng(number)


def zeros(shape): return constant(numpy.zeros(shape, "float32"))
def ones(shape): return constant(numpy.ones(shape, "float32"))
def normal(shape, stdev=1.0): return constant((_random.standard_normal(shape) * stdev).astype("float32"))
def zeros_like(x): return Tensor(lambda build, v: build.graph.node("mul", [v, build.graph.number(0, v)]), [x])
def ones_like(x): return zeros_like(x) + 1


def exp(x): return op("exp", x)
def log(x): return op("log", x)
def sqrt(x): return op("sqrt", x)
def pow(x, y): return op("pow", x, y)
def matmul(x, y): return op("matmul", x, y)
def transpose(x, perm): return op("transpose", x, perm=list(perm))
def stop_gradient(x): return op("stop_gradient", x)


def cast(x, dtype):
    return op("cast", x, dtype=Word(dtype))


def equal(x, y):
    """1 where the elements are equal, else 0."""
    return cast(op("eq", x, y), "f32")


def argmax(x, axis):
    """The index of the first largest element along the axis, as f32."""
    return cast(op("argmax", x, axis=axis), "f32")


def _axes(axes):
    return [] if axes is None else [axes] if isinstance(axes, int) else list(axes)


def reduce_sum(x, axes=None, keepdims=False): return op("sum", x, axes=_axes(axes), keepdims=keepdims)
def reduce_mean(x, axes=None, keepdims=False): return op("mean", x, axes=_axes(axes), keepdims=keepdims)
def reduce_max(x, axes=None, keepdims=False): return op("max", x, axes=_axes(axes), keepdims=keepdims)

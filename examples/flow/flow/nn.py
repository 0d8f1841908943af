"""Layers of networks. A layer whose weight is not given makes a Variable; the data's shape decides the weight's."""

import numpy

from .core import Tensor, Variable, op
from .library import Word

_random = numpy.random.default_rng(0)


def relu(x): return op("relu", x)
def tanh(x): return op("tanh", x)
def sigmoid(x): return op("sigmoid", x)
def softmax(x, axis=-1): return op("softmax", x, axis=axis)


def _scaled(sizes):
    """Uniform numbers whose variance is 1 over the number of inputs of a unit (Glorot and Bengio, 2010)."""
    bound = (3 / max(1, numpy.prod(sizes[1:]))) ** 0.5
    return _random.uniform(-bound, bound, sizes)


def _weight(given, name, first=_scaled):
    return given if given is not None else Variable(name=name, first=first)


def _layer(lower, data, *variables):
    """A tensor that reads variables whose shapes it decides."""
    t = Tensor(lambda build, x: lower(build, x), [data])
    t.variables = [v for v in variables if v is not None]
    return t


def _read(build, tensor, sizes):
    return tensor.lower_with(build, sizes) if isinstance(tensor, Variable) and tensor.init is None else build.value(tensor)


def linear(data, num_hidden=None, weight=None, bias=None, no_bias=False, name="linear"):
    """data [N,K] times the weight [num_hidden,K] transposed, plus a bias [num_hidden]."""
    w = _weight(weight, f"{name}_weight")
    b = None if no_bias else _weight(bias, f"{name}_bias", numpy.zeros)

    def lower(build, x):
        units = str(num_hidden)
        operands = [x, _read(build, w, [units, build.sizes(x)[-1]])]
        if b is not None:
            operands.append(_read(build, b, [units]))
        return build.graph.node("linear", operands)

    return _layer(lower, data, w, b)


def conv2d(data, num_filter=None, weight=None, bias=None, ksize=(3, 3), strides=(1, 1), padding="VALID", no_bias=True, name="conv"):
    """Cross-correlation of data [N,C,H,W] with the weight [num_filter,C,KH,KW]. padding SAME: for strides of 1 and odd kernels the
    result has the size of the data."""
    w = _weight(weight, f"{name}_weight")
    b = None if no_bias else _weight(bias, f"{name}_bias", numpy.zeros)

    def lower(build, x):
        sizes = [str(num_filter), build.sizes(x)[1], *map(str, ksize)]
        operands = [x, _read(build, w, sizes)]
        if b is not None:
            operands.append(_read(build, b, sizes[:1]))
        kernel = [int(n) for n in build.sizes(operands[1])[2:]]
        pad = [(k - 1) // 2 for k in kernel] if padding == "SAME" else [0, 0]
        return build.graph.node("convolution", operands, strides=list(strides), padding=pad,
                                padding_high=[k // 2 for k in kernel] if padding == "SAME" else [0, 0], dilations=[1, 1])

    return _layer(lower, data, w, b)


def _pool(head, data, ksize, strides, **attrs):
    return op(head, data, kernel=list(ksize), strides=list(strides or ksize), padding=[0, 0], padding_high=[0, 0], **attrs)


def max_pool(data, ksize=(2, 2), strides=None): return _pool("max_pool", data, ksize, strides)
def avg_pool(data, ksize=(2, 2), strides=None): return _pool("avg_pool", data, ksize, strides)


def flatten_layer(data):
    """[N,...] as [N,K]."""
    def lower(build, x):
        sizes = build.sizes(x)
        return build.graph.node("reshape", [x], shape=[Word(sizes[0]), Word("*".join(f"({n})" for n in sizes[1:]) or "1")])

    return Tensor(lower, [data])


def batch_normalization(data, gamma=None, beta=None, momentum=0.9, eps=1e-5, name="bn"):
    """Normalizes each channel, axis 1. A call that assigns variables (training) uses the mean and variance of the batch and moves
    the running ones towards them; any other call uses the running ones."""
    g, b = _weight(gamma, f"{name}_gamma", numpy.ones), _weight(beta, f"{name}_beta", numpy.zeros)
    running = [Variable(name=f"{name}_{what}", trainable=False, first=first)
               for what, first in (("mean", numpy.zeros), ("var", numpy.ones))]

    def lower(build, x):
        graph, sizes = build.graph, build.sizes(x)
        channels = [sizes[1]]
        scale, shift = (_read(build, v, channels) for v in (g, b))
        kept = [v.lower_with(build, channels) for v in running]
        if not build.training:
            return graph.node("batch_norm", [x, *kept, scale, shift], eps=float(eps))
        axes = [i for i in range(len(sizes)) if i != 1]
        mean, var = graph.node("mean", [x], axes=axes), graph.node("var", [x], axes=axes, correction=0.0)
        for v, old, new in zip(running, kept, (mean, var)):
            moved = graph.node("mul", [graph.node("sub", [new, old]), graph.number(1 - momentum, old)])
            build.assign(v, graph.node("add", [old, moved]))
        return graph.node("batch_norm", [x, mean, var, scale, shift], eps=float(eps))

    return _layer(lower, data, g, b, *running)


def mean_sparse_softmax_cross_entropy_with_logits(logits, labels):
    """The mean over the rows of -log softmax(logits)[label]. labels: integers [N], of any dtype."""
    def lower(build, x, y):
        graph = build.graph
        logs = graph.node("log_softmax", [x], axis=1)
        index = graph.node("reshape", [graph.node("cast", [y], dtype=Word("i64"))], shape=[Word(build.sizes(y)[0]), 1])
        picked = graph.node("take_along", [logs, index], axis=1)
        return graph.node("neg", [graph.node("mean", [picked], axes=[])])

    return Tensor(lower, [logits, labels])

"""What the tests of the MXNet plugin share."""

import json

import mxnet as mx
import numpy as np

SUBGRAPH = "_tenon_subgraph"


def ops(symbol):
    """The operators of a symbol, in order, without those inside of subgraphs."""
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]


def parts(symbol):
    return ops(symbol).count(SUBGRAPH)


def close(got, want, rtol=1e-4):
    """Compares lists of arrays: the error relative to the largest element of an array."""
    assert len(got) == len(want)
    for g, w in zip(got, want):
        g, w = g.asnumpy(), w.asnumpy()
        assert g.shape == w.shape and g.dtype == w.dtype
        scale = float(np.abs(w.astype("float64")).max(initial=0)) or 1.0
        np.testing.assert_allclose(g.astype("float64") / scale, w.astype("float64") / scale, rtol=0, atol=rtol)


def arrays(symbol, shape=(4, 5), seed=0, **shapes):
    """(args, aux) with random values: each argument of a size that `shapes` gives, or infers from `shape`."""
    rng = np.random.RandomState(seed)
    known = shapes or {name: shape for name in symbol.list_arguments()}
    arg_shapes, _, aux_shapes = symbol.infer_shape(**known)
    args = {name: mx.nd.array(rng.uniform(0.1, 1, size)) for name, size in zip(symbol.list_arguments(), arg_shapes)}
    aux = {name: mx.nd.array(rng.uniform(0.5, 1, size)) for name, size in zip(symbol.list_auxiliary_states(), aux_shapes)}
    return args, aux


def forward(symbol, args, aux=None):
    return symbol.bind(mx.cpu(), dict(args), aux_states=dict(aux or {}), grad_req="null").forward()


def outputs(net, *inputs):
    """The arrays that a block returns, in a flat list."""
    result = net(*inputs)
    return list(result) if isinstance(result, (list, tuple)) else [result]

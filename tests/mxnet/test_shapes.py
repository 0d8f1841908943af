"""Sizes that change from call to call."""

import mxnet as mx
import pytest
from check import SUBGRAPH, close, outputs

import models

# Counts the kernels that the compiler is asked for, with a cache of kernels of its own. The log of plans goes to the output.
MANY = """
import os
os.dup2(1, 2)
import mxnet as mx, numpy as np, tenon.mxnet, models
from check import close, outputs
from tenon import _abi
tenon.mxnet.load()
net, _ = models.build({name!r}, **{sizes!r})
reference, _ = models.build({name!r}, **{sizes!r})
net.hybridize(backend="tenon", static_alloc={static}, static_shape={static})
compiled = []
_abi.library()
for number, shape in enumerate({shapes!r}):
    x = mx.nd.random.normal(shape=shape)
    for _ in range(2):
        got = outputs(net, x)
    close(got, outputs(reference, x))
    compiled.append(_abi.cache_stats()["misses"])
assert compiled[4] >= {least}, compiled
assert compiled[-1] == compiled[4], compiled
"""


# The first five of 40 batch sizes: a constant, 1, and three more, after which nothing is compiled.
BATCHES = [32, 1, 7, 2, 3, *(n for n in range(4, 41) if n not in (7, 32))]


def many(process, tmp_path, name, sizes, shapes, static=False, least=1):
    output = process(MANY.format(name=name, sizes=sizes, shapes=shapes, static=static, least=least), TENON_CACHE="on",
                     TENON_CACHE_DIR=str(tmp_path / "kernels"), TENON_LOG="plan")
    assert len(shapes) == 40
    assert output.count("tenon plan: miss,") == 40, output  # a plan per shape


def test_forty_batch_sizes(process, tmp_path):
    many(process, tmp_path, "mlp", {}, [(batch, 128) for batch in BATCHES], least=0)  # all of it is oneDNN's


def test_forty_batch_sizes_of_bert(process, tmp_path):
    sizes = {"units": 64, "heads": 4, "length": 16}
    many(process, tmp_path, "bert_layer", sizes, [(length, 2, 64) for length in BATCHES])


def test_forty_image_sizes(process, tmp_path):
    many(process, tmp_path, "resnet18_v1", {"size": 64}, [(2, 3, size, size) for size in range(64, 64 + 40 * 3, 3)])


def test_an_executor_is_reshaped():
    x = mx.sym.var("data")
    symbol = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=8, name="fc"), act_type="tanh")
    cut = symbol.optimize_for("tenon")
    assert SUBGRAPH in cut.tojson()
    weights = {"fc_weight": mx.nd.random.normal(shape=(8, 5)), "fc_bias": mx.nd.random.normal(shape=8)}
    for batch in (3, 1, 6, 2):
        args = {"data": mx.nd.random.normal(shape=(batch, 5)), **weights}
        close(cut.bind(mx.cpu(), args, grad_req="null").forward(), symbol.bind(mx.cpu(), args, grad_req="null").forward())


def test_a_size_of_one_broadcasts():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    symbol = mx.sym.broadcast_mul(mx.sym.broadcast_add(a, b), b)
    op = mx.nd.CachedOp(symbol.optimize_for("tenon"), [("static_alloc", False)])
    plain = mx.nd.CachedOp(symbol, [])
    for left, right in (((4, 5), (4, 5)), ((1, 5), (4, 5)), ((4, 5), (1, 5)), ((3, 5), (3, 1)), ((6, 5), (1, 1)), ((2, 5), (2, 5))):
        x, y = mx.nd.random.normal(shape=left), mx.nd.random.normal(shape=right)
        close([op(x, y)], [plain(x, y)], 1e-6)


def test_an_index_out_of_range_is_an_error_or_clipped_as_in_mxnet():
    x, w = mx.sym.var("x"), mx.sym.var("w")
    symbol = mx.sym.Embedding(x, w, input_dim=4, output_dim=3)
    args = {"x": mx.nd.array([0, 3, 2]), "w": mx.nd.random.normal(shape=(4, 3))}
    cut = symbol.optimize_for("tenon")
    close(cut.bind(mx.cpu(), args, grad_req="null").forward(), symbol.bind(mx.cpu(), args, grad_req="null").forward(), 0)


@pytest.mark.parametrize("freeze", [False, True, "auto"])
@pytest.mark.parametrize("static", [False, True])
def test_weights_may_change_between_calls(static, freeze):
    net, (x,) = models.build("mlp")
    net.hybridize(backend="tenon", static_alloc=static, static_shape=static, freeze=freeze)
    for _ in range(4):
        outputs(net, x)
    for change in (lambda p: p.set_data(p.data() * 0.5), lambda p: p.data().__iadd__(0.01),
                   lambda p: p.initialize(mx.init.Normal(0.1), force_reinit=True)):
        for param in net.collect_params().values():
            change(param)
        got = [each.copy() for each in outputs(net, x)]
        net.hybridize(False)
        want = outputs(net, x)
        net.hybridize(backend="tenon", static_alloc=static, static_shape=static, freeze=freeze, clear=False)
        close(got, want)


def test_shared_weights_may_change_while_mxnet_keeps_them_in_its_own_layout():
    def build(**options):
        net = mx.gluon.nn.HybridSequential(prefix="shared_", **options)
        with net.name_scope():
            net.add(mx.gluon.nn.Conv2D(64, 3, in_channels=64))
        return net

    plain = build()
    plain.initialize(mx.init.Normal(0.1))
    net = build(params=plain.collect_params())
    net.hybridize(backend="tenon")
    x = mx.nd.random.normal(shape=(4, 64, 6, 6))
    for value in [i % 3 / 10 for i in range(24)]:
        plain[0].weight.data()[37] = value  # between the elements that identify a large parameter
        want = outputs(plain, x)  # reorders the weights
        for _ in range(4):
            close(outputs(net, x), want)

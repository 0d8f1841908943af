"""Training: MXNet does not tell plugins whether a call trains, so graphs are right or refused with a sentence."""

import mxnet as mx
import numpy as np
import pytest
from check import SUBGRAPH, close, ops, outputs
from mxnet import autograd
from mxnet.gluon import nn

STATIC = [{}, {"static_alloc": True, "static_shape": True}]


def net_with(*layers):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=4), *layers, nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    return net, mx.nd.random.normal(shape=(5, 4))


@pytest.mark.parametrize("flags", STATIC, ids=str)
@pytest.mark.parametrize("layer", [lambda: nn.BatchNorm(in_channels=8), lambda: nn.Dropout(0.5)], ids=["BatchNorm", "Dropout"])
def test_a_training_call_of_an_inference_graph_is_refused(layer, flags):
    net, x = net_with(layer())
    want = outputs(net, x)
    net.hybridize(backend="tenon", **flags)
    close(outputs(net, x), want)
    with pytest.raises(mx.base.MXNetError, match="partitioned for inference and is called for training: (BatchNorm|Dropout)"):
        with autograd.record():
            outputs(net, x)[0].wait_to_read()
    with pytest.raises(mx.base.MXNetError, match="partitioned for inference"):
        with autograd.train_mode():
            outputs(net, x)[0].wait_to_read()
    close(outputs(net, x), want)  # and inference goes on


@pytest.mark.parametrize("flags", STATIC, ids=str)
def test_a_gradient_is_refused(flags):
    net, x = net_with()
    net.hybridize(backend="tenon", **flags)
    with autograd.record():
        loss = outputs(net, x)[0].sum()
    with pytest.raises(mx.base.MXNetError, match="has no gradient"):
        loss.backward()
        mx.nd.waitall()


def test_training_mode_leaves_batch_normalization_and_dropout_to_mxnet():
    net, x = net_with(nn.BatchNorm(in_channels=8), nn.Dropout(0.5))
    net.hybridize(backend="tenon", mode="training")
    want = outputs(net, x)
    kept = ops(net._cached_graph[1])
    assert "BatchNorm" in kept and "Dropout" in kept and SUBGRAPH in kept
    with autograd.train_mode():
        dropped = outputs(net, x)[0].asnumpy()
    assert not np.allclose(dropped, want[0].asnumpy())
    net.hybridize(False)


def test_fixed_statistics_are_no_training():
    net, x = net_with(nn.BatchNorm(in_channels=8, use_global_stats=True))
    want = outputs(net, x)
    net.hybridize(backend="tenon", mode="training")
    close(outputs(net, x), want)
    assert "BatchNorm" not in ops(net._cached_graph[1])


@pytest.mark.parametrize("op", ["BatchNorm", "Dropout"])
def test_an_executor_that_trains_is_refused(op):
    symbol = getattr(mx.sym, op)(mx.sym.exp(mx.sym.var("data")), name="layer")
    shapes = {"data": (4, 3)}
    for mode in ("inference", "training"):
        executor = symbol.optimize_for("tenon", mode=mode).simple_bind(mx.cpu(), grad_req="null", **shapes)
        executor.forward(is_train=False)[0].wait_to_read()
        if mode == "training":
            executor.forward(is_train=True)[0].wait_to_read()
            continue
        for _ in range(2):
            with pytest.raises(mx.base.MXNetError, match=f"partitioned for inference and is called for training: {op} 'layer'"):
                executor.forward(is_train=True)


def test_an_executor_without_such_operators_may_train():
    executor = mx.sym.exp(mx.sym.var("data")).optimize_for("tenon").simple_bind(mx.cpu(), grad_req="null", data=(2, 3))
    executor.arg_dict["data"][:] = 0
    assert (executor.forward(is_train=True)[0].asnumpy() == 1).all()


def test_the_gradient_of_an_executor_is_refused():
    executor = mx.sym.exp(mx.sym.var("data")).optimize_for("tenon").simple_bind(mx.cpu(), grad_req="add", data=(2, 3))
    executor.forward(is_train=True)
    with pytest.raises(mx.base.MXNetError, match="has no gradient"):
        executor.backward(mx.nd.ones((2, 3)))
        executor.grad_arrays[0].wait_to_read()

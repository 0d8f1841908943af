"""Training: MXNet does not tell plugins whether a call trains, so graphs are right or refused with a sentence. Gradients of single
operators are in gradients_test.py, sums of gradients in test_gradient_requests.py."""

import models
import mxnet as mx
import numpy as np
import pytest
from check import SUBGRAPH, close, ops, outputs, parts
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tenon.mxnet

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
def test_a_gradient_of_an_inference_graph_is_refused(flags):
    net, x = net_with()
    net.hybridize(backend="tenon", **flags)
    with autograd.record():
        loss = outputs(net, x)[0].sum()
    with pytest.raises(mx.base.MXNetError, match='has no gradient; partition it with mode="training"'):
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


def test_the_gradient_of_an_executor_for_inference_is_refused():
    executor = mx.sym.exp(mx.sym.var("data")).optimize_for("tenon").simple_bind(mx.cpu(), grad_req="add", data=(2, 3))
    executor.forward(is_train=True)
    with pytest.raises(mx.base.MXNetError, match="has no gradient"):
        executor.backward(mx.nd.ones((2, 3)))
        executor.grad_arrays[0].wait_to_read()


class LeNet(nn.HybridSequential):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add(nn.Conv2D(6, 5, in_channels=1, activation="tanh"), nn.AvgPool2D(2, 2), nn.Conv2D(16, 5, in_channels=6, activation="relu"),
                 nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(32, in_units=256, activation="sigmoid"), nn.Dense(10, in_units=32))


class Words(gluon.HybridBlock):
    """An embedding, an LSTM cell over the time steps, and a layer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(20, 8)
            self.cell = gluon.rnn.LSTMCell(12, input_size=8)
            self.dense = nn.Dense(10, in_units=12)

    def hybrid_forward(self, F, x):
        outputs, _ = self.cell.unroll(9, self.embedding(x), layout="NTC", merge_outputs=False)
        return self.dense(outputs[-1])


class Bert(models.BertLayer):
    """Without dropout, which would draw other numbers in each run."""

    def __init__(self, **kwargs):
        super().__init__(32, 4, 64, **kwargs)
        self.dropout._rate = 0


# name -> (the block, the shape of its input, the shape of the loss's output, optimizer, its options)
NETS = {
    "mlp": (lambda: models.mlp(32)[0], (16, 128), (16,), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4}),
    "lenet": (LeNet, (8, 1, 28, 28), (8,), "adam", {"learning_rate": 0.003}),
    # With larger steps the loss falls to 1e-3, where rounding of the logits is a relative error of 1e-3.
    "resnet18": (lambda: gluon.model_zoo.vision.get_resnet(1, 18, thumbnail=True, classes=10), (4, 3, 16, 16), (4,), "sgd",
                 {"learning_rate": 0.001, "momentum": 0.9}),
    # In f32, parameters that differ by one rounding change MXNet's own losses by up to 3e-3 from the third step on, where a relu
    # flips; in f64 by less than 3e-5.
    "resnet18_v2_f64": (lambda: gluon.model_zoo.vision.get_resnet(2, 18, thumbnail=True, classes=10), (4, 3, 16, 16), (4,), "sgd",
                        {"learning_rate": 0.01}),
    # In f32, MXNet's own gradients of this net differ from those in f64 by half, and with larger steps its losses are chaotic.
    "mobilenet_v2_f64": (lambda: gluon.model_zoo.vision.MobileNetV2(0.25, classes=10), (4, 3, 64, 64), (4,), "sgd",
                         {"learning_rate": 1e-4}),
    "words": (Words, (6, 9), (6,), "adam", {"learning_rate": 0.01}),
    "bert": (Bert, (7, 3, 32), (7, 3), "sgd", {"learning_rate": 0.05}),
}


def train(name, steps=8, options=None):
    """(the block, the losses, the parameters and states after it)"""
    make, shape, target, optimizer, arguments = NETS[name]
    mx.random.seed(7)
    np.random.seed(7)
    net = make()
    net.initialize(mx.init.Xavier(magnitude=2))
    dtype = "float64" if name.endswith("f64") else "float32"
    net.cast(dtype)
    x = (mx.nd.random.randint(0, 20, shape) if name == "words" else mx.nd.random.normal(shape=shape)).astype(dtype)
    labels = mx.nd.random.randint(0, 10, target).astype(dtype)
    net(x)  # deferred shapes
    if options is not None:
        net.hybridize(backend="tenon", mode="training", **options)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, arguments)
    losses = []
    for _ in range(steps):
        with autograd.record():
            loss = loss_of(net(x), labels)
        loss.backward()
        trainer.step(shape[0])
        losses.append(float(loss.mean().asscalar()))
    return net, losses, [p.data() for p in net.collect_params().values()]


@pytest.mark.parametrize("flags", STATIC, ids=str)
@pytest.mark.parametrize("name", NETS)
def test_a_trainer_finds_the_losses_of_mxnet(name, flags):
    steps = 3 if name == "resnet18" else 8  # its later losses depend on the last bits of f32 by 2e-4
    _, want, parameters = train(name, steps)
    net, got, trained = train(name, steps, options=flags)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    assert len(set(want)) == len(want) and parts(net._cached_graph[1]) > 0
    # A parameter that begins at 0 and whose gradient is 0 holds rounding errors.
    kept = [i for i, each in enumerate(parameters) if abs(each).max().asscalar() > 1e-9]
    assert len(kept) > len(parameters) // 2
    close([trained[i] for i in kept], [parameters[i] for i in kept], 1e-3)


@pytest.mark.parametrize("name", ["mlp", "words", "bert"])
def test_operands_without_duplicates(name):
    _, want, _ = train(name, 4)
    _, got, _ = train(name, 4, {"dedup_subgraph": True})
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_training_and_inference_alternate():
    """One graph serves both, and batch normalization uses what training has found."""
    net, x = net_with(nn.BatchNorm(in_channels=8))
    plain, _ = net_with(nn.BatchNorm(in_channels=8))
    for mine, other in zip(net.collect_params().values(), plain.collect_params().values()):
        other.set_data(mine.data())
    net.hybridize(backend="tenon", mode="training", static_alloc=True, static_shape=True)
    for _ in range(4):
        for each in (net, plain):
            with autograd.record():
                loss = (each(x) ** 2).sum()
            loss.backward()
            gluon.Trainer(each.collect_params(), "sgd", {"learning_rate": 0.01}).step(1)
        close(outputs(net, x), outputs(plain, x))


def test_frozen_parameters_do_not_train(capfd):
    net, x = net_with()
    net.hybridize(backend="tenon", mode="training", freeze=True)
    with pytest.raises(mx.base.MXNetError):
        outputs(net, x)
    assert "freeze is for inference" in capfd.readouterr().err


def test_explain_says_what_stays_because_of_training():
    net, x = net_with(nn.BatchNorm(in_channels=8), nn.Dropout(0.5), nn.LeakyReLU(0.1), nn.SELU(), nn.HybridLambda("BlockGrad"))
    stays = {op: why for _, op, why in tenon.mxnet.explain(net, x, mode="training").stays}
    assert set(stays) == {"BatchNorm", "Dropout", "LeakyReLU", "BlockGrad"}
    assert "statistics in training" in stays["BatchNorm"] and "random numbers in training" in stays["Dropout"]
    assert "not the derivative of its output" in stays["LeakyReLU"] and "stops gradients" in stays["BlockGrad"]
    assert not tenon.mxnet.explain(net, x).stays


class Tripled(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 3)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 3)


@mx.operator.register("tripled")
class TripledProp(mx.operator.CustomOpProp):
    def __init__(self):  # takes no attributes
        super().__init__(need_top_grad=True)

    def create_operator(self, ctx, shapes, dtypes):
        return Tripled()


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_an_operator_in_python_between_two_parts(mode):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, in_units=4), nn.HybridLambda(lambda F, x: F.Custom(F.tanh(x), op_type="tripled")), nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.normal(shape=(5, 4))
    expected = net(x)
    net.hybridize(backend="tenon", mode=mode)
    for _ in range(2):
        close([net(x)], [expected], 1e-5)
    if mode == "training":
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        assert x.grad.asnumpy().any()

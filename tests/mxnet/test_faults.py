"""Threads, forks, exits, and failures inside of an engine."""

import pytest
from check import close, outputs

import models


def test_naive_engine(process):
    process("""
import tenon.mxnet, models
from check import close, outputs
tenon.mxnet.load()
for name, sizes in (("mlp", {}), ("resnet18_v1", {"size": 64})):
    net, inputs = models.build(name, **sizes)
    want = outputs(net, *inputs)
    net.hybridize(backend="tenon")
    close(outputs(net, *inputs), want)
""", MXNET_ENGINE_TYPE="NaiveEngine")


def test_exit_while_the_engine_runs(process):
    process("""
import tenon.mxnet, models
tenon.mxnet.load()
net, inputs = models.build("resnet18_v1", size=96)
net.hybridize(backend="tenon")
for _ in range(20):
    net(*inputs)  # nobody waits
""")


def test_engine_threads_run_while_python_compiles():
    busy, busy_inputs = models.build("resnet18_v1", size=64)
    want = outputs(busy, *busy_inputs)
    busy.hybridize(backend="tenon")
    busy(*busy_inputs).wait_to_read()
    for width in range(8, 16):
        pending = [busy(*busy_inputs) for _ in range(4)]
        net, inputs = models.build("mlp", width=width)
        expected = outputs(net, *inputs)
        net.hybridize(backend="tenon")
        close(outputs(net, *inputs), expected)
        for each in pending:
            close([each], want)


def test_python_threads_share_a_model(process):
    process("""
import threading, mxnet as mx, tenon.mxnet, models
from check import close, outputs
tenon.mxnet.load()
nets = [models.build("mlp", seed=seed) for seed in range(4)]
wanted = [outputs(net, *inputs) for net, inputs in nets]
for net, inputs in nets:
    net.optimize_for(*inputs, backend="tenon")
failures = []
def work(number):
    try:
        net, inputs = nets[number]
        for _ in range(50):
            close(outputs(net, *inputs), wanted[number])
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures
""")


@pytest.mark.parametrize("static", [False, True])
def test_data_loader_workers_are_forked(process, static):
    process(f"""
import mxnet as mx, numpy as np, tenon.mxnet, models
from mxnet.gluon.data import ArrayDataset, DataLoader
from check import close, outputs
tenon.mxnet.load()
net, inputs = models.build("mlp")
want = outputs(net, *inputs)
net.hybridize(backend="tenon", static_alloc={static}, static_shape={static})
close(outputs(net, *inputs), want)

class Predicted(ArrayDataset):  # runs the compiled net in the worker
    def __getitem__(self, i):
        return net(inputs[0]).asnumpy()[i % 4]

loader = DataLoader(Predicted(np.zeros(8)), batch_size=4, num_workers=2)
for _ in range(2):
    for batch in loader:
        close([batch], [want[0][:4]])
    close(outputs(net, *inputs), want)
""", OMP_NUM_THREADS="1")


def test_a_failure_in_the_engine_reaches_python():
    import mxnet as mx

    x, w = mx.sym.var("x"), mx.sym.var("w")
    cut = mx.sym.exp(mx.sym.FullyConnected(x, w, num_hidden=3, no_bias=True, name="fc")).optimize_for("tenon")
    with pytest.raises(mx.base.MXNetError):
        cut.bind(mx.cpu(), {"x": mx.nd.ones((2, 4)), "w": mx.nd.ones((3, 5))}, grad_req="null").forward()[0].wait_to_read()

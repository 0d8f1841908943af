"""Models through gluon: hybridize, optimize_for, export and import. TENON_MXNET_MODELS=all tries the large ones too, which takes
two minutes."""

import os

import mxnet as mx
import pytest
from check import SUBGRAPH, close, ops, outputs

import models
import tenon.mxnet

SMALL = {"bert_layer": {"units": 64, "heads": 4, "length": 16, "batch": 2}, "resnet18_v1": {"size": 64}, "resnet18_v2": {"size": 64},
         "mobilenet_v2_1_0": {"size": 64}, "squeezenet1_1": {"size": 224}, "mobilenet1_0": {"size": 64}, "resnet50_v1": {"size": 64},
         "resnet50_v2": {"size": 64}, "vgg11": {"size": 32}, "inception_v3": {"size": 299},
         "bert_encoder": {"units": 64, "heads": 4, "length": 16, "batch": 2, "layers": 3}}
LARGE = ["resnet50_v1", "resnet50_v2", "densenet121", "vgg11", "inception_v3", "mobilenet1_0"]
NAMES = [name for name in models.MODELS if name not in LARGE or os.environ.get("TENON_MXNET_MODELS") == "all"]
STATIC = {"static_alloc": True, "static_shape": True}
FLAGS = [{}, {"static_alloc": True}, STATIC, {**STATIC, "freeze": True}, {"freeze": True}]


@pytest.mark.parametrize("name", NAMES)
def test_models(name):
    net, inputs = models.build(name, **SMALL.get(name, {}))
    want = outputs(net, *inputs)
    for flags in FLAGS:
        net.hybridize(backend="tenon", **flags)
        for _ in range(3):
            close(outputs(net, *inputs), want)
    assert ops(net._cached_graph[1]) == [SUBGRAPH]


@pytest.mark.parametrize("name", NAMES)
def test_one_subgraph_holds_the_whole_model(name):
    net, inputs = models.build(name, **SMALL.get(name, {}))
    report = tenon.mxnet.explain(net, *inputs)
    assert not report.stays and len(report.parts) == 1, str(report)


def test_optimize_for_then_other_arrays():
    net, inputs = models.build("mlp")
    want = outputs(net, *inputs)
    net.optimize_for(*inputs, backend="tenon", static_alloc=True, static_shape=True)
    close(outputs(net, *inputs), want)
    next(iter(net.collect_params().values())).set_data(mx.nd.zeros((256, 128)))
    changed = outputs(net, *inputs)
    net.hybridize(False)
    close(changed, outputs(net, *inputs))


@pytest.mark.parametrize("name", ["mlp", "resnet18_v1", "bert_layer"])
def test_export_and_import_in_a_fresh_process(name, process, tmp_path):
    net, inputs = models.build(name, **SMALL.get(name, {}))
    want = outputs(net, *inputs)
    net.optimize_for(*inputs, backend="tenon")
    close(outputs(net, *inputs), want)
    net.export(str(tmp_path / "model"))
    mx.nd.save(str(tmp_path / "arrays"), [*inputs, *want])
    process("""
import glob, mxnet as mx, numpy as np, tenon.mxnet
tenon.mxnet.load()
x, want = mx.nd.load("arrays")
net = mx.gluon.SymbolBlock.imports("model-symbol.json", ["data"], "model-0000.params")
for _ in range(2):
    got = net(x)
    np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-3, atol=1e-4 * abs(want.asnumpy()).max())
for static in (False, True):
    net.hybridize(static_alloc=static, static_shape=static)
    np.testing.assert_allclose(net(x).asnumpy(), want.asnumpy(), rtol=1e-3, atol=1e-4 * abs(want.asnumpy()).max())
assert "_tenon_subgraph" in open("model-symbol.json").read()
""")


def test_a_partitioned_graph_is_partitioned_again():
    net, inputs = models.build("mlp")
    want = outputs(net, *inputs)
    symbol = models.symbol_of(net)
    params = {name: p.data() for name, p in net.collect_params().items()}
    args = {"data": inputs[0], **params}
    twice = symbol.optimize_for("tenon", dict(args)).optimize_for("tenon", dict(args))
    close(twice.bind(mx.cpu(), args, grad_req="null").forward(), want)

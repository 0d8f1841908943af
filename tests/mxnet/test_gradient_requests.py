"""A gradient is written to an array, added to it or not wanted (grad_req), and MXNet tells its own operators alone which. These tests
compare what arrives in the arrays with MXNet's, also where MXNet adds up the gradients of many readers of one value."""

import json

import mxnet as mx
import pytest
from check import SUBGRAPH, close, ops, parts
from mxnet import autograd
from mxnet.gluon import nn

import tenon.mxnet
from tenon.mxnet import training

STATIC = [{}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}]
REQUESTS = ["write", "add", "null"]


def executor(symbol, shapes, requests, seed=3):
    """Bound to equal random arguments each time; the gradients start from 5."""
    mx.random.seed(seed)
    arg_shapes, _, aux_shapes = symbol.infer_shape(**shapes)
    named = sorted(zip(symbol.list_arguments(), arg_shapes))
    args = {name: mx.nd.random.uniform(0.1, 0.9, shape) for name, shape in named}
    aux = {name: mx.nd.random.uniform(0.5, 1, shape) for name, shape in sorted(zip(symbol.list_auxiliary_states(), aux_shapes))}
    grads = {name: mx.nd.full(shape, 5) for name, shape in named}
    return symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)


def gradients(symbol, shapes, requests, steps=2):
    """{argument: gradient} after some passes, a list of the outputs too."""
    bound = executor(symbol, shapes, requests)
    for step in range(steps):
        outputs = bound.forward(is_train=True)
        bound.backward([mx.nd.full(out.shape, 0.5 + step) for out in outputs])
    names = [n for n in sorted(bound.grad_dict) if bound.grad_dict[n] is not None]
    return list(bound.outputs) + [bound.grad_dict[name] for name in names]


def compare(symbol, shapes, requests, count=None, **options):
    """Partitioned for training, the symbol must compute MXNet's gradients. count: the parts."""
    cut = symbol.optimize_for("tenon", mode="training", **options)
    assert parts(cut) == (count or parts(cut)) > 0
    assert cut.list_arguments() == symbol.list_arguments()
    assert cut.list_auxiliary_states() == symbol.list_auxiliary_states()
    close(gradients(cut, shapes, requests), gradients(symbol, shapes, requests), 1e-5)
    return cut


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("flags", STATIC, ids=str)
def test_blocks(flags, request_):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=4), nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    weight, bias, *rest = net.collect_params().values()
    weight.grad_req = bias.grad_req = request_  # both: without the weight's, MXNet's oneDNN path leaves the bias's gradient out
    for each in rest:
        each.grad_req = "add"
    x = mx.nd.random.normal(shape=(5, 4))
    x.attach_grad(request_ if request_ != "null" else "write")

    def passes():
        wanted = [x.grad] + [p.grad() for p in (weight, bias, *rest) if p.grad_req != "null"]
        for array in wanted:
            array[:] = 3
        for _ in range(3):
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
        return [loss] + [array.copy() for array in wanted]

    want = passes()
    net.hybridize(backend="tenon", mode="training", **flags)
    close(passes(), want, 1e-5)
    assert parts(net._cached_graph[1]) == 1


@pytest.mark.parametrize("requests", [*REQUESTS[:2], {"x": "add", "w": "write", "b": "null"}, {"x": "null", "w": "add", "b": "add"}],
                         ids=str)
def test_executors(requests):
    symbol = mx.sym.exp(mx.sym.FullyConnected(mx.sym.var("x"), mx.sym.var("w"), mx.sym.var("b"), num_hidden=3))
    compare(symbol, {"x": (4, 5)}, requests, 1)


# MXNet adds the gradients of 8 readers and more into one array, and asks the readers' backward operators to do so.
@pytest.mark.parametrize("request_", REQUESTS[:2])
@pytest.mark.parametrize("readers", [2, 7, 8, 9, 20])
@pytest.mark.parametrize("read", ["variable", "result"])
@pytest.mark.parametrize("how", ["one part", "parts", "mixed"])
def test_sums_of_many_gradients(how, read, readers, request_):
    w = mx.sym.var("w")
    value = w if read == "variable" else mx.sym.cosh(w)  # cosh stays with MXNet
    names = {"one part": "exp,sin,_mul_scalar,elemwise_add,add_n", "parts": "exp", "mixed": "exp"}[how]
    each = [(mx.sym.exp(value) if how != "mixed" or i % 2 else mx.sym.arctan(value)) * (0.1 * i + 1) for i in range(readers)]
    count = {"one part": 1, "parts": readers, "mixed": readers // 2}[how]
    compare(mx.sym.add_n(*each), {"w": (3, 4)}, request_, count, op_names=names)


def test_sums_begin_earlier_if_the_user_says_so(process):
    process("""
import tenon.mxnet
tenon.mxnet.load()
from test_gradient_requests import test_sums_of_many_gradients
for how in ("one part", "parts", "mixed"):
    for read in ("variable", "result"):
        test_sums_of_many_gradients(how, read, 3, "write")
""", MXNET_EXEC_INPLACE_GRAD_SUM_CAP="2")


def test_unrolled_weights_in_an_executor():
    cell = mx.gluon.rnn.LSTMCell(6, input_size=4, prefix="cell_")
    outputs, _ = cell.unroll(10, mx.sym.var("x"), layout="NTC", merge_outputs=True)
    states = {name: (2, 6) for name in outputs.list_arguments() if "state" in name}
    for request_ in ("write", "add"):
        compare(outputs, {"x": (2, 10, 4), **states}, request_)


def test_parts_that_share_variables_and_results():
    x, w = mx.sym.var("x"), mx.sym.var("w")
    first = mx.sym.exp(mx.sym.FullyConnected(x, w, num_hidden=5, no_bias=True))
    second = mx.sym.tanh(mx.sym.FullyConnected(mx.sym.cosh(first), w, num_hidden=5, no_bias=True))
    compare(mx.sym.Group([second, first, mx.sym.elemwise_add(first, second)]), {"x": (4, 5)}, {"x": "write", "w": "add"})


def test_several_outputs_of_which_some_are_not_used():
    x = mx.sym.var("x")
    three = mx.sym.SliceChannel(mx.sym.exp(x), num_outputs=3, name="three")
    compare(mx.sym.Group([mx.sym.cosh(three[1]), mx.sym.sin(three[1])]), {"x": (4, 6)}, "write")
    net = nn.HybridLambda(lambda F, x: (F.exp(x), F.sin(x), F.exp(x) * F.sin(x)))
    x = mx.nd.random.normal(shape=(3, 4))
    x.attach_grad()

    def passes():
        found = []
        for used in range(3):
            with autograd.record():
                loss = net(x)[used].sum()
            loss.backward()
            found.append(x.grad.copy())
        return found

    want = passes()
    net.hybridize(backend="tenon", mode="training")
    close(passes(), want, 1e-5)


def test_a_gradient_twice():
    net = nn.HybridLambda(lambda F, x: F.exp(x) * F.sin(x))
    net.hybridize(backend="tenon", mode="training", static_alloc=True, static_shape=True)
    x = mx.nd.random.normal(shape=(3, 4))
    x.attach_grad("add")
    with autograd.record():
        loss = net(x).sum()
    loss.backward(retain_graph=True)
    once = x.grad.copy()
    loss.backward()
    close([x.grad], [once * 2])


def test_a_gradient_of_a_gradient_is_refused():
    net = nn.HybridLambda(lambda F, x: F.exp(x))
    net.hybridize(backend="tenon", mode="training")
    x = mx.nd.ones((2, 3))
    x.attach_grad()
    with pytest.raises(mx.base.MXNetError, match="[Dd]ifferentiable"):
        with autograd.record():
            (first,) = autograd.grad(net(x).sum(), [x], create_graph=True)
            loss = first.sum()
        loss.backward()


def test_auxiliary_states_stay_what_they_are():
    x = mx.sym.exp(mx.sym.var("x"))
    for fixed in (True, False):
        norm = mx.sym.BatchNorm(x, name="norm", use_global_stats=True, fix_gamma=fixed, eps=1e-3)
        cut = compare(mx.sym.tanh(norm), {"x": (4, 3, 5)}, {"x": "write", "norm_gamma": "write", "norm_beta": "add"}, 1)
        assert "BatchNorm" not in ops(cut)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_indices(dtype):
    net = nn.HybridSequential()
    net.add(nn.Embedding(10, 4), nn.Dense(3, flatten=False, in_units=4))
    net.initialize()
    x = mx.nd.array([[1, 2, 9], [2, 2, 0]], dtype=dtype)

    def passes():
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        return [p.grad().copy() for p in net.collect_params().values()]

    want = passes()
    net.hybridize(backend="tenon", mode="training")
    close(passes(), want, 1e-5)
    x.attach_grad()  # MXNet refuses to compute this gradient, which is zero
    x.grad[:] = 7
    close(passes(), want, 1e-5)
    assert (x.grad.asnumpy() == 0).all()
    assert parts(net._cached_graph[1]) == 1


def test_other_sizes():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=2, activation="relu"), nn.GlobalAvgPool2D(), nn.Dense(3, in_units=4))
    net.initialize()
    plain = net.collect_params()

    def passes(batch, size):
        x = mx.nd.random.normal(shape=(batch, 2, size, size))
        x.attach_grad()
        found = []
        for backend in (None, "tenon"):
            net.hybridize(backend is not None, **({"backend": backend, "mode": "training"} if backend else {}))
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            found.append([loss, x.grad.copy()] + [p.grad().copy() for p in plain.values()])
        close(found[1], found[0], 1e-5)

    for batch, size in ((2, 6), (3, 6), (5, 9), (1, 6), (2, 7), (3, 6)):
        passes(batch, size)


def test_a_symbol_without_copies_is_refused():
    optimize_for = mx.symbol.Symbol.optimize_for.__wrapped__
    bound = executor(optimize_for(mx.sym.exp(mx.sym.var("x")), "tenon", mode="training"), {"x": (2, 3)}, "write")
    bound.forward(is_train=True)
    with pytest.raises(mx.base.MXNetError, match=r"partitioned without tenon.mxnet.load\(\)"):
        bound.backward(mx.nd.ones((2, 3)))
        bound.grad_arrays[0].wait_to_read()


def test_each_edge_has_a_copy_of_its_own_that_no_part_takes():
    w = mx.sym.var("w")
    symbol = mx.sym.cosh(mx.sym.exp(w) * w) + w
    once = symbol.optimize_for("tenon", mode="training")
    for cut in (once, once.optimize_for("tenon", mode="training"), once.optimize_for("tenon")):
        nodes = json.loads(cut.tojson())["nodes"]
        read = [e[0] for n in nodes if n["op"] == SUBGRAPH and n["attrs"]["tenon_mode"] == "training" for e in n["inputs"]]
        assert len(set(read)) == len(read) > 0
        assert all(nodes[i]["op"] == "_copy" and training.GUARD in nodes[i]["attrs"] for i in read)
        assert len({n["name"] for n in nodes}) == len(nodes)
    close(gradients(once.optimize_for("tenon", mode="training"), {"w": (3, 4)}, "add"), gradients(symbol, {"w": (3, 4)}, "add"))
    assert ops(once.optimize_for("tenon", mode="training")) == ops(once)
    stays = {op: why for _, op, why in tenon.mxnet.explain(once, mode="training").stays}
    assert "sums of gradients" in stays["_copy"]


def test_inference_has_no_copies():
    assert "_copy" not in ops(mx.sym.exp(mx.sym.var("x")).optimize_for("tenon"))


def test_an_exported_model_trains_in_a_fresh_process(process, tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=4), nn.BatchNorm(in_channels=8), nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.normal(shape=(5, 4))
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    want = {p.name: p.grad() for p in net.collect_params().values() if p.grad_req != "null"}
    net.optimize_for(x, backend="tenon", mode="training")
    net.export(str(tmp_path / "model"))
    mx.nd.save(str(tmp_path / "arrays"), {"x": x, **want})
    process("""
import mxnet as mx, numpy as np, tenon.mxnet
tenon.mxnet.load()
saved = mx.nd.load("arrays")
net = mx.gluon.SymbolBlock.imports("model-symbol.json", ["data"], "model-0000.params")
params = net.collect_params()
for p in params.values():
    if p.grad_req != "null":
        p.grad_req = "add"
for _ in range(2):
    with mx.autograd.record():
        loss = (net(saved["x"]) ** 2).sum()
    loss.backward()
for name, array in saved.items():
    if name != "x":
        np.testing.assert_allclose(params[name].grad().asnumpy(), 2 * array.asnumpy(), rtol=1e-3, atol=1e-4)
assert "_tenon_subgraph" in open("model-symbol.json").read()
""")

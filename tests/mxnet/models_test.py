"""Whole models: exported by MXNet 1.9.1 with random weights, read by Tenon without MXNet, and compared."""

import os
import subprocess

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn, rnn
from mxnet.gluon.model_zoo import vision

import tenon_symbol
from mxnet_help import assert_close

# Model -> side of the square images.
ZOO = {"resnet18_v1": 224, "resnet18_v2": 224, "resnet50_v1": 64, "resnet50_v2": 64, "mobilenet0_25": 64, "mobilenet_v2_0_25": 64,
       "densenet121": 224, "squeezenet1_0": 224, "squeezenet1_1": 224, "vgg11": 32, "vgg11_bn": 32, "alexnet": 224,
       "inception_v3": 299}


def export(net, folder, *inputs):
    """Runs the net, exports it, and returns its outputs and the texts of its two files."""
    net.hybridize()
    out = net(*inputs)
    out = list(out) if isinstance(out, (list, tuple)) else [out]
    want = [o.asnumpy() for o in out]
    net.export(str(folder / "model"))
    return want, (folder / "model-symbol.json").read_text(), (folder / "model-0000.params").read_bytes()


def run_tenon(text, params, inputs, want, infer=True):
    """inputs: {name: array}. infer: the types of all other variables follow from those of the inputs."""
    symbol = tenon_symbol.Symbol(text)
    assert not [a for a in symbol.query() if not a[2]]
    assert len(set(symbol.partition()) - {-1}) == 1
    arrays = {**tenon_symbol.params(params), **inputs}
    graph = symbol.graph({n: (a.shape, a.dtype) for n, a in (inputs if infer else arrays).items()})
    names = [name for op, name in symbol.nodes() if op == "null"]
    return graph.run([arrays[n] for n in names], [(w.shape, w.dtype) for w in want])


def check(net, folder, infer=True, **inputs):
    want, text, params = export(net, folder, *[mx.nd.array(a, dtype=a.dtype) for a in inputs.values()])
    for got, expected in zip(run_tenon(text, params, inputs, want, infer), want):
        assert_close(got, expected, inputs=inputs.values())


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name, tmp_path):
    mx.random.seed(1)
    net = getattr(vision, name)()
    net.initialize(mx.init.Xavier())
    check(net, tmp_path, data=normal(1, 3, ZOO[name], ZOO[name]))


class Encoder(nn.HybridBlock):
    """BERT as gluon-nlp 0.10 writes it after its pass for interleaved attention."""

    def __init__(self, units=32, heads=4, layers=2, vocabulary=50):
        super().__init__()
        self.heads, self.blocks = heads, []
        with self.name_scope():
            self.words = nn.Embedding(vocabulary, units)
            self.positions = nn.Embedding(64, units)
            self.norm = nn.LayerNorm(epsilon=1e-12)
            for i in range(layers):
                block = [nn.Dense(3 * units, flatten=False), nn.Dense(units, flatten=False), nn.LayerNorm(),
                         nn.Dense(4 * units, flatten=False), nn.GELU(), nn.Dense(units, flatten=False), nn.LayerNorm(),
                         nn.Dropout(0.1)]
                for j, layer in enumerate(block):
                    self.register_child(layer, f"block{i}_{j}")
                self.blocks.append(block)
            self.pooler = nn.Dense(units, activation="tanh")

    def hybrid_forward(self, F, data, length):
        steps = F.contrib.arange_like(data, axis=1)
        x = F.broadcast_add(self.words(data), F.expand_dims(self.positions(steps), axis=0))
        x = F.transpose(self.norm(x), axes=(1, 0, 2))
        # [N, T] with 1 where a row ends before: one mask per head and query.
        mask = F.broadcast_lesser(F.expand_dims(steps, 0), F.expand_dims(length, 1))
        mask = F.broadcast_axis(F.expand_dims(mask, 1), axis=1, size=self.heads).reshape((-3, -1))
        for qkv, project, norm1, up, gelu, down, norm2, drop in self.blocks:
            interleaved = qkv(x)
            scores = F.contrib.interleaved_matmul_selfatt_qk(interleaved, heads=self.heads)
            scores = F.broadcast_add(scores, F.expand_dims((1 - mask) * -1e4, 1))
            attended = F.contrib.interleaved_matmul_selfatt_valatt(interleaved, drop(F.softmax(scores)), heads=self.heads)
            x = norm1(x + drop(project(attended)))
            x = norm2(x + drop(down(gelu(up(x)))))
        x = F.SequenceMask(x, sequence_length=length, use_sequence_length=True)
        return F.transpose(x, axes=(1, 0, 2)), self.pooler(F.squeeze(F.slice_axis(x, axis=0, begin=0, end=1), axis=0))


def test_bert(tmp_path):
    mx.random.seed(2)
    net = Encoder()
    net.initialize(mx.init.Normal(0.2))
    rng = np.random.default_rng(2)
    check(net, tmp_path, data0=rng.integers(0, 50, (2, 9)).astype("float32"), data1=np.array([9, 5], "float32"))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_fused_layer(kind, tmp_path):
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(getattr(rnn, kind)(8, num_layers=2, bidirectional=True, layout="NTC"), nn.Dense(3))
    net.initialize()
    check(net, tmp_path, infer=False, data=normal(2, 6, 5))


def test_a_fused_layer_of_any_length():
    """Its steps are nodes only where they need gradients, so only there their number must be known."""
    operands = [mx.sym.var(name) for name in ("data", "parameters", "state", "state_cell")]
    settings = {"state_size": 8, "num_layers": 2, "mode": "lstm", "bidirectional": True, "state_outputs": True}
    symbol = tenon_symbol.Symbol(mx.sym.RNN(*operands, **settings).tojson())
    types = lambda steps: {"data": ((steps, "N", 5), "float32")}
    graph = symbol.graph(types("T"))
    assert graph.print().count("= recurrent(") == 4
    for steps in (6, 1, 9):
        inputs = [normal(steps, 3, 5), 0.3 * normal(2 * (32 * 13 + 64) + 2 * (32 * 24 + 64)), normal(4, 3, 8), normal(4, 3, 8)]
        want = [o.asnumpy() for o in mx.nd.RNN(*map(mx.nd.array, inputs), **settings)]
        for got, expected in zip(graph.run(inputs, [(w.shape, w.dtype) for w in want]), want, strict=True):
            assert_close(got, expected, inputs=inputs)
    assert "recurrent(" not in symbol.graph(types(6), training=True).print()
    with pytest.raises(tenon_symbol.Error, match="the number of time steps is symbolic"):
        symbol.graph(types("T"), training=True)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_unrolled_cells(kind):
    """The states begin with zeros whose batch size MXNet infers backwards."""
    mx.random.seed(4)
    cell = getattr(rnn, kind)(8)
    outputs, states = cell.unroll(4, mx.sym.var("data"), layout="NTC", merge_outputs=True)
    symbol = mx.sym.Group([outputs, *states])
    data = normal(3, 4, 5)
    executor = symbol.simple_bind(mx.cpu(), data=data.shape)
    for name, array in executor.arg_dict.items():
        array[:] = mx.nd.array(data) if name == "data" else mx.nd.random.normal(0, 0.3, array.shape)
    want = [o.asnumpy() for o in executor.forward(is_train=False)]
    translated = tenon_symbol.Symbol(symbol.tojson())
    graph = translated.graph({"data": (data.shape, "float32")})
    names = [name for op, name in translated.nodes() if op == "null"]
    got = graph.run([executor.arg_dict[n].asnumpy() for n in names], [(w.shape, w.dtype) for w in want])
    for g, w in zip(got, want):
        assert_close(g, w, inputs=[data])


def test_numpy_model(tmp_path):
    """mx.np and mx.npx write other operators."""
    mx.random.seed(5)
    mx.npx.set_np()
    try:
        class Net(nn.HybridBlock):
            def __init__(self):
                super().__init__()
                self.conv, self.norm, self.dense = nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Dense(5)

            def hybrid_forward(self, F, x):
                y = F.npx.relu(self.norm(self.conv(x)))
                y = F.np.mean(y, axis=(2, 3)) + F.np.max(y, axis=(2, 3)) * 0.5
                return F.npx.softmax(self.dense(F.np.tanh(y) / 2 - 1))

        net = Net()
        net.initialize()
        data = normal(2, 3, 6, 7)
        net.hybridize()
        want = net(mx.np.array(data)).asnumpy()
        net.export(str(tmp_path / "model"))
    finally:
        mx.npx.reset_np()
    text, params = (tmp_path / "model-symbol.json").read_text(), (tmp_path / "model-0000.params").read_bytes()
    assert_close(run_tenon(text, params, {"data": data}, [want])[0], want, inputs=[data])


def test_symbolic_batch():
    symbol = tenon_symbol.Symbol(vision.resnet18_v1()(mx.sym.var("data")).tojson())
    graph = symbol.graph({"data": (("N", 3, 64, 64), "float32")})
    assert "f32[N,1000]" in graph.print()


def test_command_line(tmp_path):
    net = vision.resnet18_v2()
    net.initialize()
    data = normal(1, 3, 64, 64)
    want, _, _ = export(net, tmp_path, mx.nd.array(data))
    np.save(tmp_path / "data.npy", data)
    cli = os.environ.get("TENON_CLI", tenon_symbol.ROOT / "build/release/bin/tenon")
    subprocess.run([cli, "run", tmp_path / "model-symbol.json", "--params", tmp_path / "model-0000.params", "--input",
                    f"data={tmp_path / 'data.npy'}", "--output-dir", tmp_path], check=True, timeout=300, stdout=subprocess.PIPE)
    written = [f for f in tmp_path.glob("*.npy") if f.name != "data.npy"]
    assert len(written) == 1
    assert_close(np.load(written[0]), want[0], inputs=[data])

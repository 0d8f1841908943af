"""Models for tests and benchmarks of the MXNet plugin: gluon blocks with random weights, and symbols. Runs in MXNet's own environment."""

import functools
import tempfile

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision


class BertLayer(gluon.HybridBlock):
    """The encoder layer of gluon-nlp 0.10, with interleaved attention. Input (length, batch, units)."""

    def __init__(self, units=768, heads=12, hidden=3072, **kwargs):
        super().__init__(**kwargs)
        self._heads = heads
        with self.name_scope():
            self.qkv = nn.Dense(3 * units, flatten=False, in_units=units)
            self.proj = nn.Dense(units, flatten=False, in_units=units)
            self.norm1 = nn.LayerNorm(in_channels=units, epsilon=1e-12)
            self.ffn1 = nn.Dense(hidden, flatten=False, in_units=units)
            self.ffn2 = nn.Dense(units, flatten=False, in_units=hidden)
            self.norm2 = nn.LayerNorm(in_channels=units, epsilon=1e-12)
            self.dropout = nn.Dropout(0.1)

    def hybrid_forward(self, F, x):
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self._heads)
        weights = self.dropout(F.softmax(scores, axis=-1))
        context = F.contrib.interleaved_matmul_selfatt_valatt(qkv, weights, heads=self._heads)
        x = self.norm1(x + self.dropout(self.proj(context)))
        y = self.ffn2(F.LeakyReLU(self.ffn1(x), act_type="gelu"))
        return self.norm2(x + self.dropout(y))


class Bert(gluon.HybridBlock):
    """The encoder of BERT: words and positions, several layers, a pooler. Inputs (batch, length) words and (batch,) lengths."""

    def __init__(self, units=768, heads=12, layers=12, vocabulary=1000, longest=512, **kwargs):
        super().__init__(**kwargs)
        self._heads = heads
        with self.name_scope():
            self.words = nn.Embedding(vocabulary, units)
            self.positions = nn.Embedding(longest, units)
            self.norm = nn.LayerNorm(in_channels=units, epsilon=1e-12)
            self.layers = nn.HybridSequential()
            for _ in range(layers):
                self.layers.add(BertLayer(units, heads, 4 * units))
            self.pooler = nn.Dense(units, activation="tanh", in_units=units)

    def hybrid_forward(self, F, words, length):
        steps = F.contrib.arange_like(words, axis=1)
        x = F.broadcast_add(self.words(words), F.expand_dims(self.positions(steps), axis=0))
        x = self.layers(F.SequenceMask(F.transpose(self.norm(x), axes=(1, 0, 2)), length, use_sequence_length=True))
        return F.transpose(x, axes=(1, 0, 2)), self.pooler(F.squeeze(F.slice_axis(x, axis=0, begin=0, end=1), axis=0))


class LstmLayer(gluon.HybridBlock):
    """MXNet's fused layer, the operator RNN: two layers in both directions, then a product. Input (batch, steps, features)."""

    def __init__(self, hidden=64, features=32, layers=2, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.lstm = gluon.rnn.LSTM(hidden, layers, layout="NTC", bidirectional=True, input_size=features)
            self.dense = nn.Dense(10, flatten=False, in_units=2 * hidden)

    def hybrid_forward(self, F, x):
        return self.dense(self.lstm(x))


class LstmCells(gluon.HybridBlock):
    """An LSTM cell, unrolled. Input (batch, steps, features)."""

    def __init__(self, hidden=128, features=64, steps=4, **kwargs):
        super().__init__(**kwargs)
        self._steps = steps
        with self.name_scope():
            self.cell = gluon.rnn.LSTMCell(hidden, input_size=features)

    def hybrid_forward(self, F, x):
        outputs, _ = self.cell.unroll(self._steps, x, layout="NTC", merge_outputs=True)
        return outputs


# Each model's function returns a block and, per input, a shape of random numbers or a function that makes the array.
def mlp(width=256, batch=32):
    net = nn.HybridSequential()
    net.add(nn.Dense(width, activation="relu", in_units=128), nn.Dense(width, activation="tanh", in_units=width),
            nn.Dense(10, in_units=width))
    return net, [(batch, 128)]


def bert(batch=1, length=64, units=768, heads=12):
    return BertLayer(units, heads, 4 * units), [(length, batch, units)]


def bert_encoder(batch=1, length=64, units=768, heads=12, layers=12):
    words = lambda: mx.nd.random.randint(0, 1000, shape=(batch, length)).astype("float32")
    lengths = lambda: mx.nd.array([max(length - 3 * i, 1) for i in range(batch)])
    return Bert(units, heads, layers), [words, lengths]


def lstm(batch=8, steps=4):
    return LstmCells(steps=steps), [(batch, steps, 64)]


def lstm_layer(batch=4, steps=12):
    return LstmLayer(), [(batch, steps, 32)]


def image(name, batch=1, size=224):
    return getattr(vision, name)(classes=1000), [(batch, 3, size, size)]


ZOO = ("resnet18_v1", "resnet18_v2", "resnet50_v1", "resnet50_v2", "mobilenet1_0", "mobilenet_v2_1_0", "densenet121",
       "squeezenet1_1", "vgg11", "inception_v3")
MODELS = {
    "mlp": mlp,
    "bert_layer": bert,
    "bert_encoder": bert_encoder,
    "lstm_cells": lstm,
    "lstm_layer": lstm_layer,
    **{name: functools.partial(image, name) for name in ZOO},
}


def build(name, seed=0, **sizes):
    """(a block with its parameters, its input arrays). The block has not run yet, as a model that was loaded."""
    mx.random.seed(seed)
    made, shapes = MODELS[name](**sizes)
    made.initialize(mx.init.Xavier(magnitude=2))
    inputs = [shape() if callable(shape) else mx.nd.random.normal(shape=shape) for shape in shapes]
    made(*inputs)
    net, _ = MODELS[name](**sizes)
    with tempfile.TemporaryDirectory() as folder:
        made.save_parameters(f"{folder}/parameters")
        net.load_parameters(f"{folder}/parameters")
    return net, inputs


def symbol_of(net, count=1):
    """The symbol of a block, with the inputs data0, data1, ..., or data if there is one."""
    names = ["data"] if count == 1 else [f"data{i}" for i in range(count)]
    return net(*map(mx.sym.var, names))

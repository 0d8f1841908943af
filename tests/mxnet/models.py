"""Models for tests and benchmarks of the MXNet plugin: gluon blocks with random weights, and symbols. Runs in MXNet's own environment."""

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


def mlp(width=256, batch=32):
    net = nn.HybridSequential()
    net.add(nn.Dense(width, activation="relu", in_units=128), nn.Dense(width, activation="tanh", in_units=width),
            nn.Dense(10, in_units=width))
    return net, [(batch, 128)]


def bert(batch=1, length=64, units=768, heads=12):
    return BertLayer(units, heads, 4 * units), [(length, batch, units)]


def lstm(batch=8, steps=4):
    return LstmCells(steps=steps), [(batch, steps, 64)]


def image(name, batch=1, size=224):
    return getattr(vision, name)(classes=1000), [(batch, 3, size, size)]


MODELS = {
    "mlp": mlp,
    "bert_layer": bert,
    "lstm_cells": lstm,
    "resnet18_v1": lambda **sizes: image("resnet18_v1", **sizes),
    "resnet18_v2": lambda **sizes: image("resnet18_v2", **sizes),
    "mobilenet_v2_1_0": lambda **sizes: image("mobilenet_v2_1_0", **sizes),
    "squeezenet1_1": lambda **sizes: image("squeezenet1_1", **sizes),
}


def build(name, seed=0, **sizes):
    """(a block with its parameters, its input arrays). The block has not run yet, as a model that was loaded."""
    mx.random.seed(seed)
    made, shapes = MODELS[name](**sizes)
    made.initialize(mx.init.Xavier(magnitude=2))
    inputs = [mx.nd.random.normal(shape=shape) for shape in shapes]
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

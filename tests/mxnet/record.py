"""Writes recorded/NAME.json, the symbol of a model as MXNet writes it, and recorded/NAME.txt, the shapes of its inputs and outputs.
tests/unit/bindings/mxnet_host_test.cc reads them. Run it in MXNet's environment to record again."""

import json
from pathlib import Path

import models
import mxnet as mx

HERE = Path(__file__).resolve().parent / "recorded"


def record(name, symbol, **shapes):
    inputs, outputs, aux = symbol.infer_shape(**shapes)
    known = dict(zip(symbol.list_arguments(), inputs)) | dict(zip(symbol.list_auxiliary_states(), aux))
    text = json.loads(symbol.tojson())
    text.pop("attrs", None)
    nodes = [node["name"] for node in text["nodes"] if node["op"] == "null"]
    (HERE / f"{name}.json").write_text(json.dumps(text, separators=(", ", ": ")).replace("}, {", "},\n{") + "\n")
    lines = [" ".join(["in", *map(str, known[node])]) for node in nodes] + [" ".join(["out", *map(str, out)]) for out in outputs]
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


def block(name, key="data", **sizes):
    net, inputs = models.build(name, **sizes)
    record(name, models.symbol_of(net), **{key: inputs[0].shape})


def graphs():
    """Structures that a partitioner gets wrong, by name."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    exp = mx.sym.exp(a)
    around = mx.sym.cosh(exp)  # stays with MXNet, between two nodes of one candidate
    yield "cycle", mx.sym.elemwise_add(exp, around)
    yield "same_twice", mx.sym.elemwise_add(a, a)
    twice = mx.sym.exp(a + b)
    yield "outputs_twice", mx.sym.Group([twice, twice, mx.sym.elemwise_add(twice, b)])


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    mx.random.seed(0)
    for name, sizes in (("mlp", {}), ("bert_layer", {"units": 64, "heads": 4, "length": 16}), ("lstm_cells", {}),
                        ("resnet18_v1", {"size": 32})):
        block(name, **sizes)
    for name, symbol in graphs():
        record(name, symbol, **{argument: (4, 5) for argument in symbol.list_arguments()})

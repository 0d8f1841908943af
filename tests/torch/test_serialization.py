"""Saves compiled functions and loads them in a fresh process, with other sizes, parameters and versions."""

import json
import operator
import subprocess
import sys

import pytest
import torch

SOURCE = """
import math, sys, torch, tenon
from torch import nn

def plain(x, y):
    return (x * 2 + y).softmax(-1), x.t()

def with_host_steps(x, y):
    counts = torch.histc(x.half(), 6, -3, 3)  # runs in PyTorch
    return x * counts * y + torch.tensor([0.5, -1.0, 2.0, 3.0, 4.0, 5.0]), counts.to(torch.float64) * 0.3

def mutates(x, y):
    x.add_(y)
    return x.sum(0) * x.shape[0]

def host_sizes(x, y):
    n = x.shape[0]
    return x[: int(n * 0.7)] * y, x[: int(math.log2(n))].exp(), x[: n & ~1] + round(n / 3), torch.arange(0, n, 0.7) + y.sum()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)
        self.register_buffer("scale", torch.arange(8.))
        self.eval()

    def forward(self, x):
        return self.norm(self.inner(x)).relu() * self.scale

def sizes(n):
    torch.manual_seed(n)
    return torch.randn(n, 6), torch.randn(6)
"""
LOAD = """
import sys, torch, tenon
from torch import nn
import source
from source import Model, sizes
def no_compiling(*args, **kwargs):
    raise AssertionError("something was compiled")

import torch._dynamo.convert_frame, tenon.torch.backend
tenon.torch.backend.compile_graph = no_compiling
path, name = sys.argv[1:]
with torch.no_grad():
    loaded = torch.compiler.load_compiled_function(open(path, "rb"))
    for n in (4, 9, 23, 4):
        x, y = sizes(n)
        if name == "Model":
            model = Model()
            torch.testing.assert_close(loaded(model, x), model(x))
            model.inner.weight.mul_(2)
            torch.testing.assert_close(loaded(model, x), model(x))
            model.inner.weight = nn.Parameter(torch.randn(8, 6))
            torch.testing.assert_close(loaded(model, x), model(x))
        else:
            a, b = x.clone(), x.clone()
            torch.testing.assert_close(loaded(a, y), getattr(source, name)(b, y))
            assert torch.equal(a, b)
stats = tenon.stats()
assert stats["programs"] >= 1 and stats["fallbacks"] == (name == "with_host_steps") and stats["calls"] == (12 if name == "Model" else 4), stats
"""
scope = {}
exec(SOURCE, scope)


def save(tmp_path, name, options=None):
    """Returns (path, the compiled function)."""
    (tmp_path / "source.py").write_text(SOURCE)
    sys.path.insert(0, str(tmp_path))  # PyTorch writes down the module of a function, and reads its source
    try:
        sys.modules.pop("source", None)
        import source

        x, y = source.sizes(5)
        torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            if name == "Model":
                model = source.Model()
                compiled = torch.compile(model, backend="tenon", fullgraph=True, options=options)
                saved = compiled.forward.aot_compile(((x,), {}))
                torch.testing.assert_close(saved(model, x), model(x))
            else:
                function = getattr(source, name)
                saved = torch.compile(function, backend="tenon", fullgraph=True, options=options).aot_compile(((x, y), {}))
                torch.testing.assert_close(saved(x.clone(), y), function(x.clone(), y))
        saved.save_compiled_function(str(tmp_path / "saved"))
    finally:
        sys.path.remove(str(tmp_path))
    return tmp_path / "saved", saved


def function_of(saved):
    return saved._artifacts.compiled_fn.function.serialize().compiled_fw.result


def as_data(saved):
    return json.loads(function_of(saved).__reduce__()[1][0])


@pytest.mark.parametrize("name, options", [("plain", None), ("with_host_steps", None), ("host_sizes", None), ("mutates", None), ("Model", None),
                                           ("Model", {"freeze": True}), ("with_host_steps", {"freeze": True, "num_threads": 1})])
def test_runs_in_a_fresh_process(tmp_path, name, options):
    path, saved = save(tmp_path, name, options)
    assert len(as_data(saved)["indices"]) == (5 if name == "Model" and options else 0)
    (tmp_path / "load.py").write_text(LOAD)
    subprocess.run([sys.executable, tmp_path / "load.py", path, name], check=True, timeout=300)


def artifacts(tmp_path, name="plain"):
    _, saved = save(tmp_path, name)
    compiled = saved._artifacts.compiled_fn
    return type(compiled), type(compiled).serialize_compile_artifacts(compiled)


def test_damage_is_told(tmp_path):
    from tenon.torch.serialization import SerializationError

    cls, data = artifacts(tmp_path)
    with torch.no_grad():
        x, y = scope["sizes"](7)
        torch.testing.assert_close(cls.deserialize_compile_artifacts(data)(7, x, y)[0], scope["plain"](x, y)[0])
    start = data.index(b"}\n") + 2
    for at in (0, 5, start, (start + len(data)) // 2, len(data) - 1):
        bad = bytearray(data)
        bad[at] ^= 1
        with pytest.raises(SerializationError, match="damaged"):
            cls.deserialize_compile_artifacts(bytes(bad))
    for bad in (b"", data[:10], data[:start], data[:-1], data + b"x"):
        with pytest.raises(SerializationError, match="damaged"):
            cls.deserialize_compile_artifacts(bad)


def test_another_version_is_told(tmp_path):
    from tenon.torch.serialization import SerializationError

    cls, data = artifacts(tmp_path)
    magic, head, body = data.split(b"\n", 2)
    for key, value in (("format", 1), ("torch", "2.99.0")):
        other = json.dumps(json.loads(head) | {key: value, "tenon": "9.8.7"}).encode()
        with pytest.raises(SerializationError, match=f"saved by Tenon 9.8.7 .*{value}.*; this is Tenon .*: save it again"):
            cls.deserialize_compile_artifacts(b"\n".join([magic, other, body]))


def test_what_is_saved_is_data(tmp_path):
    """From this package the file names only one function to call, and it has no code object."""
    import pickle
    import pickletools

    _, saved = save(tmp_path, "with_host_steps")
    text = pickle.dumps(function_of(saved))
    words = [argument for _, argument, _ in pickletools.genops(text) if isinstance(argument, str)]
    assert [w for w in words if w.startswith("tenon")] == ["tenon.torch.serialization"] and "_unpickle" in words and "code" not in words
    data = as_data(saved)
    assert "graph @" in data["parts"][0]["text"] and "step0(" in data["body"]


def test_what_cannot_be_saved_says_why(tmp_path):
    with pytest.raises(Exception, match="cannot be saved: gradients are needed"):
        torch.compile(lambda x: x * 2, backend="tenon", fullgraph=True).aot_compile(((torch.ones(3, requires_grad=True),), {}))


def test_what_calls_have_refused_is_not_saved(tmp_path):
    _, saved = save(tmp_path, "with_host_steps")
    function = function_of(saved)
    before = as_data(saved)["fallbacks"]
    function._tenon_record.refused_call("a reason")
    assert len(before) == 1 and as_data(saved)["fallbacks"] == before and len(function._tenon_record.fallbacks) == 2


def test_saved_again_after_loading(tmp_path):
    cls, data = artifacts(tmp_path, "with_host_steps")
    once = cls.deserialize_compile_artifacts(data)
    twice = cls.deserialize_compile_artifacts(cls.serialize_compile_artifacts(once))
    x, y = scope["sizes"](8)
    with torch.no_grad():
        for function in (once, twice):
            for a, b in zip(function(8, x, y), scope["with_host_steps"](x, y)):
                torch.testing.assert_close(a, b)


@pytest.mark.parametrize("value", [torch.float16, torch.strided, torch.channels_last, torch.device("cpu"), -0.0, float("nan"),
                                   torch.ops.aten.sort.default, operator.floordiv, torch.arange(6).reshape(2, 3).t(),
                                   torch.tensor(2.5), torch.empty(0, 3), torch.tensor([True, False])])
def test_constants(value):
    from tenon.torch import serialization

    back = serialization._decode(json.loads(json.dumps(serialization._encode(value))))
    if isinstance(value, torch.Tensor):
        assert torch.equal(back, value) and back.stride() == value.stride() and back.dtype == value.dtype
    else:
        assert str(back) == str(value) and type(back) is type(value)


def test_a_constant_of_another_kind_is_refused():
    from tenon.torch import serialization

    with pytest.raises(serialization.SerializationError, match="a set in its host steps"):
        serialization._encode({1})

"""tenon.graph_text: a host without PyTorch writes graphs with it, and the library reads and runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenon import _abi
from tenon.graph_text import Builder, Raw, Sizes, Unsupported, line_texts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "howto" / "add-binding.md"


def test_numpy_without_pytorch():
    program = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)[1]
    hidden = 'import sys\nsys.modules["torch"] = sys.modules["sympy"] = None  # importing one of them fails\n'
    subprocess.run([sys.executable, "-c", hidden + program], check=True)


def test_import_loads_no_framework():
    code = ("import sys, tenon, tenon.graph_text, tenon._abi, tenon.report\n"
            "assert not {'torch', 'sympy', 'numpy'} & set(sys.modules)\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_text():
    b = Builder("f")
    x, i = b.input("x", "f16", (2, 3)), b.input("i", "i64", (4,), param=True)
    y = b.gather(b.reshape(b.pad(x, [0, 1], [0, 0]), (8,)), i, wrap=False)
    kept = b.map("lt", b.wide(y), b.full(1, "f32"))
    assert b.text([kept, y]) == """graph @f(%x: f16[2,3],
    %i: i64[4] param) {
  %f.0 = pad(%x){low=[0,1], high=[0,0], value=0.0} : f16[2,4]
  %f.1 = reshape(%f.0){shape=[8]} : f16[8]
  %f.2 = gather(%f.1, %i){axis=0, wrap=false} : f16[4]
  %f.3 = cast(%f.2){dtype=f32} : f32[4]
  %f.4 = full{value=1, shape=[], dtype=f32} : f32[]
  %f.5 = lt(%f.3, %f.4) : bool[4]
  return %f.5, %f.2
}
"""
    assert _abi.refused(b.text([kept, y]), _abi.CPU) == {}


def test_updates():
    b = Builder("f")
    w, g = b.input("w", "f32", (4,)), b.input("g", "f32", (4,))
    text = b.text([w], updates=[(w, b.map("sub", w, g))])
    assert "return %w, %f.0 updates %w" in text
    assert _abi.refused(text, _abi.CPU) == {}


class Names(Sizes):
    """The sizes of a host whose symbols are names, as in ONNX."""

    def size(self, n):
        return n if isinstance(n, str) else super().size(n)

    def symbols(self, n):
        return {n} if isinstance(n, str) else set()


class Symbolic(Builder):
    sizes = Names()


def test_symbols_of_a_host():
    b = Symbolic("g")
    x, y = b.input("x", "f32", ("N", 3)), b.input("y", "f32", ("N", 1))
    z = b.reduce("sum", b.map("mul", x, y), [1])
    assert z.shape == ("N",) and b.lines[0].symbols == {"N"}
    assert _abi.refused(b.text([z]), _abi.CPU) == {}


@pytest.mark.parametrize("write, sentence", [
    (lambda b, x: b.reshape(x, (True,)), "a bool where a size is expected"),
    (lambda b, x: b.reshape(x, (1.5,)), "float where a size is expected"),
    (lambda b, x: b.full(float("inf"), "i64"), "inf as i64"),
    (lambda b, x: b.op("slice", [x], "f32", (1,), axis=0, start=object(), end=1), "object where a size is expected"),
])
def test_what_is_refused(write, sentence):
    b = Builder("f")
    with pytest.raises(Unsupported, match=f"^{sentence}$"):
        write(b, b.input("x", "f32", (2,)))


@pytest.mark.parametrize("write", [
    lambda b, x: b.pad(x, (0, 0), (0, 0)), lambda b, x: b.cast(x, "f32"), lambda b, x: b.reshape(x, (2, 3)), lambda b, x: b.expand(x, (2, 3)),
    lambda b, x: b.slice(x, 1, 0, 3), lambda b, x: b.transpose(x, (0, 1)), lambda b, x: b.concat([x], 0),
])
def test_what_has_no_effect_is_no_line(write):
    b = Builder("f")
    x = b.input("x", "f32", (2, 3))
    assert write(b, x) is x and not b.lines


def test_attributes():
    b = Builder("f")
    b.op("any", [], "f32", (), a=True, b=2.5, c='a "b"\\', d=[1, (2, 3)], e=Raw("f32"), f=None)
    assert line_texts(b.lines[:1], str) == ['  %f.0 = any{a=true, b=2.5, c="a \\"b\\"\\\\", d=[1,[2,3]], e=f32} : f32[]']

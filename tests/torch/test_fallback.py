"""PyTorch runs the nodes that Tenon does not take, inside the same function. Reasons are counted; nothing raises."""

import logging
import math
import re

import pytest
import torch
import torch.nn.functional as F

import tenon

from foreign import foreign


def run(f, *args, **options):
    tenon.reset_stats()
    torch._dynamo.reset()
    with torch.no_grad():
        got = torch.compile(f, backend="tenon", fullgraph=True, options=options or None)(*args)
    torch.testing.assert_close(got, f(*args))
    return tenon.stats()


def middle(x):
    y = foreign(torch.relu(x) * 2)
    return y.sin() + x


def test_unsupported_op_in_the_middle():
    s = run(middle, torch.randn(4, 5))
    assert s["fallback_reasons"] == {"tenon_test.foreign.default has no row in Tenon's op table": 1}
    assert s["fallbacks"] == 1 and s["programs"] == 2


def test_error_on_request():
    with pytest.raises(Exception, match="tenon_test.foreign.default .* would run in PyTorch: .* no row"), torch.no_grad():
        torch.compile(middle, backend="tenon", options={"fallback": "error"})(torch.randn(4, 5))
    run(lambda x: x.relu() + 1, torch.randn(3), fallback="error")


def test_a_line_says_what_falls_back_and_why(caplog, library):
    """logger "tenon": INFO with "count", DEBUG with "auto"; the graph's name, the op, its node and the reason."""
    x, z = torch.randn(4, 5), torch.zeros(3, dtype=torch.float8_e5m2fnuz)
    cases = [(middle, x, (), "tenon_test.foreign.default (foreign) runs in PyTorch: tenon_test.foreign.default has no row in Tenon's op table"),
             (lambda x: F.gelu(x), x, ("gelu",),
              "aten.gelu.default (gelu) runs in PyTorch: Tenon's library: unsupported: gelu is refused"),
             (lambda z: z.clone(), z, (), "the whole graph (graph) runs in PyTorch: ")]
    for fallback, level in (("count", logging.INFO), ("auto", logging.DEBUG)):
        for f, argument, library.refuse, line in cases:
            caplog.clear()
            with caplog.at_level(logging.DEBUG, "tenon"):
                why, = run(f, argument, fallback=fallback)["fallback_reasons"]
            messages = [r for r in caplog.records if r.name == "tenon" and "runs in PyTorch" in r.msg]
            assert [r.levelno for r in messages] == [level]
            name, text = messages[0].getMessage().split(": ", 1)
            assert re.fullmatch(r"graph\d+", name) and text.startswith(line) and text.endswith(": " + why)
    caplog.clear()
    with caplog.at_level(logging.INFO, "tenon"):
        run(middle, torch.randn(4, 5))  # counted only
        run(lambda x: x * 2 + 1, torch.randn(4, 5), fallback="count")  # nothing falls back
    assert not [r for r in caplog.records if r.name == "tenon"]


def test_sums_too_far_apart_for_one_scale():
    """logcumsumexp scales a row by its largest element: PyTorch computes a row in which a sum would vanish."""
    near, far = torch.tensor([[0.0, 500.0], [-math.inf, 9e3]]), torch.tensor([[0.0, 700.0], [-math.inf, 1.0]])
    for x in (near, far):
        s = run(lambda x: torch.logcumsumexp(x, 1), x)
        assert len(s["fallback_reasons"]) == (x is far)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_lowest_numbers_in_logcumsumexp(dtype):
    """PyTorch's gradient takes the lowest number for the logarithm of 0. A sum of few of them is the lowest number again."""
    low = torch.finfo(dtype).min
    s = run(lambda x: torch.logcumsumexp(x, 1), torch.tensor([[low, low, 2, low, 3], [low] * 5, [-math.inf, low, 1, 5, low]], dtype=dtype))
    assert s["fallback_reasons"] == {}


def test_segments_are_few():
    """Branches beside an unsupported op do not split further than the op itself does."""
    def f(x):
        a = foreign(x)
        c = x.exp() + 1
        d = foreign(c * 2)
        return (a * c).sum() + (d - a).relu() + x.tanh()

    s = run(f, torch.randn(4, 5))
    assert s["programs"] == 2 and s["fallbacks"] == 2


def test_whole_graph_unsupported():
    s = run(lambda x: foreign(x), torch.randn(5))
    assert s["programs"] == 0 and s["fallbacks"] == 1


def test_views_feed_unsupported_ops_without_copies(library):
    """A transposed input is a view for PyTorch's own op, not an output of a program."""
    s = run(lambda x: foreign(x.t()[1:]) + 1, torch.randn(4, 5))
    assert s["programs"] == 1 and "transpose" not in library.texts[-1]


def test_strides_reach_the_fallback():
    def f(x):
        before = torch.as_strided((x * 2).t()[1:], (3,), (5,), 0)  # reads what lies in front of its operand
        return torch.as_strided(x.t() + 1, (2, 3), (1, 2)), before + 1

    s = run(f, torch.randn(4, 5))
    assert list(s["fallback_reasons"]) == ["as_strided of a tensor whose elements overlap or leave gaps"]


def test_random_numbers_come_from_pytorch_in_order():
    def f(x):
        drawn = F.dropout(x * 2, 0.5, True) + torch.rand(3, 4) + foreign(torch.rand_like(x)) + torch.randint(9, (4,))
        return drawn + torch.bernoulli(x.sigmoid()) + torch.randn(4)

    x = torch.randn(3, 4)
    torch.manual_seed(5)
    expected = torch.compile(f, backend="aot_eager")(x)
    torch.manual_seed(5)
    with torch.no_grad():
        got = torch.compile(f, backend="tenon")(x)
    torch.testing.assert_close(got, expected)
    assert tenon.stats()["fallbacks"] == 3  # foreign, the draw that reads data, and the one behind it


def test_library_refuses_a_program(library):
    library.refuse = ("gelu",)
    s = run(lambda x: F.gelu(x.exp()) + 1, torch.randn(3))
    assert s["programs"] == 0 and list(s["fallback_reasons"]) == ["Tenon's library: unsupported: gelu is refused"]
    with pytest.raises(Exception, match="gelu is refused"), torch.no_grad():
        torch._dynamo.reset()
        torch.compile(lambda x: F.gelu(x), backend="tenon", options={"fallback": "error"})(torch.randn(3))
    library.refuse = ("gelu",)
    s = run(lambda x: foreign(F.gelu(foreign(x * 2))) * 2, torch.randn(3))
    assert s["programs"] == 2 and s["fallbacks"] == 3


@pytest.mark.parametrize("make, sentence", [
    (lambda: torch.randn(3, dtype=torch.complex64), "complex64"),
    (lambda: torch.zeros(3, dtype=torch.float8_e5m2fnuz), "float8_e5m2fnuz"),
    (lambda: torch.eye(3).to_sparse(), "sparse"),
])
def test_inputs_that_are_not_plain(make, sentence):
    x = make()
    with torch.no_grad():
        torch.compile(lambda x: x.clone(), backend="tenon")(x)
    s = tenon.stats()
    assert s["programs"] == 0 and (s["fallbacks"] == 1 and sentence in next(iter(s["fallback_reasons"])) or s["calls"] == 0)


def test_conjugated_and_negated_inputs():
    x = torch.randn(4, dtype=torch.complex64)
    run(lambda z: (z.conj() * 2).real + 1, x)
    run(lambda y: y * 2 + 1, x.conj().imag)  # carries the neg bit
    assert x.conj().imag.is_neg()


def test_complex_inside():
    def f(x):
        z = torch.view_as_complex(x.reshape(2, 2, 2)).conj()
        return torch.view_as_real(z * z).relu() * 2 + z.imag.unsqueeze(-1)

    s = run(f, torch.randn(2, 4))
    assert s["programs"] >= 1 and s["fallbacks"] >= 3


def test_subclass_input_is_right():
    class Tagged(torch.Tensor):
        pass

    x = torch.randn(3).as_subclass(Tagged)
    with torch.no_grad():
        assert torch.equal(torch.compile(lambda x: x * 2 + 1, backend="tenon")(x), x * 2 + 1)


def test_control_flow_operator():
    def f(p, x):
        return torch.cond(p, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x * 2,)) * 3

    for value in (True, False):
        s = run(f, torch.tensor(value), torch.randn(4))
        assert s["programs"] == 2 and s["fallbacks"] >= 1


def test_custom_operator():
    @torch.library.custom_op("tenon_test::shift", mutates_args=())
    def shift(x: torch.Tensor, by: int) -> torch.Tensor:
        return x + by

    @shift.register_fake
    def _(x, by):
        return torch.empty_like(x)

    s = run(lambda x: shift(x * 2, 3).relu(), torch.randn(4))
    assert s["programs"] == 2 and s["fallback_reasons"] == {"tenon_test.shift.default has no row in Tenon's op table": 1}


@pytest.mark.parametrize("name, kernel, error", [
    ("other_dtype", lambda x: x.float(), None),
    ("other_strides", lambda x: x.t().contiguous().t(), None),
    ("other_size", lambda x: x[1:].clone(), "has size \\[2, 4\\], where its meta function told \\[3, 4\\]"),
])
def test_a_meta_function_that_is_wrong_about_its_kernel(name, kernel, error):
    torch.library.define(f"tenon_test::{name}", "(Tensor x) -> Tensor")
    torch.library.impl(f"tenon_test::{name}", "CPU", kernel)
    torch.library.register_fake(f"tenon_test::{name}", torch.empty_like)
    x, op = torch.randn(3, 4, dtype=torch.float64), getattr(torch.ops.tenon_test, name)
    f = torch.compile(lambda x: op(x * 2) + 1, backend="tenon")
    if error:
        with pytest.raises(RuntimeError, match=error):
            f(x)
    else:
        torch.testing.assert_close(f(x), x * 2 + 1, rtol=1e-6, atol=1e-6)
    assert tenon.stats()["fallbacks"] == 1


def test_nothing_is_printed(capfd):
    run(middle, torch.randn(4, 5))
    out, err = capfd.readouterr()
    assert out == "" and err == ""

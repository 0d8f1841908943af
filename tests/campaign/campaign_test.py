"""Tests of the parts of the campaigns: oracle, generator, shrinking. planted_check.py runs the campaigns themselves."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from campaign import backward, grammar, models, op_db, oracle, packages, shrink, trial     # noqa: E402


def test_a_seed_is_one_program():
    first, again = grammar.generate(11), grammar.generate(11)
    assert first.source() == again.source() != grammar.generate(12).source()
    space = grammar.load(first.source())
    for s in range(3):
        space["f"](*space["inputs"](s))


def test_shrink_finds_the_statement():
    """shrink() keeps the one statement that fails, here an exp."""
    program = grammar.Program(0, [grammar.Input("x0", ["x0 = torch.randn(B, N)"])], [
        ("v1", "x0 + 1"), ("v2", "v1.exp()"), ("v3", "v2 * 2"), ("v4", "x0.sum(0)")], ["v3", "v4"])
    small = shrink.shrink(program, lambda p: ".exp()" in p.source(), 10)
    assert [text for _, text in small.statements] == ["v1.exp()"] and small.outputs == ["v2"] and len(small.inputs) == 1


def test_oracle():
    x = torch.linspace(-3, 3, 1000)
    exact = x.double().exp()
    assert oracle.compare(x.exp(), exact.float(), exact) is None
    assert "too far" in oracle.compare(x.exp(), x.exp() * (1 + 1e-5), exact)
    one = x.exp()
    one[500] *= 1 + 1e-4
    assert "1 of 1000 too far" in oracle.compare(x.exp(), one, exact)
    assert "strides" in oracle.compare(x.view(10, 100).t(), x.view(10, 100).t().contiguous())
    assert "dtype" in oracle.compare(x, x.double()) and "shape" in oracle.compare(x, x[None])
    assert "nan/inf" in oracle.compare(torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 0.0]), torch.tensor([1.0, torch.nan]))
    # A half that overflows on the way in eager and not in float64 may be finite.
    big = torch.tensor([400.0], dtype=torch.float16)
    assert oracle.compare(big * big / 400, big, torch.tensor([400.0], dtype=torch.float64)) is None
    assert "differ" in oracle.compare(torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert oracle.compare({"a": [x]}, {"a": []}) is not None


def test_twins_keep_strides_offsets_and_sharing():
    base = torch.randn(40)
    tensors = [base[3:23].view(4, 5).t(), base[1::2], torch.randn(4), base.expand(2, 40)]
    copies = oracle.counterpart(tensors)
    for a, b in zip(tensors, copies):
        assert torch.equal(a, b) and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
    assert oracle.sharing(copies) == oracle.sharing(tensors) == {(1, 0), (3, 0), (3, 1)}
    assert oracle.sharing([*copies, *tensors]) == {(1, 0), (3, 0), (3, 1), (5, 4), (7, 4), (7, 5)}


def test_chaos_is_told_from_mistakes():
    x = torch.randn(1000) * 100
    floors = [(x * (1 + i * 1.2e-7)).mul(1e6).floor() for i in (-1, 1)]
    assert oracle.unstable(floors, x.mul(1e6).floor(), (x * 1e6 * (1 + 6e-8)).floor())
    assert not oracle.unstable([x * (1 + 1e-7)], x, x * (1 + 1e-5))
    # Only leaves that differ from eager are asked for, and numbers may stand beside tensors.
    zero, exact = (x - x.float()).add(1e-9), torch.zeros(1000, dtype=torch.float64)
    assert oracle.unstable([(True, x, -zero)], (True, x, zero), (True, x * (1 + 1e-7), zero * 3), (True, x.double(), exact))
    assert not oracle.unstable([(True, x, zero)], (True, x, zero), (False, x, zero))


def test_functions_that_no_standard_rounds():
    """The sine of a large angle that comes from an exponential function moves with it, though no input moves."""
    steps = torch.tensor([93.0, 57.0])
    angles = lambda: torch.exp(-torch.arange(64.0) / 16)[:, None].expand(64, 2) * steps.round()
    runs = []
    for i in range(4):
        with oracle.Rounded(i):
            runs.append(angles().sin())
    one_more = (angles() * (1 + 1e-7)).sin()
    assert oracle.unstable(runs, angles().sin(), one_more) and not oracle.unstable([angles().sin()] * 4, angles().sin(), one_more)
    assert not oracle.unstable(runs, angles().sin(), (angles() * (1 + 1e-4)).sin())


def test_packages_that_are_not_installed_say_so(monkeypatch):
    monkeypatch.setitem(packages.TABLE, "nowhere", ("no_such_package", None, None))
    with pytest.raises(models.NotBuilt) as caught:
        packages.build("nowhere")
    assert caught.value.args[0] == "not installed" and "no_such_package" in caught.value.args[1]


def test_a_package_that_asks_for_torchvision(tmp_path, monkeypatch):
    """It gets a stub of torchvision if that is not installed. Other modules do not see the stub."""
    (tmp_path / "asks_for_torchvision.py").write_text("from torchvision.transforms import Compose, InterpolationMode\nbest = InterpolationMode.NEAREST\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = importlib.util.find_spec("torchvision")
    assert packages.imported("asks_for_torchvision").best
    assert importlib.util.find_spec("torchvision") == before and bool(before) == ("torchvision" in sys.modules)


def test_a_model_of_a_package_is_checked(monkeypatch):
    monkeypatch.setitem(packages.TABLE, "line", ("torch.nn", lambda m: m.Linear(8, 8), packages.vectors(8)))
    (case,) = packages.cases({"key": "line", "combinations": [("f32", "dynamic", "live")]}, {"backend": "tenon"})
    assert case[0]["id"] == "line f32-dynamic-live" and case[1]()["class"] == "right"


def test_what_the_tracer_copies_is_pytorchs():
    record = trial.check(lambda x: torch.nn.functional.dropout(x, training=False), [[torch.ones(3)]], {"backend": "aot_eager", "dynamic": True})
    assert record["class"] == "pytorch wrong"


def test_strides_that_only_aot_autograd_promises_are_pytorchs():
    """PyTorch's meta function of expand gives a new axis of size 1 a stride, which determines the layout of later results."""
    x = torch.arange(84).view(12, 7).t()
    record = trial.check(lambda x: ~x.expand(1, 3, 7, 12), [[x]], {"backend": "tenon", "dynamic": False})
    assert record["class"] == "pytorch wrong" and "strides" in record["detail"]


def shift(x):
    if x.shape[0] < 9:
        x[:, 1:] = x[:, :-1]
    return x


def test_only_the_call_at_fault_is_asked_of_pytorch():
    """Functionalization treats a copy of a tensor onto itself as a copy of its old values; the next call is right."""
    record = trial.check(shift, [[torch.arange(40.0).view(5, 8)], [torch.arange(90.0).view(9, 10)]], {"backend": "aot_eager", "dynamic": True})
    assert record["class"] == "pytorch wrong"


def test_what_only_the_backend_refuses_is_raised():
    def f(x):
        x.diagonal().fill_(3)
        return x.clone()

    record = trial.check(f, [[torch.ones(1, 8).expand(5, 8)]], {"backend": "aot_eager", "dynamic": False})
    assert record["class"] == "raised"


def test_a_reference_step_is_no_right_answer(monkeypatch):
    real = trial.stats_of
    monkeypatch.setattr(trial, "stats_of", lambda backend: {**real(backend), "reference_steps": 2})
    record = trial.check(torch.exp, [[torch.ones(3)]], {"backend": "tenon", "dynamic": False})
    assert record["class"] == "reference" and record["detail"] == "2 reference steps"


def test_every_nth_entry_from_one(monkeypatch):
    monkeypatch.setattr(op_db, "entries", lambda gradients: dict.fromkeys(("add", "abs", "acos", "acosh", "angle")))
    options = {"ci": True, "wide": False, "bless": False, "backward": False, "only": "abs,acos,acosh,add", "dtypes": None, "layouts": None,
               "modes": None, "samples": None, "stride": 2, "first": 1}
    assert [job["key"] for job in op_db.jobs(options)] == ["acos", "add"]


def test_expected_classes_per_dtype(monkeypatch, tmp_path):
    """A file has the differences from the classes of f32; a change for the worse, one for the better and an absent entry are changes."""
    monkeypatch.setattr(op_db, "EXPECTED", tmp_path)
    (tmp_path / "op_db_expected.txt").write_text("add\tnative\nsvd\tpytorch\n")
    found = {"add f32": "native", "add c64": "pytorch", "svd f32": "pytorch", "svd f64": "native", "svd bf16": "native",
             "lcm i64": "native", "lcm u8": "wrong"}
    expected = lambda: op_db.Expected({"wide": True, "backward": False})
    expected().write(found)
    assert (tmp_path / "wide_expected.txt").read_text() == "lcm\tu8\twrong\nsvd\tf64,bf16\tnative\n"
    assert not list(expected().changes(found, True))
    for change in ({"add c64": "native"}, {"add f32": "wrong"}, {"lcm u8": "native"}, {"svd f64": "pytorch"}):
        (name, kind), = change.items()
        assert list(expected().changes(found | change, True)) == [(name, found[name], kind)]
    del found["lcm u8"]
    assert list(expected().changes(found, True)) == [("lcm u8", "wrong", "absent")] and not list(expected().changes(found, False))


def test_each_layout_gets_samples_of_its_own():
    assert [op_db.turn([0, 3, 6], 2 * n, 2) for n in range(3)] == [[0, 3], [6, 0], [3, 6]]
    assert op_db.turn([5], 2, 2) == [5] and op_db.turn([], 0, 2) == []


def test_numbers_and_other_sizes():
    class Sample:
        input, args, kwargs = torch.arange(6.0).view(2, 3), ([2, torch.ones(3)], True), {"x": 0.5}

    class Op:
        name = "op"

        @staticmethod
        def op(a, b, flag, x):
            return a * b[0] + b[1] * x if flag else a

    f, arguments, *_ = op_db.call_of(Op, Sample, numbers=True)
    assert arguments[1] == 2 and arguments[3] == 0.5 and len(arguments) == 4
    longer = op_db.laid_out(Op, arguments, "longer")
    assert longer[0].tolist() == [[0, 1, 2, 0], [3, 4, 5, 3], [0, 1, 2, 0]] and longer[1] == 2
    assert torch.equal(f(*longer), longer[0] * 2 + 0.5)
    assert op_db.laid_out(Op, arguments, "empty")[0].shape == (0, 3)


def test_gradients_are_a_part_of_the_answer():
    def f(x, w, unused):
        return x.detach(), (x * w).t(), x.argmax()

    x, w = torch.arange(6.0).view(2, 3), torch.ones(3)
    (kept, product, place), differentiable, (dx, dw, none) = backward.WithGradients(f, [0, 1, 2])(x, w, torch.ones(1))
    dy = backward.tangent(product, 1).t()
    assert differentiable == [False, True, False] and not product.requires_grad and place == 5 and torch.equal(kept, x)
    assert torch.equal(dx, dy) and torch.equal(dw, (x * dy).sum(0)) and none is None and x.grad is None
    with pytest.raises(backward.NoGradients):
        backward.WithGradients(torch.argmax, [0])(x)


def test_any_of_several_equal_elements_may_get_the_gradient():
    rows = torch.tensor([[0.0, 1, 2], [0, 4, 5]])  # equal elements along axis 0 only

    def taken(name, x, *args, layout="given", **kwargs):
        op, sample = type("Op", (), {"name": name}), type("Sample", (), {"args": args, "kwargs": kwargs})
        op_db.laid_out(op, [x], layout)
        try:
            return op_db.laid_out(op, [x], layout, sample)[0] is not None
        except op_db.NoLayout as why:
            assert "several equal elements" in str(why)
            return False

    assert not taken("msort", rows) and taken("msort", rows.t())
    assert taken("sort", rows) and not taken("sort", rows, 0) and not taken("sort", rows, dim=0) and taken("sort", rows, 0, stable=True)
    assert taken("topk", rows, 2) and not taken("topk", rows, 1, 0) and not taken("topk", rows.t(), 2)
    assert taken("sort", torch.tensor(1.0)) and not taken("sort", rows, layout="expanded") and taken("sort", rows, stable=True, layout="expanded")


def test_a_wrong_gradient_is_wrong():
    class OffByLittle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, share):
            ctx.share = share
            return x * 1

        @staticmethod
        def backward(ctx, dy):
            return dy * ctx.share, None

    found = [trial.check(backward.WithGradients(lambda x: OffByLittle.apply(x, 1.0 if torch.compiler.is_compiling() else share), [0]), [[torch.ones(3)]],
                         {"backend": "aot_eager", "dynamic": False})["class"] for share in (1.0, 1.001)]
    assert found == ["right", "pytorch wrong"]  # the reference is planted, so every backend differs


def test_modules_take_their_parameters_as_arguments():
    (sample, *_) = list(backward.modules()["nn.Linear"].sample_inputs("cpu", torch.float32, True))
    f, tensors, *_ = op_db.call_of(backward.modules()["nn.Linear"], sample)
    _, _, gradients = f(*[t.double() for t in tensors])
    assert len(gradients) == len(f.leaves) >= 2 and all(g.dtype == torch.float64 for g in gradients)

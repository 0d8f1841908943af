"""A step of an optimizer is a graph that reads and writes its inputs. It is right and runs wholly in Tenon.

A compiled step of some optimizers differs from eager's in f64, whatever the backend: Dynamo traces their capturable form, which
keeps counts of steps in f32. So steps are compared with Dynamo's graph in eager mode, and with eager by a wider tolerance."""

import copy
import itertools
import math

import pytest
import torch
from torch._dynamo.utils import counters
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.testing._internal.common_optimizers import optim_db

import tenon
from tenon import report

from sample import in_turn

# The import forbids the tests of this process to set flags of torch.backends.
torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True

SHAPES = [(3, 4), (7,), (2, 3, 5), (1,), (64, 9)]
UNTRACED = "Adafactor", "LBFGS", "SparseAdam"  # PyTorch forbids it; a closure; sparse gradients


def parameters(shapes, dtype=torch.float64):
    return [torch.nn.Parameter(torch.full(s, 0.5, dtype=dtype)) for s in shapes]


def step(cls, shapes, options, backend, steps=4, dtype=torch.float64, rounded=None):
    """The parameters after some steps with the same gradients, which are `rounded` (to dtype). backend: None for eager."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    values = parameters(shapes, dtype)
    optimizer = cls(values, **options)
    run = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
    for _ in range(steps):
        for p in values:
            p.grad = torch.randn(p.shape).to(rounded or dtype).to(dtype)
        run()
    return values


def cases():
    """Each implementation of each class with PyTorch's first sample of its options, and with one of the others in turn."""
    for info in optim_db:
        if (name := info.optim_cls.__name__) in UNTRACED:
            continue
        first, *others = info.optim_inputs_func(device="cpu")
        kinds = (None, True, False) if "foreach" in info.supported_impls else (None,)
        for foreach, given in [*((kind, first) for kind in kinds), *in_turn(kinds, others)]:
            options = dict(given.kwargs, **{} if foreach is None else {"foreach": foreach})
            yield pytest.param(info.optim_cls, options, id=f"{name}-{given.desc}-{foreach}")


@pytest.mark.parametrize("cls, options", list(cases()))
def test_a_step(cls, options):
    shapes = [s for s in SHAPES if cls.__name__ != "Muon" or len(s) == 2]
    ours = step(cls, shapes, options, "tenon")
    assert tenon.stats()["fallback_reasons"] == {} and tenon.stats()["calls"] == 4
    close = {"rtol": 1e-9, "atol": 1e-9} if cls.__name__ != "Muon" else {"rtol": 1e-2, "atol": 1e-2}  # Muon multiplies in bf16
    torch.testing.assert_close(ours, step(cls, shapes, options, "eager"), **close)
    if cls.__name__ != "Muon":
        torch.testing.assert_close(ours, step(cls, shapes, options, None), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", UNTRACED)
def test_what_is_untraced_runs_in_pytorch(name):
    cls = next(info.optim_cls for info in optim_db if info.optim_cls.__name__ == name)
    p, = parameters(SHAPES[:1])
    p.grad = torch.ones_like(p).to_sparse() if name == "SparseAdam" else torch.ones_like(p)
    torch.compile(cls([p]).step, backend="tenon")(*[lambda: p.detach().sum()] * (name == "LBFGS"))
    assert (p != 0.5).all() and tenon.stats()["programs"] == tenon.stats()["fallbacks"] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name, options", [("AdamW", {"eps": 1e-3}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adagrad", {}), ("Adamax", {})])
def test_steps_of_narrow_dtypes(name, options, dtype):
    """The error against f64 is about that of Dynamo's graph in eager mode."""
    cls = getattr(torch.optim, name)
    exact = step(cls, SHAPES, {"lr": 0.1, **options}, None, rounded=dtype)
    error = {}
    for backend in ("tenon", "eager"):
        values = step(cls, SHAPES, {"lr": 0.1, **options}, backend, dtype=dtype)
        error[backend] = sum((p - q).square().sum().item() for p, q in zip(values, exact)) ** 0.5
    assert 0 < error["tenon"] < 1.1 * error["eager"] < math.inf and tenon.stats()["fallbacks"] == 0, error


def test_kernels_serve_any_number_of_tensors():
    compiled = []
    for count in (8, 64):
        tenon.reset_stats()
        step(torch.optim.AdamW, [(5, 11)] * count, {"foreach": True}, "tenon", steps=1)
        compiled.append(tenon.stats()["kernels_compiled"])
        assert tenon.stats()["programs"] == 1
    assert 0 < compiled[0] == compiled[1]


def test_a_scheduler_of_a_tensor_makes_no_graph():
    results = []
    for backend in ("tenon", None):
        torch.manual_seed(0)
        counters.clear()
        values = parameters(SHAPES)
        optimizer = torch.optim.AdamW(values, lr=torch.tensor(0.1, dtype=torch.float64))
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        run = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
        for _ in range(10):
            for p in values:
                p.grad = torch.randn_like(p)
            run()
            scheduler.step()
        results.append(values)
        assert counters["stats"]["unique_graphs"] == (backend == "tenon")
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    assert tenon.stats()["programs"] == 1 and tenon.stats()["fallbacks"] == 0 and tenon.stats()["calls"] == 10


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_wrong_gradients_are_clipped_as_in_eager_mode(wrong):
    results = []
    for backend in ("tenon", None):
        torch.manual_seed(0)
        values = parameters(SHAPES)
        optimizer = torch.optim.AdamW(values, lr=0.1)

        def clipped():
            norm = torch.nn.utils.clip_grad_norm_(values, 1.0)
            optimizer.step()
            return norm

        run, norms = torch.compile(clipped, backend=backend) if backend else clipped, []
        for place in (None, (1, 2), None):
            for p in values:
                p.grad = torch.randn_like(p)
            if place:
                values[0].grad[place] = wrong
            norms.append(run())
        results.append((norms, values, [p.grad for p in values]))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert not results[0][0][1].isfinite() and results[0][1][0].isnan().sum() == (1 if wrong == math.inf else 12)
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_an_averaged_model():
    """PyTorch reads the count of models; all else is one program."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5))
    want = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    got = copy.deepcopy(want)
    update = torch.compile(lambda: got.update_parameters(model), backend="tenon")
    for _ in range(4):
        for p in model.parameters():
            p.add_(torch.randn_like(p))
        update()
        want.update_parameters(model)
    torch.testing.assert_close(dict(got.state_dict()), dict(want.state_dict()))
    assert tenon.stats()["fallbacks"] == 0 and tenon.stats()["calls"] >= 3


def test_a_step_updates_in_place(library, monkeypatch):
    programs, track = [], report.track
    monkeypatch.setattr(report, "track", lambda program: (programs.append(program), track(program)))
    shapes = [*SHAPES, (11, 3)]  # of no other test, whose program would be used again
    step(torch.optim.AdamW, shapes, {"lr": torch.tensor(0.01)}, "tenon")
    (text,), (program,) = library.texts, programs
    assert text.count(" updates ") == 4 * len(shapes)  # parameters, two averages, counts of steps
    assert program.stats()["workspace_bytes"] < 64 * 9 * 8


@torch.no_grad()
@pytest.mark.parametrize("foreach", [True, False])
def test_clipped_gradients_and_averages(foreach):
    def f(values, averages, of_lists):
        norm = torch.nn.utils.clip_grad_norm_(values, 1.0, foreach=foreach)
        if of_lists:
            torch._foreach_lerp_(averages, [p.grad for p in values], 0.1)
        else:
            for a, p in zip(averages, values):
                a.lerp_(p.grad, 0.1)
        return norm

    results = {}
    for backend in ("tenon", None):
        torch.manual_seed(0)
        values, averages = parameters(SHAPES), [torch.zeros(s, dtype=torch.float64) for s in SHAPES]
        run = torch.compile(f, backend=backend, fullgraph=True) if backend else f
        for _ in range(3):
            for p in values:
                p.grad = torch.randn_like(p)
            norm = run(values, averages, foreach)
        results[backend] = norm, [p.grad for p in values], averages
    torch.testing.assert_close(results["tenon"], results[None], rtol=1e-12, atol=1e-12)
    assert tenon.stats()["fallback_reasons"] == {}


@torch.no_grad()
def test_ops_of_lists():
    """Every _foreach op that writes to no operand, in one function."""
    def f(xs, ys):
        return [torch._foreach_add(xs, ys, alpha=2), torch._foreach_sub(xs, 1.5), torch._foreach_mul(xs, [2.0, 3.0]), torch._foreach_div(xs, ys),
                torch._foreach_maximum(xs, ys), torch._foreach_minimum(xs, 0.1), torch._foreach_clamp_min(xs, ys), torch._foreach_clamp_max(xs, [0.2, 0.3]),
                torch._foreach_addcdiv(xs, ys, ys, value=0.5), torch._foreach_addcmul(xs, ys, xs, [0.5, 2.0]), torch._foreach_lerp(xs, ys, 0.3),
                torch._foreach_norm(xs), torch._foreach_norm(xs, float("inf")), torch._foreach_pow(ys, 2), torch._foreach_pow(2.0, xs),
                *(getattr(torch, f"_foreach_{name}")(ys) for name in ("abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "neg", "sign", "round", "erf", "tanh"))]

    xs, ys = ([torch.rand(3, 4) + 0.5, torch.rand(5) + 0.5] for _ in range(2))
    torch.testing.assert_close(torch.compile(f, backend="tenon", fullgraph=True)(xs, ys), f(xs, ys))
    assert tenon.stats()["fallback_reasons"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wrong", [None, float("inf"), float("nan")])
def test_gradients_of_a_scaled_loss(dtype, wrong):
    def unscale(gradients, found_inf, inv_scale):
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inv_scale)

    torch.manual_seed(0)
    gradients = [torch.randn(3, 5).to(dtype), torch.randn(1).to(dtype), torch.randn(0).to(dtype), torch.randn(7, 3).to(dtype).t()]
    if wrong is not None:
        gradients[3][1, 2] = wrong
    want = [g.clone() for g in gradients], torch.zeros(1)
    unscale(*want, torch.tensor([0.3]))
    got = [g.clone() for g in gradients], torch.zeros(1)
    torch.compile(unscale, backend="tenon", fullgraph=True, options={"fallback": "error"})(*got, torch.tensor([0.3]))
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    assert got[1].item() == (wrong is not None)


@pytest.mark.parametrize("found_inf", [0.0, 1.0])
def test_the_scale_of_a_loss(found_inf):
    torch._dynamo.reset()
    update = torch.compile(torch._amp_update_scale_, backend="tenon", fullgraph=True, options={"fallback": "error"})
    for scale, steps, interval in itertools.product([1.0, 3e38, 65536.0], [0, 1, 2], [1, 2, 2000]):
        def tensors():
            return torch.tensor([scale]), torch.tensor([steps], dtype=torch.int32), torch.tensor([found_inf])

        want, got = tensors(), tensors()
        torch._amp_update_scale_(*want, 2.0, 0.5, interval)
        update(*got, 2.0, 0.5, interval)
        assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1]), (scale, steps, interval)

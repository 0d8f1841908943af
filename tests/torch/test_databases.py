"""PyTorch's lists of autograd functions, higher-order operators and operators under autocast: results and gradients of Tenon against eager
mode. A fifth of the entries; TENON_TESTS=all takes all. tests/campaign has PyTorch's table of operators."""

import os

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_leaves, tree_map

import tenon

IN_PYTORCH = {"torch_16-_addmm_activation", "torch_16-conv_tbc", "torch_16-_native_multi_head_attention"}  # without a derivative or a row


def of_database(database):
    for op in database:
        if torch.float32 in op.supported_dtypes("cpu"):
            yield op.name, lambda op=op: [(op.op, (s.input, *s.args), s.kwargs) for s in samples_of(op)[:2]]


def samples_of(op):
    return list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))


def of_autocast():
    """The lists have rows (name, arguments, keywords or a number)."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        lists = AutocastCPUTestLists(torch.device("cpu"))
    for kind, rows in vars(lists).items():
        for name, args, *more in rows:
            places = [torch.nn.functional] * ("nn_" in kind) + [torch, torch._C._nn, torch.Tensor]
            f = next(getattr(place, name) for place in places if hasattr(place, name))
            keywords = more[0] if more and isinstance(more[0], dict) else {}
            yield f"{kind}-{name}", lambda f=f, args=args, keywords=keywords: [(autocast(f), tree_map(with_gradient, tuple(args)), keywords)]


def autocast(f):
    def run(*args, **keywords):
        with torch.autocast("cpu", torch.bfloat16):
            return f(*args, **keywords)
    run.exact = f
    return run


def in_f64(x):
    return x.detach().double().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def compare(got, want, f, args, keywords):
    """Under autocast, where eager mode rounds sums to 16 bits, the error against f64 is at most twice eager's and a rounding to bf16."""
    if not hasattr(f, "exact"):
        return torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
    exact = outcome(f.exact, tree_map(in_f64, args), keywords)
    for g, w, e in zip(*map(tree_leaves, (got, want, exact)), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        error, eager = ((t.double() - e.double()).square().mean().sqrt().item() for t in (g, w))
        assert error <= 2 * eager + e.double().abs().max().item() * 2**-9, (error, eager)


def with_gradient(x):
    return x.detach().clone().requires_grad_(x.is_floating_point()) if isinstance(x, torch.Tensor) else x


def outcome(f, args, keywords):
    """(results, gradients of the arguments)"""
    args = tree_map(lambda x: x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x, args)
    torch.manual_seed(0)
    results = [t for t in tree_leaves(f(*args, **keywords)) if isinstance(t, torch.Tensor)]
    needed = [t for t in results if t.requires_grad]
    leaves = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
    gradients = torch.autograd.grad(needed, leaves, [torch.ones_like(t) for t in needed], allow_unused=True) if needed else ()
    return [t.detach() for t in results], list(gradients)


ENTRIES = [("function", *e) for e in of_database(autograd_function_db)] + [("higher order", *e) for e in of_database(hop_db)]
ENTRIES += [("autocast", *e) for e in of_autocast()]
STEP = 1 if os.environ.get("TENON_TESTS") == "all" else 5


@pytest.mark.parametrize("group, name, samples", ENTRIES[::STEP], ids=[name for _, name, _ in ENTRIES[::STEP]])
def test_entry(group, name, samples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # PyTorch's min-cut fails for an entry, and writes its graph to a file here
    for f, args, keywords in samples():
        try:
            want = outcome(f, args, keywords)
        except Exception as e:
            with pytest.raises(Exception):  # noqa: B017: eager mode refuses these arguments too
                outcome(torch.compile(f, backend="tenon"), args, keywords)
            assert group == "autocast", e
            return
        torch._dynamo.reset()
        compare(outcome(torch.compile(f, backend="tenon"), args, keywords), want, f, args, keywords)
    reasons = tenon.stats()["fallback_reasons"]
    assert group == "higher order" or bool(reasons) == (name in IN_PYTORCH), reasons

"""PyTorch's lists of autograd functions, higher-order operators and operators under autocast: results and gradients of Tenon against eager
mode, of several dtypes and layouts. A fifth of the entries; TENON_TESTS=all takes all. tests/campaign has PyTorch's table of operators."""

import os
import sys
from pathlib import Path

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import tenon

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from campaign.op_db import arrange, emptied  # noqa: E402
from campaign.oracle import same_strides     # noqa: E402

# Without a row, or PyTorch's min-cut fails. Without a derivative, or of inputs that eager mode refuses. All others run wholly in Tenon.
IN_PYTORCH = {"scan-simple", "map-simple", "map-nested", "map-triple_nested", "cond-simple", "while_loop-simple", "while_loop_stack_output-simple",
              "invoke_quant-simple", "invoke_quant_packed-simple", "auto_functionalize-simple", "torch_16-conv_tbc"}
NOT_EMPTY = ("SelectAutogradFunction SelectGenVmapAutogradFunction ForwardHasDefaultArgsAutogradFunction "
             "scan-simple map-simple map-nested map-triple_nested")
REFUSED = {"torch_16-_addmm_activation-given", "torch_16-_native_multi_head_attention-given", "scan-simple-float32-transposed",
           *(f"{name}-float64-empty" for name in NOT_EMPTY.split())}
WAYS = [(torch.float32, "given"), (torch.float64, "given"), (torch.float32, "transposed"), (torch.float64, "empty")]


def of_database(database):
    for op in database:
        name = op.name + f"-{op.variant_test_name}" * bool(op.variant_test_name)
        for dtype, layout in WAYS:
            if dtype in op.supported_dtypes("cpu"):
                yield name, f"{str(dtype)[6:]}-{layout}", lambda op=op, dtype=dtype, layout=layout: [
                    (op.op, laid_out((s.input, *s.args), layout), s.kwargs) for s in samples_of(op, dtype)]


def samples_of(op, dtype):
    return list(op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd))


def laid_out(args, layout):
    leaves, spec = tree_flatten(args)
    made = emptied(leaves) if layout == "empty" else [arrange(t, layout) for t in leaves]
    keep = lambda new, old: new.requires_grad_(old.requires_grad) if isinstance(new, torch.Tensor) else new  # noqa: E731
    return tree_unflatten(list(map(keep, made or leaves, leaves)), spec)


def of_autocast():
    """The lists have rows (name, arguments, keywords or a number)."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        lists = AutocastCPUTestLists(torch.device("cpu"))
    for kind, rows in vars(lists).items():
        for name, args, *more in rows:
            places = [torch.nn.functional] * ("nn_" in kind) + [torch.Tensor] * ("methods" in kind) + [torch, torch._C._nn, torch.Tensor]
            f = next(getattr(place, name) for place in places if hasattr(place, name))
            keywords = more[0] if more and isinstance(more[0], dict) else {}
            yield f"{kind}-{name}", "given", lambda f=f, args=args, keywords=keywords: [(autocast(f), tree_map(with_gradient, tuple(args)), keywords)]


def autocast(f):
    def run(*args, **keywords):
        with torch.autocast("cpu", torch.bfloat16):
            return f(*args, **keywords)
    run.exact = f
    return run


def in_f64(x):
    return x.detach().double().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def compare(got, want, f, args, keywords):
    """Strides too. Under autocast, where eager mode rounds sums to 16 bits, the error against f64 is at most twice eager's and a rounding to bf16."""
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert g is w is None or same_strides(g, w), (g.shape, g.stride(), w.stride())
    if not hasattr(f, "exact"):
        return torch.testing.assert_close(got, want, equal_nan=True)
    exact = outcome(f.exact, tree_map(in_f64, args), keywords)
    for g, w, e in zip(*(filter(torch.is_tensor, tree_leaves(tree)) for tree in (got, want, exact)), strict=True):
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
    torch.autograd.backward(needed, [torch.ones_like(t) for t in needed], inputs=leaves) if needed else None
    return [t.detach() for t in results], [t.grad for t in leaves]


ENTRIES = [e for database in (autograd_function_db, hop_db, None) for e in (of_database(database) if database else of_autocast())]
NAMES = list(dict.fromkeys(name for name, *_ in ENTRIES))[::1 if os.environ.get("TENON_TESTS") == "all" else 5]
ENTRIES = [e for e in ENTRIES if e[0] in NAMES]


@pytest.mark.parametrize("name, way, samples", ENTRIES, ids=[f"{name}-{way}" for name, way, _ in ENTRIES])
def test_entry(name, way, samples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # PyTorch's min-cut fails for an entry, and writes its graph to a file here
    found = "native"
    for f, args, keywords in samples():
        try:
            want = outcome(f, args, keywords)
        except Exception:
            with pytest.raises(Exception):  # noqa: B017: eager mode refuses these arguments too
                outcome(torch.compile(f, backend="tenon"), args, keywords)
            found = "refused"
            break
        torch._dynamo.reset()
        compare(outcome(torch.compile(f, backend="tenon"), args, keywords), want, f, args, keywords)
    found = "pytorch" if found == "native" and tenon.stats()["fallbacks"] else found
    expected = "refused" if f"{name}-{way}" in REFUSED else "pytorch" if name in IN_PYTORCH else "native"
    assert found == expected, tenon.stats()["fallback_reasons"]

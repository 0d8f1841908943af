"""PyTorch's lists of autograd functions, higher-order operators and operators under autocast: results and gradients of Tenon against eager
mode, of several dtypes and layouts. A fifth of the entries; TENON_TESTS=all takes all. tests/campaign has PyTorch's table of operators."""

import itertools
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

from campaign.op_db import arrange, emptied                        # noqa: E402
from campaign.oracle import counterpart, kind, rms, same_strides  # noqa: E402

IN_PYTORCH = {  # Tenon has no row, or PyTorch's min-cut fails
    "scan-simple", "map-simple", "map-nested", "map-triple_nested", "cond-simple", "while_loop-simple", "while_loop_stack_output-simple",
    "invoke_quant-simple", "invoke_quant_packed-simple", "auto_functionalize-simple", "torch_16-conv_tbc",
    "nn_fp32-huber_loss-empty", "nn_fp32-mse_loss-empty", "nn_fp32-smooth_l1_loss-empty"}
REFUSED = {  # eager mode raises too
    "torch_16-_addmm_activation", "torch_16-_native_multi_head_attention", "torch_16-conv_tbc-transposed", "auto_functionalize-simple-expanded",
    "while_loop-simple-expanded", "while_loop-simple-offset", "scan-simple-transposed", "scan-simple-expanded", "scan-simple-offset",
    *(f"{name}-empty" for name in (
        "SelectAutogradFunction SelectGenVmapAutogradFunction ForwardHasDefaultArgsAutogradFunction scan-simple map-simple map-nested "
        "map-triple_nested nn_fp32-avg_pool3d nn_fp32-multi_margin_loss nn_fp32-multilabel_margin_loss nn_fp32-reflection_pad1d torch_16-conv1d "
        "torch_16-conv2d torch_16-conv3d torch_16-conv_transpose1d torch_16-conv_transpose2d torch_16-conv_transpose3d torch_16-conv_tbc").split())}
NOT_TRACEABLE = {"while_loop_stack_output-simple-expanded", "while_loop_stack_output-simple-offset"}  # Dynamo raises with every backend
TENON_ONLY = {"nn_fp32-nll_loss2d-transposed"}  # eager mode raises in its backward pass, and Tenon has the answer
EXCEPTIONS = {"pytorch": IN_PYTORCH, "refused": REFUSED, "not traceable": NOT_TRACEABLE, "tenon only": TENON_ONLY}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
LAYOUTS = ("given", "transposed", "expanded", "offset", "misaligned", "empty")
ALL = os.environ.get("TENON_TESTS") == "all"


def ways(dtypes, first):
    """Returns pairs (dtype, layout): all, or each layout once with the dtypes in turn."""
    dtypes = [dtype for dtype in DTYPES if dtype in dtypes]
    turns = itertools.islice(itertools.cycle(dtypes), first, first + len(LAYOUTS))
    return list(itertools.product(dtypes, LAYOUTS)) if ALL else list(zip(turns, LAYOUTS))


def of_database(database):
    for op in database:
        name = op.name + f"-{op.variant_test_name}" * bool(op.variant_test_name)
        yield name, op.supported_dtypes("cpu"), lambda dtype, op=op: [
            (op.op, (s.input, *s.args), s.kwargs) for s in op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd)]


def of_autocast():
    """The lists have rows (name, arguments, keywords or a number). Their arguments of 16 bits get the dtype of autocast."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        lists = AutocastCPUTestLists(torch.device("cpu"))
    for kind, rows in vars(lists).items():
        for name, args, *more in rows:
            places = [torch.nn.functional] * ("nn_" in kind) + [torch.Tensor] * ("methods" in kind) + [torch, torch._C._nn, torch.Tensor]
            f = next(getattr(place, name) for place in places if hasattr(place, name))
            keywords = more[0] if more and isinstance(more[0], dict) else {}
            yield f"{kind}-{name}", (torch.bfloat16, torch.float16), lambda dtype, f=f, args=args, keywords=keywords: [
                (autocast(f, dtype), tree_map(lambda x: autocast_argument(x, dtype), tuple(args)), keywords)]


def autocast(f, dtype):
    def run(*args, **keywords):
        with torch.autocast("cpu", dtype):
            return f(*args, **keywords)
    run.exact = f
    return run


def autocast_argument(x, dtype):
    if not isinstance(x, torch.Tensor):
        return x
    return x.to(dtype if x.dtype == torch.bfloat16 else x.dtype, copy=True).requires_grad_(x.is_floating_point())


def laid_out(args, layout):
    leaves, spec = tree_flatten(args)
    made = emptied(leaves) if layout == "empty" else [arrange(t, layout) for t in leaves]
    return tree_unflatten(list(map(as_before, made or leaves, leaves)), spec)


def as_before(x, before):
    """Returns x, which requires a gradient if `before` does."""
    return x.requires_grad_(before.requires_grad) if isinstance(x, torch.Tensor) else x


def copied(args):
    return tree_map(as_before, counterpart(args), args)


def contiguous(x, dtype=None):
    """Returns a float tensor without gaps, of `dtype` if given; anything else as it is."""
    return as_before(x.detach().to(dtype).contiguous(), x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def in_f64(x):
    return contiguous(x, torch.float64)


def compare(got, want, exact, dtype):
    """Compares strides too. Floats of 16 bits, whose sums eager mode rounds, may differ from f64 by twice eager's error and a rounding."""
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert g is w is None or same_strides(g, w), (g.shape, g.stride(), w.stride())
    if exact is None:
        return torch.testing.assert_close(got, want, equal_nan=True)
    for g, w, e in zip(*(filter(torch.is_tensor, tree_leaves(tree)) for tree in (got, want, exact)), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        g, w, e = g.double(), w.double(), e.double()
        assert torch.equal(kind(g), kind(w)), "NaN or infinity"
        finite = w.isfinite() & e.isfinite()
        if finite.any():
            error, eager = (rms(t[finite] - e[finite]) for t in (g, w))
            assert error <= 2 * eager + e[finite].abs().max().item() * torch.finfo(dtype).eps / 4, (error, eager)


def outcome(f, args, keywords):
    """Returns (results, gradients of the arguments)."""
    torch.manual_seed(0)
    results = [t for t in tree_leaves(f(*args, **keywords)) if isinstance(t, torch.Tensor)]
    needed = [t for t in results if t.requires_grad]
    leaves = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
    torch.autograd.backward(needed, [torch.ones_like(t) for t in needed], inputs=leaves) if needed else None
    return [t.detach() for t in results], [t.grad for t in leaves]


FOUND = [*of_database(autograd_function_db), *of_database(hop_db), *of_autocast()]
ENTRIES = [(name, dtype, layout, samples) for n, (name, dtypes, samples) in enumerate(FOUND) if ALL or n % 5 == 0
           for dtype, layout in ways(dtypes, n)]


def way(entry):
    name, dtype, layout, _ = entry
    return f"{name}-{str(dtype)[6:]}-{layout}"


def expected(name, layout):
    """Returns the class of the most particular exception, else native."""
    return next((kind for key in (f"{name}-{layout}", name) for kind, names in EXCEPTIONS.items() if key in names), "native")


def class_of(f, args, keywords, dtype):
    """Returns the class of a call. Fails if Tenon's answer differs from eager mode's."""
    want, refusal = attempt(f, copied(args), keywords)
    torch._dynamo.reset()
    got, error = attempt(torch.compile(f, backend="tenon"), copied(args), keywords)
    if refusal and error:
        return "refused"
    if refusal:
        torch.testing.assert_close(got, outcome(f, tree_map(contiguous, args), keywords))
        return "tenon only"
    if error:
        theirs = attempt(torch.compile(f, backend="eager"), copied(args), keywords)[1]
        assert str(theirs) == str(error), error
        return "not traceable"
    compare(got, want, outcome(getattr(f, "exact", f), tree_map(in_f64, args), keywords) if dtype.itemsize == 2 else None, dtype)
    return "pytorch" if tenon.stats()["fallbacks"] else "native"


def attempt(f, args, keywords):
    """Returns (outcome, None), or (None, its exception)."""
    try:
        return outcome(f, args, keywords), None
    except Exception as error:
        return None, error


@pytest.mark.parametrize("entry", ENTRIES, ids=way)
def test_entry(entry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # PyTorch's min-cut fails for an entry, and writes its graph to a file here
    name, dtype, layout, samples = entry
    found = {class_of(f, laid_out(args, layout), keywords, dtype) for f, args, keywords in samples(dtype)}
    assert found == {expected(name, layout)}, tenon.stats()["fallback_reasons"]

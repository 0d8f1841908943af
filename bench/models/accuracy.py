"""The accuracy rule for a compiled model: the rule of PyTorch's own benchmarks, applied to every tensor of the
output.

`check(reference, result, exact, tolerance)` compares the outputs of eager and of the compiled model, both in
the model's dtype, with eager in float64. Structure, shapes, dtypes and strides must agree (strides=False: other
strides are right, since the library has none). A floating tensor
passes if it is within `tolerance` (absolute and relative) of eager, or if its RMS distance from `exact` is at
most `k` times eager's own plus tolerance/10, so that it is as good as eager. Other dtypes must be equal.
Outputs may nest tuples, lists, dicts, dataclasses, None and numbers. Tested by tests/torch/test_accuracy.py.
"""

import dataclasses
import types
from dataclasses import dataclass, field

import torch


@dataclass
class Verdict:
    problems: list = field(default_factory=list)    # sentences; empty if the answer is right
    worst: float = 0.0                              # the largest RMS error as a share of its limit

    @property
    def ok(self):
        return not self.problems


def check(reference, result, exact, tolerance, strides=True):
    verdict = Verdict()
    ref, res, f64 = (dict(leaves(tree)) for tree in (reference, result, exact))
    if list(ref) != list(res):
        verdict.problems.append(f"output holds {', '.join(res) or 'nothing'}; eager's holds {', '.join(ref)}")
        return verdict
    for path in ref:
        problem, share = compare(ref[path], res[path], f64[path], tolerance, strides)
        verdict.worst = max(verdict.worst, share)
        if problem:
            verdict.problems.append(f"{path}: {problem}")
    return verdict


def compare(ref, res, exact, tolerance, strides=True):
    """(a sentence if `res` is wrong, otherwise None; its RMS error as a share of the limit)."""
    if not isinstance(ref, torch.Tensor) or not isinstance(res, torch.Tensor):
        same = type(ref) is type(res) and ref == res
        return (None if same else f"{res!r} instead of {ref!r}"), 0.0
    for what in ("dtype", "shape"):
        if getattr(ref, what) != getattr(res, what):
            return f"{what} {getattr(res, what)} instead of {getattr(ref, what)}", 0.0
    if strides and not same_strides(ref, res):
        return f"strides {res.stride()} instead of {ref.stride()}", 0.0
    if not ref.is_floating_point():
        wrong = (ref != res).sum().item()
        return (f"{wrong} of {ref.numel()} elements differ" if wrong else None), 0.0
    limit = factor(ref, tolerance) * rms(ref, exact) + tolerance / 10
    error = rms(res, exact)
    if torch.allclose(ref, res, rtol=tolerance, atol=tolerance, equal_nan=True) or error <= limit:
        return None, error / limit if error == error else 0.0
    return f"RMS error {error:.3g}, allowed {limit:.3g} (eager {rms(ref, exact):.3g})", 0.0


def factor(tensor, tolerance):
    """The factor `k` on eager's error: larger where rounding or few elements make the error erratic."""
    pooled = tensor.dim() == 4 and tensor.shape[2:] == (1, 1)
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    return 3.0 if half or pooled or tensor.numel() < 1000 or tolerance >= 2e-2 else 2.0


def rms(tensor, exact):
    if tensor.numel() == 0:
        return 0.0
    return (tensor.double() - exact.double()).square().mean().sqrt().item()


def same_strides(a, b):
    """Whether the strides agree. Strides of dimensions of size 1 and of empty tensors do not count."""
    return a.numel() == 0 or all(s == t for s, t, n in zip(a.stride(), b.stride(), a.shape) if n != 1)


def leaves(tree, path="output"):
    """Yields (path, leaf) for a nested output; a leaf is a tensor, a number, a string or None."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, dict):
        tree = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree)}
    if isinstance(tree, dict):      # the outputs of transformers are dicts without the fields that are None
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, (tuple, list)):
        for i, value in enumerate(tree):
            yield from leaves(value, f"{path}[{i}]")
    else:
        yield path, tree


def _depthwise(conv, x):
    """conv(x) for a depthwise nn.Conv2d, as a sum over the elements of windows. PyTorch takes a hundred times as long in float64."""
    x = torch.nn.functional.pad(x, (conv.padding[1], conv.padding[1], conv.padding[0], conv.padding[0]))
    windows = x.unfold(2, conv.kernel_size[0], conv.stride[0]).unfold(3, conv.kernel_size[1], conv.stride[1])
    y = torch.einsum("nchwij,cij->nchw", windows, conv.weight[:, 0])
    return y if conv.bias is None else y + conv.bias[:, None, None]


def _is_depthwise(module):
    return (type(module) is torch.nn.Conv2d and 1 < module.groups == module.in_channels == module.out_channels and module.dilation == (1, 1)
            and module.padding_mode == "zeros" and not isinstance(module.padding, str))


def in_float64(model, inputs):
    """The output of a copy of the model in float64."""
    import copy
    wide = copy.deepcopy(model).double()
    for module in wide.modules() if isinstance(wide, torch.nn.Module) else ():
        if _is_depthwise(module):
            module.forward = types.MethodType(_depthwise, module)
    with torch.no_grad():
        return wide(*(x.double() if x.is_floating_point() else x for x in inputs))

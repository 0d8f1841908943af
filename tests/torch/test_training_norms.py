"""Layer and group norms in graphs with gradients: statistics of 16-bit floats, channels first and last, few and many channels in a group."""

import pytest
import torch
import torch.nn.functional as F

import tenon
from sample import in_turn

aten = torch.ops.aten


def gradients(function, operands, grad):
    operands = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in operands]
    y = function(*operands)
    y.backward(grad.to(y.dtype))
    return [y.detach(), *(t.grad for t in operands)]


def error(got, want):
    return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(got, want))


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="tenon", options={"fallback": "error"} | options)


@pytest.mark.parametrize("recompute", ["cheap", "none"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm", ["layer", "group"])
def test_statistics_of_16_bit_floats_are_f32_if_the_gain_is(norm, dtype, recompute):
    """Eager mode keeps the mean in f32. A mean of 16 bits would make the gradients wrong by 10 times the rounding of their dtype."""
    torch.manual_seed(0)
    function = {"layer": lambda x, w, b: F.layer_norm(x, w.shape, w, b), "group": lambda x, w, b: F.group_norm(x, 4, w, b)}[norm]
    x = (torch.randn((64, 32) if norm == "layer" else (4, 32, 4, 4)) + 50).to(dtype)
    operands, grad = (x, torch.rand(32) + 0.5, torch.randn(32)), torch.randn(x.shape)
    exact = gradients(function, [t.double() for t in operands], grad)
    eager = gradients(function, operands, grad)
    got = gradients(compiled(function, recompute=recompute), operands, grad)
    assert [t.dtype for t in got] == [t.dtype for t in eager]
    for a, b, c in zip(got, eager, exact):
        assert error([a], [c]) <= 1.5 * error([b], [c])


@pytest.mark.parametrize("shape, norm", [
    ((3, 8), lambda x, w, b: torch.native_layer_norm(x, w.shape, w, b, 1e-5)),
    ((3, 8, 5), lambda x, w, b: torch.native_group_norm(x, w, b, x.shape[0], 8, x.shape[2], 2, 1e-5)),
])
def test_statistics_that_a_function_returns(shape, norm):
    operands = (torch.randn(shape), torch.rand(8) + 0.5, torch.randn(8))
    run = lambda f: gradients(lambda *t: (lambda y, mean, rstd: y * mean.sum() * rstd.sum())(*f(*t)), operands, torch.ones(shape))
    torch.testing.assert_close(run(compiled(norm)), run(norm))


IMAGES = {"image": (3, 12, 5, 7), "sequence": (2, 12, 9), "volume": (2, 12, 3, 2, 5), "pixel": (4, 12), "wide": (2, 192, 3, 5)}
WAYS = [(last, parameters, options) for options in ({}, {"recompute": "none"}, {"memory_budget": 0.3})
        for parameters in ("both", "weight", "none") for last in (False, True)]


@pytest.mark.parametrize("image, way", in_turn(IMAGES, WAYS, 4))
def test_group_norm(image, way):
    torch.manual_seed(1)
    last, parameters, options = way
    shape = IMAGES[image]
    x = torch.randn(shape)
    if last:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    operands = [x] + {"both": [torch.rand(shape[1]), torch.randn(shape[1])], "weight": [torch.rand(shape[1])], "none": []}[parameters]
    for groups in (1, 3, shape[1]) if len(shape) > 2 else (1, 3):
        function = lambda x, *p: F.silu(F.group_norm(F.relu(x) + 1, groups, *p)) * 2
        grad = torch.randn(shape)
        exact = gradients(function, [t.double() for t in operands], grad)
        assert error(gradients(compiled(function, **options), operands, grad), exact) < 1e-5


def test_group_norm_behind_a_convolution():
    """The library lays out the image channels last, although PyTorch's tracer says channels first."""
    torch.manual_seed(2)
    function = lambda x, w, v, p, q: F.conv2d(F.silu(F.group_norm(F.conv2d(x, w, padding=1), 4, p, q)), v)
    operands = [torch.randn(2, 4, 9, 7), torch.randn(24, 4, 3, 3), torch.randn(6, 24, 1, 1), torch.rand(24), torch.randn(24)]
    grad = torch.randn(2, 6, 9, 7)
    exact = gradients(function, [t.double() for t in operands], grad)
    assert error(gradients(compiled(function), operands, grad), exact) < 1e-5


@pytest.mark.parametrize("last", [False, True])
def test_group_norm_of_any_batch(last):
    torch.manual_seed(3)
    function = lambda x, w, b: F.group_norm(x * 2, 2, w, b).relu()
    run = compiled(function, fallback="count")
    for n in (2, 5, 1, 0):
        x = torch.randn(n, 8, 3, 5)
        operands = [x.to(memory_format=torch.channels_last) if last else x, torch.rand(8), torch.randn(8)]
        torch._dynamo.maybe_mark_dynamic(operands[0], 0)
        got, want = (gradients(f, operands, torch.ones_like(x)) for f in (run, function))
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("by_channels", [False, True])
def test_operators_in_pytorch(by_channels):
    """PyTorch runs these implementations of the operators if a call of the library faults."""
    torch.manual_seed(4)
    x, w, b, grad = torch.randn(2, 6, 3, 4).bfloat16(), torch.rand(6), torch.randn(6), torch.randn(2, 6, 3, 4).bfloat16()
    y, mean, rstd = torch.native_group_norm(x, w, b, 2, 6, 12, 3, 1e-5)
    ours = torch.ops.tenon.group_norm_statistics(x, 3, 1e-5, by_channels)
    torch.testing.assert_close(ours, (mean, rstd))
    torch.testing.assert_close(torch.ops.tenon.group_norm(x, *ours, w, b, by_channels), y)
    want = aten.native_group_norm_backward(grad, x, mean, rstd, w, 2, 6, 12, 3, [True] * 3)
    torch.testing.assert_close(torch.ops.tenon.group_norm_gradient(grad, x, *ours, w, [True] * 3, by_channels), want, rtol=2e-2, atol=2e-2)
    assert torch.ops.tenon.group_norm_gradient(grad, x, *ours, None, [True, False, False], by_channels)[1:] == (None, None)


def test_the_backward_pass_computes_no_statistics():
    x, w, b = torch.randn(2, 8, 6, 6), torch.rand(8), torch.rand(8)
    report = tenon.explain(lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)).sum(), *(t.requires_grad_() for t in (x, w, b)))
    assert "computes again" in str(report) and "group_norm.default (cheap)" in str(report)
    backward = str(report).partition("_backward(")[2]
    assert backward and "rsqrt" not in backward

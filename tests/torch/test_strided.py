"""Products, convolutions, poolings and attention, and the ops that follow them, with operands of every memory layout: parts of larger
tensors, every other element, transposed, expanded, misaligned. Batches of 2, 3 and 1, static and dynamic sizes."""

import pytest
import torch
import torch.nn.functional as F

import direct
from sample import in_turn

torch.manual_seed(0)


def wide(*shape):
    """A tensor of this shape that is a part of a larger tensor of NaN."""
    whole = torch.full([n + 5 for n in shape], float("nan"))
    part = whole[tuple(slice(2, 2 + n) for n in shape)]
    part.copy_(torch.randn(shape))
    return part


def every_other(*shape):
    whole = torch.full([2 * n for n in shape], float("nan"))
    part = whole[tuple(slice(1, None, 2) for _ in shape)]
    part.copy_(torch.randn(shape))
    return part


def turned(*shape):
    return torch.randn(shape[::-1]).permute(*reversed(range(len(shape))))


def misaligned(*shape):
    n = 1
    for s in shape:
        n *= s
    return torch.randn(n + 1)[1:].view(shape)


LYING = [torch.randn, wide, every_other, turned, misaligned]


def operands_of(shapes, mixed):
    return [LYING[(i + len(shape) + len(shapes)) % 5 if mixed else 0](*shape) for i, shape in enumerate(shapes)]


# Program, shapes of its operands for a batch.
PROGRAMS = {
    "gate": (lambda x, w, b, m: m.chunk(6, 1)[2][:, None] * F.linear(x, w, b),
             lambda n: [(n, 7, 24), (17, 24), (17,), (n, 6 * 17)]),
    "gate_add": (lambda x, w, b, m: x + m.chunk(6, 1)[5][:, None] * F.linear(x, w, b),
                 lambda n: [(n, 7, 24), (24, 24), (24,), (n, 6 * 24)]),
    "add_part": (lambda x, w, m: (x @ w) + m[:, None, 16:32], lambda n: [(n, 5, 8), (8, 16), (n, 40)]),
    "mul_part": (lambda x, w, m: (x @ w) * m[:, None, 16:32], lambda n: [(n, 5, 8), (8, 16), (n, 40)]),
    "bmm_part": (lambda x, w, m: torch.bmm(x, w) + m[:, None, 16:32], lambda n: [(n, 5, 8), (n, 8, 16), (n, 40)]),
    "bmm_column": (lambda x, w, m: torch.bmm(x, w) * m[:, 1:6, None], lambda n: [(n, 5, 8), (n, 8, 16), (n, 9)]),
    "one_row": (lambda x, w, m: x.expand(-1, 3, -1)[:, :1] @ w - m[:, None, 3:19], lambda n: [(n, 1, 8), (8, 16), (n, 40)]),
    "repeated_rows": (lambda x, w: F.relu(x[:1].expand(3, -1, -1) @ w), lambda n: [(n, 1, 8), (8, 16)]),
    "repeated_both": (lambda x, w: x[:1].expand(3, -1, -1) @ w[:1].expand(3, -1, -1), lambda n: [(n, 5, 8), (n, 8, 16)]),
    "bias_of_one": (lambda x, w, b: F.linear(x, w) + b[1:2], lambda n: [(n, 5, 8), (16, 8), (4,)]),
    "bias_of_rows": (lambda x, w, b: F.linear(x, w) + b[:, :1], lambda n: [(n, 8), (16, 8), (n, 4)]),
    "bias_every_other": (lambda x, w, b: F.linear(x, w, b[::2]), lambda n: [(n, 5, 8), (16, 8), (32,)]),
    "bias_scalar": (lambda x, w, b: F.linear(x, w) * b[1], lambda n: [(n, 5, 8), (16, 8), (4,)]),
    "flipped": (lambda x, w, r: F.linear(x.flip(1), w) + r.flip(0, 2), lambda n: [(n, 5, 8), (16, 8), (n, 5, 16)]),
    "residual_turned": (lambda x, w, r: F.relu(F.linear(x, w) + r.transpose(1, 2)), lambda n: [(n, 5, 8), (16, 8), (n, 16, 5)]),
    "attention_mask": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m[:15, :15]),
                       lambda n: [(n, 4, 15, 16), (n, 4, 15, 16), (n, 4, 15, 16), (16, 16)]),
    "attention_masks": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m[:, :, :15, :13]),
                        lambda n: [(n, 4, 15, 16), (n, 4, 13, 16), (n, 4, 13, 16), (n, 1, 16, 16)]),
    "attention_heads": (lambda x, m: F.scaled_dot_product_attention(
        *x.unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4).unbind(0), attn_mask=m[:, None, None, 1:8]),
                        lambda n: [(n, 7, 48), (n, 9)]),
    "convolution": (lambda x, w, b, r: F.relu(F.conv2d(x, w, b[1:17], padding=1) + r[:, 4:20]),
                    lambda n: [(n, 8, 7, 6), (16, 8, 3, 3), (20,), (n, 24, 7, 6)]),
    "convolution_channels": (lambda x, w, m: F.conv2d(x, w) * m[:, 2:18, None, None],
                             lambda n: [(n, 8, 7, 6), (16, 8, 1, 1), (n, 20)]),
    "convolution_groups": (lambda x, w, r: F.conv2d(x[:, 1:9], w, groups=4) + r[:, :, 1:, :-1],
                           lambda n: [(n, 10, 7, 6), (16, 2, 1, 1), (n, 16, 8, 7)]),
    "convolution_depthwise": (lambda x, w, r: F.silu(F.conv1d(x.transpose(1, 2), w, padding=1, groups=8)) * r.transpose(1, 2),
                              lambda n: [(n, 9, 8), (8, 1, 3), (n, 9, 8)]),
    "transposed_convolution": (lambda x, w, r: F.conv_transpose2d(x, w, stride=2) + r[:, 1:2],
                               lambda n: [(n, 8, 4, 3), (8, 16, 2, 2), (n, 3, 8, 6)]),
    "average": (lambda x, r: F.avg_pool2d(x[:, :, 1:7], 2) * r[:, None, 1:4, 2:5], lambda n: [(n, 5, 8, 6), (n, 5, 7)]),
}


@pytest.mark.parametrize("program, way", in_turn(PROGRAMS, ["dense static", "mixed static", "mixed dynamic", "dense dynamic"], 2))
def test_operands(program, way):
    function, shapes = PROGRAMS[program]
    mixed, dynamic = "mixed" in way, "dynamic" in way
    torch._dynamo.reset()
    # Sizes of heads as symbols make a SymFloat of the scale, those of images are not shown to be equal: there the batch alone becomes one.
    if dynamic and program in ("attention_mask", "attention_masks", "average"):
        dynamic = None
    compiled = torch.compile(function, backend="tenon", dynamic=dynamic, options={"fallback": "error"})
    if dynamic is False:
        compiled = lambda *operands: direct.call(function, operands, fallback="error")  # noqa: E731
    with torch.no_grad():
        for batch in (2, 3, 1):
            operands = operands_of(shapes(batch), mixed)
            torch.testing.assert_close(compiled(*operands), function(*operands), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_channels_last(batch):
    def function(x, w, r, b):
        return F.relu(F.conv2d(x, w, b, padding=1) + r), F.avg_pool2d(x * 2, 2) - r[:, :8, ::2, ::2]

    last = {"memory_format": torch.channels_last}
    x, r = torch.randn(batch, 8, 6, 4), torch.randn(batch, 16, 6, 4)
    w, b = torch.randn(16, 8, 3, 3), torch.randn(32)[::2]
    for turn_x in (False, True):
        for turn_r in (False, True):
            operands = (x.contiguous(**last) if turn_x else x, w, r.contiguous(**last) if turn_r else r, b)
            with torch.no_grad():
                got = direct.call(function, operands, fallback="error")
                torch.testing.assert_close(got, function(*operands), rtol=1e-4, atol=1e-4)


LAID_OUT_BY_PYTORCH = {
    "shuffle": lambda x: F.channel_shuffle(x, 2),
    "antialias": lambda x: F.interpolate(x, (7, 5), mode="bilinear", antialias=True),
    "unpool": lambda x: F.max_unpool2d(x[..., :3, :3] + 1, torch.arange(0, 36, 4).view(3, 3).expand(x.shape[0], 6, 3, 3), 2),
}


@pytest.mark.parametrize("name", LAID_OUT_BY_PYTORCH)
def test_channels_last_results_within_a_graph(name):
    """An op whose strides PyTorch's tracer gets wrong stays in PyTorch only if the graph returns its result."""
    op = LAID_OUT_BY_PYTORCH[name]
    x = torch.randn(2, 6, 11, 9).to(memory_format=torch.channels_last)
    inner = lambda x: op(x).exp() * 2
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(inner, backend="tenon", options={"fallback": "error"})(x), inner(x), check_stride=False)
    returned = torch.compile(op, backend="tenon")(x)
    torch.testing.assert_close(returned, op(x), check_stride=True)

"""The error of sums of many elements, against eager in f64: it must not grow with their number."""

import pytest
import torch
import torch.nn.functional as F

import direct

PROGRAMS = {
    "variance": lambda x: x.var(),
    "mean of squared differences": lambda x: ((x - x.mean()) ** 2).mean(),
    "broadcast product": lambda x: (x.view(2048, -1) * x[:4096]).sum(),
    "sum of a broadcast row": lambda x: (x.view(2048, -1) + x[:2048, None]).pow(2).mean(),
    "loss with weights": lambda x: F.binary_cross_entropy_with_logits(x.view(2048, -1), x.view(2048, -1).round(), pos_weight=x[:4096]),
    "variance of rows": lambda x: x.view(4, -1).var(1),
    "variance of columns": lambda x: x.view(-1, 4).var(0),
    "variance behind a transposed convolution": lambda x: F.conv_transpose2d(x.view(2, 16, 512, 512), x[: 16 * 8 * 4].view(16, 8, 2, 2), stride=2).var((2, 3)),
    "batch norm": lambda x: F.batch_norm(x.view(8, 1, 1024, 1024), None, None, training=True)[0, 0, 0],
    "group norm": lambda x: F.group_norm(x.view(1, 32, 512, 512), 1)[0, 0, 0],
    "softmax": lambda x: x.view(2, -1).softmax(1)[0, :99],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_error(name):
    x = torch.rand(1 << 23, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = PROGRAMS[name](x.double())
        got = direct.call(PROGRAMS[name], [x]).double()
    assert (got - want).norm() <= 5e-7 * want.norm()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [64, 224])
def test_error_of_equal_numbers(size, dynamic):
    """Sums of equal numbers round in one direction, so a chain of additions shows its length."""
    x = torch.full((2, 3, size, size), 2.2489)
    x[:, :, size // 4 : size // 2, size // 4 : size // 2] = torch.rand(2, 3, size // 4, size // 4)
    means = lambda x: (x.mean((0, 2, 3)), x.mean((2, 3)), x.mean(), x.var((2, 3)), F.batch_norm(x, None, None, training=True))
    with torch.no_grad():
        for got, want in zip(torch.compile(means, backend="tenon", dynamic=dynamic)(x), means(x.double())):
            assert (got - want).norm() <= 3e-6 * want.norm()


def test_error_of_repeated_rows_of_unknown_length():
    """The axis of the repeats stands between two others, whose lengths are not known either."""
    x = torch.rand(6, 4)
    compiled = torch.compile(lambda x, n: ((x[:, None].expand(-1, n, -1).repeat(1, 1, 2) - x.flip(0)[:, None].expand(-1, n, -1).repeat(1, 1, 2)) ** 2).sum(),
                             backend="tenon", dynamic=True)
    want = 20000 * 2 * ((x.double() - x.double().flip(0)) ** 2).sum()
    assert (compiled(x, 20000) - want).abs() <= 5e-7 * want

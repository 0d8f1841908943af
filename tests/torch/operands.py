"""Operands of attention for tests."""

import torch


def heads(batch, count, length, size, layout="first", dtype=torch.float32):
    """A leaf [batch, count, length, size]. last: of memory [batch, length, count, size]; sliced: of a part of each row; one: the heads
    and the batch share their elements; turned: of memory [batch, count, size, length]."""
    if layout == "last":
        t = torch.randn(batch, length, count, size, dtype=dtype).transpose(1, 2)
    elif layout == "sliced":
        t = torch.randn(batch, count, length, 2 * size + 3, dtype=dtype)[..., 2:size + 2]
    elif layout == "one":
        t = torch.randn(1, 1, length, size, dtype=dtype).expand(batch, count, length, size)
    elif layout == "turned":
        t = torch.randn(batch, count, size, length, dtype=dtype).mT
    else:
        t = torch.randn(batch, count, length, size, dtype=dtype)
    return t.detach().requires_grad_()

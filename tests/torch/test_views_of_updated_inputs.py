"""Functions that write to an input and return a view of it: AOTAutograd makes the view again from a result's sizes, strides and storage offset."""

import pytest
import torch

import tenon

VIEWS = {
    "rows": lambda x: x[2:],
    "half a row": lambda x: x[-1, : x.shape[1] // 2],
    "transposed": lambda x: x.t()[1:, 1 : x.shape[0] // 2],
    "several": lambda x: (x[1:], x[:, -1], x.unsqueeze(1)[1:]),
    "the input too": lambda x: (x, x[:, 1:]),
    "split": lambda x: x.split([1, x.shape[1] - 1], 1)[1],
}
WRITES = {
    "everything": lambda x: x.mul_(2),
    "a row": lambda x: x[0].mul_(2),
    "the transpose": lambda x: x.t().add_(1),
    "part of the view": lambda x: x[-1, : x.shape[1] // 2].neg_(),
    "by index": lambda x: x[1:][::2].index_fill_(0, torch.tensor([1, 0]), 7),
}
LAYOUTS = {
    "dense": lambda m: m[:],
    "offset": lambda m: m[1:],
    "padded": lambda m: m[:, 1:-1],
    "transposed": lambda m: m.t()[1:],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_view_of_an_updated_input(view, write, layout, dynamic):
    def f(x):
        WRITES[write](x)
        return VIEWS[view](x)

    compiled = torch.compile(f, backend="tenon", dynamic=dynamic, fullgraph=True)
    for rows, columns in ((8, 9), (11, 8)):
        memory = torch.randn(rows, columns)
        ours = memory.clone()
        with torch.no_grad():
            expected, got = f(LAYOUTS[layout](memory)), compiled(LAYOUTS[layout](ours))
        for a, b in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (got, expected)), strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
            assert a.untyped_storage().data_ptr() == ours.untyped_storage().data_ptr()
        torch.testing.assert_close(ours, memory)
    assert tenon.stats()["fallback_reasons"] == {}


def test_a_copy_of_an_updated_input_is_no_view_of_it():
    def f(x):
        y = x * 2
        x.copy_(y)
        return y[1:]

    compiled = torch.compile(f, backend="tenon", dynamic=True)
    x = torch.randn(5, 6)
    expected = 2 * x[1:]
    with torch.no_grad():
        y = compiled(x)
        x.zero_()
    torch.testing.assert_close(y, expected)

"""Kernels that combine views, flips and scans, so that indices do not follow the order of memory, against eager mode."""

import pytest
import torch

import tenon

PROGRAMS = {
    "flip_reshape_sum": lambda x: (x + x[0]).reshape(-1).flip(0),
    "flip_reshape_transpose": lambda x: x.transpose(0, 1).reshape(-1).flip(0),
    "flip_split": lambda x: x.transpose(1, 2).reshape(2, 5, -1).flip(-1),
    "flip_middle": lambda x: x.reshape(2, -1, 2).flip(1) + 1,
    "scan_end": lambda x: x.cumsum(-1)[..., -1:] - x.cumsum(-1),
    "scan_first": lambda x: x.cumsum(1)[:, :1] - x.cumsum(1),
    "scan_middle": lambda x: x.cumsum(1)[:, 2:3] + x.cumsum(1),
    "scan_select": lambda x: x.cumsum(0) - x.cumsum(0).select(0, 1),
    "scan_flip": lambda x: x.flip(-1).cumsum(-1).flip(-1),
    "scan_of_gathered": lambda x: x.cumsum(1).gather(0, (x > 0).long()) - 1,
    "flip_cat": lambda x: torch.cat([x[:, 1:3].flip(1), x], 1).flip(1),
    "step_over_cat": lambda x: torch.cat([x, x + 1], 1)[:, ::3],
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, dynamic):
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="tenon", dynamic=dynamic, fullgraph=True)
    for sizes in ((2, 10, 4), (2, 5, 6)):
        x = torch.arange(2 * sizes[1] * sizes[2], dtype=torch.float32).reshape(sizes) % 11 - 5
        with torch.inference_mode():
            torch.testing.assert_close(compiled(x), program(x), rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_an_index_expanded_over_rows_is_read_once_for_each_row(dim, reduce, dtype, dynamic):
    def f(x, rows, source):
        lead = [1] * source.dim()
        lead[dim] = -1
        index = rows.view(lead).expand_as(source)
        return x.scatter_reduce(dim, index, source, reduce), x.scatter_reduce(dim, index, source, reduce, include_self=False), x.gather(dim, index)

    compiled = torch.compile(f, backend="tenon", dynamic=dynamic, options={"fallback": "error"})
    for shape in ((4, 3, 5), (7, 6, 2)):
        x, source = (torch.randint(0, 4, shape).to(dtype) for _ in range(2))
        rows = torch.randint(0, shape[dim] - 1, (shape[dim],))
        with tenon.profile() as profile:
            got = compiled(x, rows, source)
        torch.testing.assert_close(got, f(x, rows, source))
        assert "scatter" not in profile.table(400) and "take_along" not in profile.table(400)


NUMBERS = {
    "alone": lambda x, t: x[t] * 2,
    "behind an axis": lambda x, t: x[:, t] + x[1, t],
    "behind an ellipsis": lambda x, t: x[..., t, :] * 2 + x[..., None, t, 1:2],
    "twice": lambda x, t: x[t, t].sin(),
    "of a computed tensor": lambda x, t: x.exp()[t, :, ::2].sum(0),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_an_index_without_axes(name, dynamic):
    """As in alphas[t] of a diffusion scheduler. The index may be negative, and the graph does not break."""
    f = NUMBERS[name]
    compiled = torch.compile(f, backend="tenon", dynamic=dynamic, fullgraph=True, options={"fallback": "error"})
    for size, t in ((4, 2), (5, -1), (5, 0)):
        x, t = torch.randn(size, size, 6), torch.tensor(t)
        y = x.clone().requires_grad_()
        x.requires_grad_()
        got, want = compiled(x, t), f(y, t)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close((got, x.grad), (want, y.grad))


def test_an_index_without_axes_out_of_range():
    compiled = torch.compile(lambda x, t: x[t] * 2, backend="tenon")
    with pytest.raises(IndexError, match="out of"):
        compiled(torch.randn(3), torch.tensor(5))


@pytest.mark.filterwarnings("ignore")
def test_an_index_without_axes_whose_view_somebody_uses():
    """The result shares the memory of x, so these graphs stay with PyTorch."""
    def written(x, t):
        x[t].mul_(3)
        return x + 1

    def returned(x, t):
        return x[t], x + 1

    def written_by_a_function(x, t):
        return torch.nn.functional.relu(x[t], True).sum() + x

    for f in (written, written_by_a_function, returned):
        x, t = torch.randn(4, 5), torch.tensor(2)
        y = x.clone()
        torch.testing.assert_close(torch.compile(f, backend="tenon")(x, t), f(y, t))
        torch.testing.assert_close(x, y)
    view, _ = torch.compile(returned, backend="tenon")(x, t)
    view.zero_()
    assert not x[2].any()

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

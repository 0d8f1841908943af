"""Values for which PyTorch raises an error: indices out of range and integers divided by 0. A compiled function raises an error of the
same type with the same message, with static and symbolic sizes. Later calls with valid values are not affected.
"""

import pytest
import torch

import tenon

from sample import in_turn

F = torch.nn.functional
X = torch.arange(15.0).reshape(5, 3)


def index(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def column(i):
    return i[:, None].expand(-1, 3)


# name -> (function of a tensor and of indices, values of the indices that are right for 5 rows, and wrong ones)
WRAPS = ([0, 4, -5, 2], [(5,), (-6,), (2**40,), (-2**63,)])
COUNTS = ([0, 4, 3, 2], [(5,), (-1,), (2**40,), (-2**63,)])
INDEXED = {
    "index": (lambda x, i: x[i] * 2, *WRAPS),
    "index of rows and columns": (lambda x, i: x[i, torch.zeros_like(i)] * 2, *WRAPS),
    "index of columns and rows": (lambda x, i: x.t()[torch.zeros_like(i), i] * 2, *WRAPS),
    "index of each axis apart": (lambda x, i: x[i[:, None], torch.arange(2)[None]] + 1, *WRAPS),
    "index_put": (lambda x, i: x.index_put((i,), x.new_ones(x.shape[1])) + 1, *WRAPS),
    "index_put_": (lambda x, i: (x + 1).index_put_((i,), x.new_ones(x.shape[1])), *WRAPS),
    "index_put of each axis": (lambda x, i: x.index_put((i, torch.zeros_like(i)), torch.ones(())) + 1, *WRAPS),
    "index_put that adds": (lambda x, i: x.index_put((i,), x.new_ones(x.shape[1]), accumulate=True) + 1, *WRAPS),
    "assignment": (lambda x, i: assigned(x, i), *WRAPS),
    "embedding": (lambda x, i: F.embedding(i, x) + 1, *COUNTS),
    "embedding of a matrix": (lambda x, i: F.embedding(i.reshape(2, -1), x).sum(-1), *COUNTS),
    "gather": (lambda x, i: x.gather(0, column(i)) * 2, *COUNTS),
    "gather of the last axis": (lambda x, i: x.t().gather(1, i[None].expand(3, -1)) * 2, *COUNTS),
    "index_select": (lambda x, i: x.index_select(0, i) * 2, *COUNTS),
    "scatter": (lambda x, i: x.scatter(0, column(i), torch.ones(4, 3)) + 1, *COUNTS),
    "scatter of a number": (lambda x, i: x.scatter(0, column(i), 7.0) + 1, *COUNTS),
    "scatter_add": (lambda x, i: x.scatter_add(0, column(i), torch.ones(4, 3)) + 1, *COUNTS),
    "nll_loss": (lambda x, i: F.nll_loss(x.t()[:1].expand(4, 5), i, x[:, 0]) + 1, *COUNTS),
    "nll_loss of images": (lambda x, i: F.nll_loss(x.t()[:1, :, None].expand(2, 5, 2), i.reshape(2, 2), reduction="none") + 1, *COUNTS),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i[:, None], 0) * 2, *WRAPS[:1], [(2,)]),
}


def assigned(x, i):
    y = x * 2
    y[i] = 1.0
    return y


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as e:
        return type(e), str(e)


def same(got, want):
    if isinstance(want, tuple) or isinstance(got, tuple):
        return got == want
    return torch.equal(got, want)


def check(function, good, bad, dynamic):
    """good, bad: lists of arguments. Wrong ones first, between and after right ones."""
    torch._dynamo.reset()
    fallback = "auto" if dynamic else "error"  # symbolic sizes may keep an operator in PyTorch
    compiled = torch.compile(function, backend="tenon", dynamic=dynamic, options={"fallback": fallback})
    with torch.no_grad():
        for args in [good[0], *(a for b in bad for a in (b, good[0])), *good]:
            want = outcome(function, *args)
            assert isinstance(want, tuple) == any(args is b for b in bad), want
            got = outcome(compiled, *args)
            assert same(got, want), (got, want)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_out_of_range_raise_as_in_pytorch(name, dynamic):
    function, good, bad = INDEXED[name]
    if name == "take_along_dim":  # takes any index by its remainder
        bad = []
    bad = [index(*good[:at], *value, *good[at + 1:]) for value in bad for at in (0, 3)]
    check(function, [(X, index(*good))], [(X, b) for b in bad], dynamic)


DIVISIONS = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "floor_divide": lambda a, b: torch.floor_divide(a, b),
    "remainder": lambda a, b: torch.remainder(a, b), "fmod": lambda a, b: torch.fmod(a, b),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"), "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}
# Every division takes all dtypes, with static or with symbolic sizes.
WAYS = [(dtype, dynamic) for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8) for dynamic in (False, True)]


@pytest.mark.parametrize("name, way", in_turn(DIVISIONS, WAYS, count=5), ids=lambda x: x if isinstance(x, str) else f"{x[0]}-{x[1]}")
def test_division_of_integers_by_zero_raises_as_in_pytorch(name, way):
    function, (dtype, dynamic) = DIVISIONS[name], way
    a = torch.arange(21).to(dtype)
    b = torch.arange(1, 22).to(dtype)
    bad = []
    for at in (0, 7, 16, 20):
        bad.append(b.clone())
        bad[-1][at] = 0
    check(lambda a, b: function(a, b) + 1, [(a, b)], [(a, z) for z in bad], dynamic)


@pytest.mark.parametrize("function", [lambda a: a // 0, lambda a: a % 0, lambda a: torch.remainder(5, a - a)])
def test_division_by_a_number_that_is_zero(function):
    a = torch.arange(1, 9)
    want = outcome(function, a)
    with torch.no_grad():
        assert outcome(torch.compile(function, backend="tenon"), a) == want


@pytest.mark.parametrize("bad", [-0.5, 1.5, float("nan")])
@pytest.mark.parametrize("dynamic", [False, True])
def test_probabilities_out_of_range_raise_as_in_pytorch(bad, dynamic):
    x, y = torch.linspace(0, 1, 12).view(4, 3), torch.linspace(1, 0.25, 12).view(4, 3)
    wrong = x.clone()
    wrong[3, 1] = bad
    for reduction in ("none", "mean", "sum"):
        function = lambda x, y: F.binary_cross_entropy(x, y, y[0], reduction=reduction)
        compiled = torch.compile(function, backend="tenon", dynamic=dynamic, options={"fallback": "error"})
        for a, b in ((x, y), (wrong, y), (x, wrong), (x, y)):
            want, got = outcome(function, a, b), outcome(compiled, a, b)
            if isinstance(want, tuple):
                assert got == want
            else:
                torch.testing.assert_close(got, want)


@pytest.mark.parametrize("function", [torch.argmax, torch.argmin])
def test_arguments_of_bools_raise_as_in_pytorch(function):
    x = torch.eye(3) > 0
    for f in (function, lambda x: function(x.logical_not(), 1)):
        want = outcome(f, x)
        assert isinstance(want, tuple) and outcome(torch.compile(f, backend="tenon"), x) == want


def test_division_of_floats_by_zero_is_no_error():
    a, b = torch.arange(5.0), torch.zeros(5)
    torch._dynamo.reset()
    with torch.no_grad():
        got = torch.compile(lambda a, b: (a // b, a % b), backend="tenon", options={"fallback": "error"})(a, b)
    for x, y in zip(got, (a // b, a % b)):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_nothing_is_no_error(dynamic):
    """PyTorch computes these although an index or a divisor looks wrong."""
    for function, args in [
        (lambda x, i: x[i] + 1, (X, index())),
        (lambda x, i: x[i] + 1, (torch.empty(5, 0), index(2))),
        (lambda a, b: a // b + 1, (index(), index())),
        (lambda x, i: torch.where(i < 5, F.embedding(i.clamp(0, 4), x).sum(-1), 0.0), (X, index(3, 9, 4, -2))),
        (lambda x, i: torch.where(i != 0, 10 // torch.where(i != 0, i, 1), -1), (X, index(3, 0, 4, 0))),
        (lambda x, i: F.nll_loss(x.log_softmax(-1), i), (X, index(0, -100, 2, 1, -100))),
        (lambda x, i: F.embedding(i, x, padding_idx=0) + 1, (X, index(0, 4))),
        (lambda x, i: F.pad(x, (1, 1), mode="replicate")[i], (X, index(0, 4))),
    ]:
        torch._dynamo.reset()
        with torch.no_grad():
            want = function(*args)
            torch.testing.assert_close(torch.compile(function, backend="tenon", dynamic=dynamic)(*args), want, rtol=0, atol=1e-6)


def test_an_error_leaves_inputs_as_they_were():
    """Inputs that the graph writes to, and a result written in the place of an input that nobody reads."""
    def function(x, y, z, i):
        y.add_(1)
        z.copy_(x[i] * 2)
        return x[i] + y[:4]

    x, y, z = X.clone(), X.clone(), torch.full((4, 3), -1.0)
    compiled = torch.compile(function, backend="tenon")
    with torch.no_grad():
        compiled(x, y.clone(), z.clone(), index(1, 2, 3, 4))
        with pytest.raises(IndexError, match="index 5 is out of bounds"):
            compiled(x, y, z, index(1, 2, 3, 5))
    assert torch.equal(z, torch.full((4, 3), -1.0)) and torch.equal(x, X)


def test_an_error_behind_updates_in_place_leaves_them_undone():
    """Two layers with caches. Where the position in the second, or the row looked up behind it, is out of range, the first stays as it was."""
    def function(a, b, w, row, i, j, k):
        a.index_copy_(0, i, row)
        b[j] = a.sum(0, keepdim=True) @ w
        return F.embedding(k, b)

    def make():
        return torch.ones(64, 8), torch.ones(64, 8), torch.eye(8), torch.full((1, 8), 2.0)

    torch._dynamo.reset()
    with torch.no_grad():
        report = tenon.explain(function, *make(), index(3), index(4), index(5))
        assert "1 program(s), 0 fallback(s)" in str(report) and "copied after all steps" not in str(report)
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="tenon")
        want, got = make(), make()
        for at in ((3, 4, 4), (5, -1, 63), (3, 0, 5)):
            at = [index(i) for i in at]
            torch.testing.assert_close(compiled(*got, *at), function(*want, *at))
            for x, y in zip(got, want):
                torch.testing.assert_close(x, y)
        for bad in ((64, 4, 5), (3, 64, 5), (3, -65, 5), (3, 4, 64)):
            before = [x.clone() for x in got]
            with pytest.raises(IndexError):
                compiled(*got, *(index(i) for i in bad))
            assert all(map(torch.equal, got, before)), bad


def test_a_call_of_pytorch_is_counted_where_pytorch_finds_nothing_wrong():
    """With rows without elements PyTorch does not check the index and returns a result; so does the compiled function."""
    compiled = torch.compile(lambda x, i: (x[i], (x + 1)[i].sum(-1)), backend="tenon")
    x = torch.empty(5, 0)
    with torch.no_grad():
        for i in (index(1), index(7)):
            assert [y.shape for y in compiled(x, i)] == [torch.Size([1, 0]), torch.Size([1])]


def test_explain_and_stats_do_not_run_into_it():
    torch._dynamo.reset()
    with torch.no_grad():
        report = tenon.explain(lambda x, i: F.embedding(i, x) + 1, X, index(0, 1))
    assert "gather" in str(report) or "embedding" in str(report)

"""The accuracy rule accepts results that are as accurate as eager's and rejects others. A rule that accepts everything would check
nothing."""

import copy
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.models import accuracy     # noqa: E402


def tensors(*shape, noise=1e-6, dtype=torch.float32):
    """(eager's result, which is exact plus `noise`; the exact values)."""
    generator = torch.Generator().manual_seed(1)
    exact = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return (exact + noise * torch.randn(*shape, generator=generator)).to(dtype), exact


def problems(ref, res, exact=None, tolerance=1e-4):
    return accuracy.check(ref, res, ref if exact is None else exact, tolerance).problems


def test_accepts_eager_itself_and_its_rounding():
    ref, exact = tensors(4, 512)
    assert not problems(ref, ref.clone(), exact)
    assert not problems(ref, ref + 1e-5, exact)


def test_rejects_an_offset_and_one_wrong_row():
    ref, exact = tensors(4, 512)
    assert "RMS error" in problems(ref, ref + 1e-2, exact)[0]
    wrong = ref.clone()
    wrong[2] = wrong[1]
    assert problems(ref, wrong, exact)


def test_far_from_eager_but_as_good_is_right():
    """Eager's error is 1e-2. A result as near to the exact values passes; a result five times as far does not."""
    ref, exact = tensors(4, 512, noise=1e-2)
    other = (exact - 1e-2 * torch.randn(4, 512, generator=torch.Generator().manual_seed(2))).float()
    assert not torch.allclose(ref, other, rtol=1e-4, atol=1e-4)
    assert not problems(ref, other, exact)
    assert problems(ref, (exact + 5e-2).float(), exact)


@pytest.mark.parametrize("spoil, word", [
    (lambda t: t.double(), "dtype"),
    (lambda t: t[:2], "shape"),
    (lambda t: t.t().contiguous().t(), "strides"),
    (lambda t: torch.where(t == t.max(), float("nan"), t), "RMS error nan"),
    (lambda t: torch.where(t == t.max(), float("inf"), t), "RMS error inf"),
    (lambda t: None, "None instead of"),
])
def test_names_what_is_wrong(spoil, word):
    ref, exact = tensors(4, 512)
    found = problems({"logits": ref}, {"logits": spoil(ref)}, {"logits": exact})
    assert len(found) == 1 and word in found[0] and found[0].startswith("output.logits: ")


def test_strides_of_a_library_without_strides_do_not_matter():
    ref, exact = tensors(4, 8)
    assert accuracy.check(ref, ref.t().contiguous().t(), exact, 1e-4, strides=False).ok
    assert not accuracy.check(ref, ref.t().contiguous().t() + 1, exact, 1e-4, strides=False).ok


def test_strides_of_size_one_dimensions_do_not_matter():
    ref = torch.randn(1, 8)
    assert not problems(ref, ref.as_strided((1, 8), (77, 1)))


def test_nan_where_eager_has_nan_is_right():
    ref, exact = tensors(4, 8)
    ref[0, 0] = exact[0, 0] = float("nan")
    assert not problems(ref, ref.clone(), exact)


def test_integers_must_be_equal():
    ref = torch.arange(6)
    assert not problems(ref, ref.clone())
    assert "1 of 6 elements differ" in problems(ref, ref + (ref == 3))[0]


@dataclass
class Output:
    hidden: torch.Tensor
    cache: object = None


def test_nested_outputs():
    ref, exact = tensors(4, 8)
    make = lambda t: Output(hidden=(t, [t, None]), cache={"length": 3})
    assert [path for path, _ in accuracy.leaves(make(ref))] == [
        "output.hidden[0]", "output.hidden[1][0]", "output.hidden[1][1]", "output.cache.length"]
    assert not problems(make(ref), make(ref.clone()), make(exact))
    assert "output.hidden[0]" in problems(make(ref), make(ref + 1), make(exact))[0]
    assert "holds" in problems((ref, ref), (ref,), (exact, exact))[0]


def test_half_precision_has_more_room_than_single():
    half, single = torch.zeros(2000, dtype=torch.bfloat16), torch.zeros(2000)
    assert accuracy.factor(half, 1e-4) == 3 and accuracy.factor(single, 1e-4) == 2


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": (1, 2)}, {"bias": False, "padding": 2}, {"dilation": 2}, {"groups": 3},
                                     {"padding": "same"}, {"padding": 1, "padding_mode": "reflect"}], ids=str)
def test_depthwise_convolutions_in_float64(options):
    model = torch.nn.Sequential(torch.nn.Conv2d(6, 6, (3, 5), **{"groups": 6, **options}))
    x = torch.randn(2, 6, 11, 13)
    torch.testing.assert_close(accuracy.in_float64(model, (x,)), copy.deepcopy(model).double()(x.double()).detach())

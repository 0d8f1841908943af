"""The models of the zoo are suitable for tests: equal in every process, with finite results that depend on the
input."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.models import accuracy, zoo     # noqa: E402


@pytest.mark.parametrize("name", zoo.ALL)
def test_model_can_show_a_mistake(name):
    model, inputs = zoo.build(name, tiny=True)
    with torch.no_grad():
        outputs, others = ([leaf for _, leaf in accuracy.leaves(model(*x))]
                           for x in (inputs, zoo.other_inputs(inputs)))
    assert not model.training
    for out, other in zip(outputs, others, strict=True):
        assert out.dtype == torch.float32 and out.isfinite().all()
        assert 0.05 < out.std() < 20, "activations vanish or explode"
        assert (out - other).std() > 0.1 * out.std(), "the output hardly depends on the input"
        if out.dim() == 3:      # [batch, tokens, features]
            assert (out - out.mean(1, keepdim=True)).std() > 0.1 * out.std(), "all tokens look alike"


@pytest.mark.parametrize("name", zoo.ALL)
def test_no_parameter_hides_a_mistake(name):
    model, _ = zoo.build(name, tiny=True)
    for path, p in model.named_parameters():
        assert p.numel() == 1 or p.std() > 0, f"{path} is constant"
    for path, m in model.named_modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert m.running_mean.abs().max() > 0 and (m.running_var - 1).abs().max() > 0.05, path


def test_the_same_model_twice():
    model, inputs = zoo.build("resnet50", tiny=True)
    torch.rand(1)       # somebody draws in between
    again, same = zoo.build("resnet50", tiny=True)
    assert torch.equal(inputs[0], same[0])
    assert all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))


MILLIONS = {"resnet50": 25.557, "mobilenet_v3_large": 5.483, "efficientnet_b0": 5.289, "convnext_tiny": 28.589, "swin_tiny": 28.288,
            "vit_b_16": 86.568, "bert_base": 109.482, "distilbert": 66.363, "gpt2": 124.440, "t5_small": 60.507, "whisper_tiny_encoder": 8.208}


@pytest.mark.parametrize("name", MILLIONS)
def test_full_sizes(name):
    """Parameter counts of the published architectures."""
    with torch.device("meta"):
        model, _ = zoo.ALL[name].make(False)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(MILLIONS[name], abs=0.001)

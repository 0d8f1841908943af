"""nn.TransformerEncoderLayer in evaluation mode is one operator of PyTorch; Tenon computes its parts."""

import pytest
import tenon
import torch
from torch import nn

X = torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(0))
CAUSAL = nn.Transformer.generate_square_subsequent_mask(7)
PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3, [True] * 7])  # the last sentence has no word
MASKS = {
    "none": {},
    "causal": {"src_mask": CAUSAL, "is_causal": True},
    "bool": {"src_mask": CAUSAL < 0},
    "padding": {"src_key_padding_mask": PADDING},
    "float": {"src_mask": torch.tensor([0.0, 0, 0, 0.5, 0, 0, 0]).expand(7, 7)},  # every number but 0 hides a key
    "both": {"src_mask": CAUSAL, "src_key_padding_mask": PADDING.float().masked_fill(PADDING, -torch.inf)},
    "heads": {"src_mask": torch.rand(6, 7, 7, generator=torch.Generator().manual_seed(1)) > 0.7},
}


def layer(dtype=torch.float32, **options):
    torch.manual_seed(0)
    made = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, **options)
    for p in made.parameters():
        nn.init.normal_(p, std=0.3)
    return made.eval().to(dtype)


def check(module, x, tolerance=1e-5, dynamic=None, **masks):
    with torch.no_grad():
        got, want = torch.compile(module, backend="tenon", fullgraph=True, dynamic=dynamic)(x, **masks), module(x, **masks)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert not tenon.stats()["fallback_reasons"]


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}, {"norm_first": True, "activation": "gelu", "layer_norm_eps": 0.1}], ids=str)
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
def test_results_are_eagers(options, masks):
    check(layer(**options), X, **masks)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.bfloat16, 6e-2), (torch.float16, 1e-2)], ids=str)
@pytest.mark.parametrize("masks", [{}, {"src_key_padding_mask": PADDING}], ids=["none", "padding"])
def test_dtypes(dtype, tolerance, masks):
    check(layer(dtype), X.to(dtype), tolerance, **masks)


@pytest.mark.parametrize("batch, length", [(1, 1), (0, 7), (2, 0), (2, 33)])
def test_sizes(batch, length):
    for dynamic in (False, True):
        check(layer(), torch.ones(batch, length, 16).cumsum(1), dynamic=dynamic)
        torch._dynamo.reset()


def test_a_stack_of_layers():
    check(nn.TransformerEncoder(layer(), 3, norm=nn.LayerNorm(16)).eval(), X)

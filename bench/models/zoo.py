"""The models of the demo, the model benchmark and the model tests.

`build(name, tiny)` returns `(model, inputs)`: the model in eval mode and the tuple of its arguments.
Architectures are real: `transformers` configurations, or our own code after torchvision. Weights and inputs are
random with a fixed seed, so nothing is downloaded and two processes build the same model. No parameter keeps a
value that would hide a mistake: biases are not zero, norm weights not one, batch norm is not the identity,
attention is not uniform. `tiny` keeps the structure and shrinks the sizes, for tests.
Tested by tests/torch/test_zoo.py.
"""

from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn

from bench.models import decoding, graphs_and_scans, images, tables_and_sequences, texts


@dataclass(frozen=True)
class Entry:
    make: Callable          # tiny -> (model, inputs)
    tolerance: float        # for the accuracy rule (accuracy.py)
    gain: float = 1         # of all matrices, where no norm brings activations back to a size of 1
    adjust: Callable = lambda model: None   # changes the random weights of an architecture that expects other sizes


def build(name, tiny=False):
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model, inputs = ALL[name].make(tiny)
        model.eval()
        randomise(model)
        for p in model.parameters():
            p.mul_(ALL[name].gain if p.dim() > 1 else 1)
        ALL[name].adjust(model)
        settle_batch_norm(model, inputs)
    return model, inputs


def other_inputs(inputs):
    """Inputs of the same shapes and types with other values. They show whether values of the first inputs were
    baked into the program. A single token becomes another one; everything else is reversed."""
    return tuple(x - 1 if x.shape == (1, 1) else x.flip(-1) for x in inputs)


# Weights --------------------------------------------------------------------------------------------------

def randomise(model):
    """Sets weights of variance 1/fan_in (2/fan_in before a rectifier), so that activations neither vanish nor
    explode. Queries and keys get twice that and other layers half, since otherwise attention would average all
    tokens into one. Vectors (biases, norm weights) are moved away from their initial zeros and ones."""
    for path, module in model.named_modules():
        transposed = type(module).__name__ == "Conv1D"      # a linear layer of transformers, stored [in, out]
        for p in module.parameters(recurse=False):
            if p.dim() < 2:
                p.mul_(torch.empty_like(p).uniform_(0.75, 1.25)).add_(torch.randn_like(p), alpha=0.1)
            elif isinstance(module, (nn.Conv1d, nn.Conv2d)):
                p.normal_(0, (2 / p[0].numel()) ** 0.5)
            elif isinstance(module, nn.Linear) or transposed:
                gain = 2 if path.split(".")[-1].startswith(("q", "k", "c_attn")) else 0.5
                p.normal_(0, gain * p.shape[0 if transposed else 1] ** -0.5)
            else:
                p.normal_(0, p.shape[-1] ** -0.5)


def settle_batch_norm(model, inputs):
    """Sets running statistics as training would leave them: near those of the data, but not equal to them. Goes in
    the order of the forward pass, so that each layer sees the outputs of the layers before it."""
    def settle(norm, args):
        var, mean = torch.var_mean(args[0], (0, 2, 3)[:args[0].dim() - 1])
        var.clamp_(min=0.25 * var.mean())       # so that a channel with little variance is not amplified
        norm.running_mean.copy_(mean + 0.2 * var.sqrt() * torch.randn_like(mean))
        norm.running_var.copy_(var * torch.empty_like(var).uniform_(0.75, 1.25))

    norms = (nn.BatchNorm1d, nn.BatchNorm2d)
    hooks = [m.register_forward_pre_hook(settle) for m in model.modules() if isinstance(m, norms)]
    if hooks:
        model(*(inputs if len(inputs[0]) > 4 else (torch.randn(4, *x.shape[1:]) for x in inputs)))
    for hook in hooks:
        hook.remove()


# Conv nets are held to 1e-4, transformers to 1e-3 (the tolerances of PyTorch's own benchmark suites).
MODELS = {
    "resnet50": Entry(images.resnet50, 1e-4),
    "mobilenet_v3_large": Entry(images.mobilenet_v3_large, 1e-4),
    "bert_base": Entry(texts.bert_base, 1e-3),
    "gpt2": Entry(texts.gpt2, 1e-3),
    "llama": Entry(texts.llama, 1e-3),
    "vit_b_16": Entry(images.vit_b_16, 1e-3),
    "unet_block": Entry(images.unet_block, 1e-4),
}
# Measured if named.
MORE = {
    "dlrm": Entry(tables_and_sequences.dlrm, 1e-4, gain=2),
    "lstm_tagger": Entry(tables_and_sequences.tagger(nn.LSTM), 1e-3, gain=4),
    "gru_tagger": Entry(tables_and_sequences.tagger(nn.GRU), 1e-3, gain=3),
    "convnext_tiny": Entry(images.convnext_tiny, 1e-4),
    "resnet50_b8": Entry(images.resnet50_b8, 1e-4),
    "efficientnet_b0": Entry(images.efficientnet_b0, 1e-4),
    "efficientnet_b0_of_transformers": Entry(images.efficientnet_b0_of_transformers, 1e-4),
    "swin_tiny": Entry(images.swin_tiny, 1e-3),
    "bert_base_b8": Entry(texts.bert_base_b8, 1e-3),
    "distilbert": Entry(texts.distilbert, 1e-3),
    "t5_small": Entry(texts.t5_small, 1e-3, adjust=texts.as_t5),
    "whisper_tiny_encoder": Entry(texts.whisper_tiny_encoder, 1e-3),
    "gpt2_decode": Entry(decoding.gpt2_decode, 1e-3),
    "llama_decode": Entry(decoding.llama_decode, 1e-3),
    "mamba_block": Entry(graphs_and_scans.mamba_block, 1e-3),
    "gnn_layer": Entry(graphs_and_scans.gnn_layer, 1e-4),
    "tabular_mlp": Entry(tables_and_sequences.tabular_mlp, 1e-4),
}
ALL = {**MODELS, **MORE}

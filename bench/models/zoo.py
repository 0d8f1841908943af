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

from bench.models import conv_nets, unet
from bench.models.tables_and_sequences import Dlrm, Tagger


@dataclass(frozen=True)
class Entry:
    make: Callable          # tiny -> (model, inputs)
    tolerance: float        # for the accuracy rule (accuracy.py)
    gain: float = 1         # of all matrices, where no norm brings activations back to a size of 1


def build(name, tiny=False):
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model, inputs = ALL[name].make(tiny)
        model.eval()
        randomise(model)
        for p in model.parameters():
            p.mul_(ALL[name].gain if p.dim() > 1 else 1)
        settle_batch_norm(model, inputs)
    return model, inputs


def other_inputs(inputs):
    """Inputs of the same shapes and types with other values. They show whether values of the first inputs were
    baked into the program."""
    return tuple(x.flip(-1) for x in inputs)


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
            elif isinstance(module, nn.Conv2d):
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
        var, mean = torch.var_mean(args[0], (0, 2, 3))
        var.clamp_(min=0.25 * var.mean())       # so that a channel with little variance is not amplified
        norm.running_mean.copy_(mean + 0.2 * var.sqrt() * torch.randn_like(mean))
        norm.running_var.copy_(var * torch.empty_like(var).uniform_(0.75, 1.25))

    hooks = [m.register_forward_pre_hook(settle) for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    if hooks:
        model(*(torch.randn(4, *x.shape[1:]) for x in inputs))
    for hook in hooks:
        hook.remove()


# Families -------------------------------------------------------------------------------------------------

def image(tiny):
    side = 64 if tiny else 224
    return (torch.randn(1, 3, side, side),)


def tokens(vocab, tiny):
    return (torch.randint(vocab, (1, 16 if tiny else 128)),)


def resnet50(tiny):
    model = conv_nets.ResNet((1, 1, 1, 1), width=16, classes=10) if tiny else conv_nets.ResNet((3, 4, 6, 3))
    return model, image(tiny)


def mobilenet_v3_large(tiny):
    model = conv_nets.MobileNetV3(scale=0.25, classes=10) if tiny else conv_nets.MobileNetV3()
    return model, image(tiny)


ENCODER = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)     # tiny


def bert_base(tiny):
    from transformers import BertConfig, BertModel
    config = BertConfig(**dict(ENCODER, vocab_size=200) if tiny else {})
    return BertModel(config), tokens(config.vocab_size, tiny)


def gpt2(tiny):
    from transformers import GPT2Config, GPT2LMHeadModel
    sizes = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=200, bos_token_id=0, eos_token_id=0)
    config = GPT2Config(use_cache=False, **sizes if tiny else {})
    return GPT2LMHeadModel(config), tokens(config.vocab_size, tiny)


def llama(tiny):
    from transformers import LlamaConfig, LlamaForCausalLM
    full = dict(hidden_size=768, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4,
                intermediate_size=2048, vocab_size=32000)
    small = dict(hidden_size=96, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                 intermediate_size=160, vocab_size=200)
    config = LlamaConfig(use_cache=False, **small if tiny else full)
    return LlamaForCausalLM(config), tokens(config.vocab_size, tiny)


def vit_b_16(tiny):
    from transformers import ViTConfig, ViTForImageClassification
    config = ViTConfig(num_labels=10 if tiny else 1000, **dict(ENCODER, image_size=64) if tiny else {})
    return ViTForImageClassification(config), image(tiny)


def unet_block(tiny):
    width, context, side = (32, 48, 16) if tiny else (160, 512, 32)
    inputs = torch.randn(1, 4, side, side), torch.tensor([601]), torch.randn(1, 7 if tiny else 77, context)
    return unet.UNet(width, context), inputs


def dlrm(tiny):
    rows, batch = (50, 8) if tiny else (10000, 256)
    return Dlrm(rows, 16), (torch.randn(batch, 13), torch.randint(rows, (batch, 26)))


def tagger(layer):
    def make(tiny):
        words, width, batch, length = (100, 32, 2, 9) if tiny else (10000, 256, 8, 64)
        return Tagger(layer, words, width, 7 if tiny else 50), (torch.randint(words, (batch, length)),)
    return make


# Conv nets are held to 1e-4, transformers to 1e-3 (the tolerances of PyTorch's own benchmark suites).
MODELS = {
    "resnet50": Entry(resnet50, 1e-4),
    "mobilenet_v3_large": Entry(mobilenet_v3_large, 1e-4),
    "bert_base": Entry(bert_base, 1e-3),
    "gpt2": Entry(gpt2, 1e-3),
    "llama": Entry(llama, 1e-3),
    "vit_b_16": Entry(vit_b_16, 1e-3),
    "unet_block": Entry(unet_block, 1e-4),
}
# Measured if named.
MORE = {
    "dlrm": Entry(dlrm, 1e-4, gain=2),
    "lstm_tagger": Entry(tagger(nn.LSTM), 1e-3, gain=4),
    "gru_tagger": Entry(tagger(nn.GRU), 1e-3, gain=3),
}
ALL = {**MODELS, **MORE}

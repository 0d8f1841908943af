"""A step of generating text: one token, batch 1, with the keys and values of 1,024 positions. Both wrap a model of transformers as a function of
tensors. Tested by tests/torch/test_zoo.py.
"""

import torch
from torch import nn

from bench.models.texts import gpt2_model, llama_model


def filled(layer, keys, values):
    """A layer of a cache of transformers, as it is after earlier calls."""
    layer.keys, layer.values, layer.is_initialized = keys, values, True
    layer.dtype, layer.device = keys.dtype, keys.device
    return layer


class GrowingCache(nn.Module):
    """`generate` with its default cache: (token [1,1], keys and values of each layer [1,heads,T,width]) -> (logits [1,vocab], the same keys and
    values with those of the token at their ends)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, token, *past):
        from transformers.cache_utils import Cache, DynamicLayer
        layers = [filled(DynamicLayer(), *pair) for pair in zip(past[::2], past[1::2])]
        logits = self.model(token, past_key_values=Cache(layers=layers), use_cache=True).logits
        return logits[:, -1], *(t for layer in layers for t in (layer.keys, layer.values))


class StaticCache(nn.Module):
    """`generate` with `cache_implementation="static"`, for one step: (token [1,1], position [1]) -> logits [1,vocab]. Writes the keys and values of
    the token into buffers [1,heads,length,width] that the module keeps."""

    def __init__(self, model, length):
        super().__init__()
        self.model, self.length = model, length
        config = model.config
        for i in range(config.num_hidden_layers):
            for what in ("keys", "values"):
                self.register_buffer(f"{what}_{i}", torch.randn(1, config.num_key_value_heads, length, config.head_dim))

    def layer(self, i, position):
        from transformers.cache_utils import StaticLayer
        layer = filled(StaticLayer(self.length), getattr(self, f"keys_{i}"), getattr(self, f"values_{i}"))
        layer.cumulative_length = position.clone()      # the model adds 1 to it
        return layer

    def forward(self, token, position):
        from transformers.cache_utils import Cache
        cache = Cache(layers=[self.layer(i, position) for i in range(self.model.config.num_hidden_layers)])
        return self.model(token, past_key_values=cache, use_cache=True).logits[:, -1]


def gpt2_decode(tiny):
    model = gpt2_model(tiny)
    config = model.config
    past = 15 if tiny else config.n_positions - 1
    shape = (1, config.n_head, past, config.n_embd // config.n_head)
    return GrowingCache(model), (torch.tensor([[7]]), *(torch.randn(shape) for _ in range(2 * config.n_layer)))


def llama_decode(tiny):
    length = 16 if tiny else 1024
    return StaticCache(llama_model(tiny), length), (torch.tensor([[7]]), torch.tensor([length - 4]))

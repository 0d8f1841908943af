"""The models of the zoo that take texts or speech: `NAME(tiny)` returns (model, inputs). Tested by tests/torch/test_zoo.py."""

import torch
from torch import nn


def tokens(vocab, tiny, batch=1):
    return (torch.randint(vocab, (2 if tiny and batch > 1 else batch, 16 if tiny else 128)),)


def bert_base(tiny, batch=1):
    from transformers import BertConfig, BertModel
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=200)
    config = BertConfig(**small if tiny else {})
    return BertModel(config), tokens(config.vocab_size, tiny, batch)


def bert_base_b8(tiny):
    return bert_base(tiny, 8)


def distilbert(tiny):
    from transformers import DistilBertConfig, DistilBertModel
    config = DistilBertConfig(**dict(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=200) if tiny else {})
    return DistilBertModel(config), tokens(config.vocab_size, tiny)


def gpt2_model(tiny, **options):
    from transformers import GPT2Config, GPT2LMHeadModel
    small = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=200, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(GPT2Config(**small if tiny else {}, **options))


def gpt2(tiny):
    model = gpt2_model(tiny, use_cache=False)
    return model, tokens(model.config.vocab_size, tiny)


def llama_model(tiny, **options):
    from transformers import LlamaConfig, LlamaForCausalLM
    full = dict(hidden_size=768, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4,
                intermediate_size=2048, vocab_size=32000)
    small = dict(hidden_size=96, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                 intermediate_size=160, vocab_size=200)
    return LlamaForCausalLM(LlamaConfig(**small if tiny else full, **options))


def llama(tiny):
    model = llama_model(tiny, use_cache=False)
    return model, tokens(model.config.vocab_size, tiny)


class Logits(nn.Module):
    """A model of transformers as a function of tensors to its logits."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs))).logits


def t5_small(tiny):
    """The encoder and the decoder, without a cache: a step of training or of scoring a given answer."""
    from transformers import T5Config, T5ForConditionalGeneration
    full = dict(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)
    small = dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=200)
    config = T5Config(use_cache=False, **small if tiny else full)
    model = Logits(T5ForConditionalGeneration(config), "input_ids", "decoder_input_ids")
    return model, (*tokens(config.vocab_size, tiny), *tokens(config.vocab_size, tiny))


def as_t5(model):
    """T5 divides no product of queries and keys by the square root of the width, but its output by that of the model."""
    config = model.model.config
    model.model.shared.weight.mul_(config.d_model ** 0.5)
    for path, p in model.named_parameters():
        if path.endswith(".q.weight"):
            p.mul_(config.d_kv ** -0.5)


def whisper_tiny_encoder(tiny):
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    full = dict(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
    small = dict(d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=20, max_source_positions=24)
    config = WhisperConfig(**small if tiny else full)
    return WhisperEncoder(config), (torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions),)

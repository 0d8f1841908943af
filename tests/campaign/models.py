"""Campaign `models`: tiny architectures of transformers with random weights, judged by a float64 run.

Every type in transformers' own mapping of configurations is built from its default configuration with small sizes. Its inputs are
those that its forward takes: token ids, pixels, audio. A model that eager cannot run this way is "not built", with the reason. Each
model runs static and with dynamic=True at three sizes, in f32 and bf16, with weights frozen, live, and in training, where the gradients
of all parameters and the buffers afterwards are compared too.
"""

import copy
import inspect
import logging

import torch
import torch._dynamo

from . import backward, oracle, trial

LIMIT = 600
SIZES = [{"batch": 2, "length": 11}, {"batch": 3, "length": 17}, {"batch": 5, "length": 8}]
COMBINATIONS = [(dtype, mode, weights) for dtype in ("f32", "bf16") for mode in ("static", "dynamic") for weights in ("live", "frozen", "train")]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
CI_MODELS = "bert gpt2 t5 llama gemma3_text mixtral mamba vit convnext swin whisper wav2vec2 clip deberta-v2".split()
CI_COMBINATIONS = [("f32", "dynamic", "live"), ("bf16", "static", "frozen"), ("f32", "dynamic", "train")]
# Attribute of configurations -> the largest size that it keeps.
SMALL = {
    0: "num_kv_shared_layers",
    32: "hidden_size d_model embed_dim n_embd dim hidden_dim encoder_hidden_size decoder_hidden_size projection_dim embedding_size emb_dim attention_hidden_size "
        "rnn_hidden_dim fusion_hidden_size neck_hidden_size conv_dim output_dim bottleneck_size word_embed_proj_dim decoder_hidden_dim proj_dim",
    2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers num_blocks depth num_key_value_heads n_kv_heads "
       "num_kv_heads num_experts_per_tok num_experts_per_token moe_topk moe_k num_experts_per_tok moe_top_k attention_layers num_nextn_predict_layers first_k_dense_replace decoder_num_hidden_layers",
    4: "num_attention_heads num_heads mamba_n_heads n_head n_heads encoder_attention_heads decoder_attention_heads decoder_num_attention_heads num_experts n_routed_experts num_local_experts moe_num_experts linear_num_key_heads linear_num_value_heads",
    64: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner ffn_hidden_size encoder_intermediate_size decoder_intermediate_size mlp_dim moe_intermediate_size shared_expert_intermediate_size dim_feedforward",
    8: "d_kv head_dim attention_head_size patch_size qk_rope_head_dim v_head_dim qk_nope_head_dim linear_key_head_dim linear_value_head_dim global_head_dim swa_head_dim",
    16: "q_lora_rank kv_lora_rank o_lora_rank index_head_dim",
    1: "n_group topk_group",
    128: "vocab_size max_position_embeddings n_positions vocab_size_per_layer_input max_seq_len max_sequence_length n_ctx num_codebook_entries",
}
SMALL = {name: size for size, names in SMALL.items() for name in names.split()}
# Settings that single types need in addition.
OWN = {
    "efficientnet": {"width_coefficient": 0.5, "depth_coefficient": 0.5, "hidden_dim": 640},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
}


def add_arguments(parser):
    parser.add_argument("--only", help="comma-separated model types")
    parser.add_argument("--stride", type=int, default=1, help="every n-th model only")
    parser.add_argument("--first", type=int, default=0, help="the first model of those")
    parser.add_argument("--combination", help="comma-separated, as f32-dynamic-live or bf16-static-frozen (default: all; one in turn with --turns)")
    parser.add_argument("--turns", action="store_true", help="one combination per model, in turn")


def types():
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
    return sorted(MODEL_MAPPING_NAMES)


def jobs(options):
    return chosen(CI_MODELS if options["ci"] else types(), options)


def chosen(names, options):
    names = options["only"].split(",") if options["only"] else names
    combinations = CI_COMBINATIONS if options["ci"] else COMBINATIONS
    if options["combination"]:
        combinations = [c for c in COMBINATIONS if "-".join(c) in options["combination"].split(",")]
    names = names[options["first"]::options["stride"]]
    return [{"key": name, "combinations": [combinations[k % len(combinations)]] if options["turns"] else combinations} for k, name in enumerate(names)]


class NotBuilt(Exception):
    """(class of the record, why)."""


def two_of(layers):
    """If layers have named types: the first layer and one of another type, because some models need two types."""
    others = [layer for layer in layers if layer != layers[0]]
    return [layers[0], others[0]] if others and isinstance(layers[0], str) else layers[:2]


def shrunk(config, lists, widths, grouped=True):
    """Keyword arguments that make a configuration of this class small. `widths`: also its widths, not layers only. Not `grouped`:
    as many heads of keys as of queries."""
    layers = [getattr(config, n, None) for n in ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers")]
    layers = {n for n in layers if isinstance(n, int)}
    kwargs = {}
    for key, value in vars(config).items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            kwargs[key] = {**value.to_dict(), **shrunk(value, lists, widths, grouped)}
            kwargs[key].pop("transformers_version", None)
        elif isinstance(value, int) and not isinstance(value, bool) and key in SMALL and value > SMALL[key]:
            if widths or SMALL[key] == 2 and "layer" in key:
                kwargs[key] = SMALL[key]
        elif key in ("depths", "encoder_depths", "num_blocks_list", "stage_layers", "layers_per_stage") and isinstance(value, (list, tuple)):
            kwargs[key] = [1] * len(value)
        elif isinstance(value, (list, tuple)) and len(value) in layers and len(value) > 2 and key not in ("architectures",):
            kwargs[key] = two_of(list(value))
        elif lists and isinstance(value, (list, tuple)) and value and all(isinstance(v, int) and v >= 32 for v in value):
            kwargs[key] = [max(v // 8, 16) for v in value]
        elif widths and key == "head_dim" and value is None:
            kwargs[key] = SMALL[key]
        elif widths and key == "pad_token_id" and isinstance(value, int) and value >= SMALL["vocab_size"]:
            kwargs[key] = 0
        elif widths and key == "image_size" and isinstance(value, int) and value > 32:
            kwargs[key] = 32
    if not grouped and "num_key_value_heads" in kwargs:
        kwargs["num_key_value_heads"] = kwargs["num_attention_heads"]
    return kwargs


def wake(model):
    """Sets weights with which mistakes are visible: no weight is constant, and running statistics of norms are not the initial ones."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point() and p.numel() and (p.numel() == 1 or p.float().std() == 0):
                p.add_(torch.randn(p.shape, generator=generator).to(p.dtype) * 0.1)
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.add_(torch.randn(b.shape, generator=generator) * 0.2)
            elif name.endswith("running_var"):
                b.mul_(torch.rand(b.shape, generator=generator) + 0.5)
    return model


class Call(torch.nn.Module):
    """A model as a function of positional tensors."""

    def __init__(self, model, names, constants):
        super().__init__()
        self.model, self.names, self.constants = model, names, constants

    def forward(self, *tensors):
        return self.model(**dict(zip(self.names, tensors)), **self.constants)


class Training(backward.WithGradients):
    """call(*args) -> (results, whether each requires gradients, gradients of the parameters, buffers afterwards). All calls start from the
    same buffers."""

    def __init__(self, call):
        super().__init__(call, [])
        self.call, self.buffers = call, {name: b.clone() for name, b in call.named_buffers()}

    def over(self, f):
        compiled = copy.copy(self)
        compiled.f = f
        return compiled

    def __call__(self, *args):
        with torch.no_grad():
            for name, b in self.call.named_buffers():
                b.copy_(self.buffers[name])
        self.call.zero_grad()
        results, differentiable, _ = super().__call__(*args)
        return results, differentiable, {name: p.grad for name, p in self.call.named_parameters()}, {name: b.clone() for name, b in self.call.named_buffers()}


def attribute(config, *names, default=None):
    """Looks in the configuration and in its nested configurations."""
    for c in [config, *[getattr(config, n) for n in ("text_config", "vision_config", "audio_config", "encoder", "encoder_config") if hasattr(config, n)]]:
        for n in names:
            value = getattr(c, n, None)
            if value is not None:
                return value
    return default


def square(value, default):
    if isinstance(value, dict):
        value = value.get("height", default)
    if isinstance(value, (list, tuple)):
        value = value[0]
    return value or default


def recipes(model):
    """Ways to feed this model, likeliest first: size -> {name: tensor}."""
    config, taken = model.config, inspect.signature(model.forward).parameters
    vocab = attribute(config, "vocab_size", default=100)
    image = square(attribute(config, "image_size"), 64)
    channels = attribute(config, "num_channels", "in_channels", "in_chans", default=3)
    mel = attribute(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", default=80)

    def ids(size, generator, padded=True):
        b, n = size["batch"], size["length"]
        found = {"input_ids": torch.randint(3, max(min(vocab, 120) - 2, 5), (b, n), generator=generator)}
        if padded and "attention_mask" in taken:
            mask = torch.ones(b, n, dtype=torch.int64)
            mask[1, n // 2:] = 0
            found["attention_mask"] = mask
        if "decoder_input_ids" in taken:
            found["decoder_input_ids"] = torch.randint(3, max(min(vocab, 120) - 2, 5), (b, n - 3), generator=generator)
        return found

    def pixels(size, generator, side=None, frames=None):
        shape = (size["batch"], *([frames] if frames else []), channels, side or image, side or image)
        return {"pixel_values": torch.randn(shape, generator=generator)}

    def grown(size, generator):
        return pixels(size, generator, 64 + 32 * (size["batch"] - 2))

    ways = []
    if "input_ids" in taken and "pixel_values" in taken and model.main_input_name == "input_ids" and hasattr(config, "vision_config"):
        ways.append(lambda s, g: {**ids(s, g), **pixels(s, g)})
    if "input_ids" in taken:
        ways += [ids, lambda s, g: ids(s, g, False)]
        if "bbox" in taken:
            def boxes(s, g):
                corner = torch.randint(0, 50, (s["batch"], s["length"], 2), generator=g)
                return {**ids(s, g), "bbox": torch.cat([corner, corner + 20], -1)}
            ways.insert(0, boxes)
    if "pixel_values" in taken:
        ways += [grown, pixels, lambda s, g: pixels(s, g, frames=attribute(config, "num_frames", default=4))]
    if "input_features" in taken:
        def features(s, g, last):
            n = 64 if "max_source_positions" not in vars(config) else 2 * config.max_source_positions
            n = n if last else n + 16 * s["batch"]
            found = {"input_features": torch.randn((s["batch"], mel, n) if last else (s["batch"], n, mel), generator=g)}
            if "decoder_input_ids" in taken:
                found["decoder_input_ids"] = torch.randint(3, 90, (s["batch"], s["length"]), generator=g)
            return found
        ways += [lambda s, g: features(s, g, True), lambda s, g: features(s, g, False)]
    if "input_values" in taken:
        def sound(s, g, extra=()):
            found = {"input_values": torch.randn(s["batch"], *extra, 1600 + 400 * s["length"], generator=g)}
            if "decoder_input_ids" in taken:
                found["decoder_input_ids"] = torch.randint(3, 90, (s["batch"], s["length"]), generator=g)
            return found
        ways += [sound, lambda s, g: sound(s, g, (1,)), lambda s, g: {"input_values": torch.randn(s["batch"], attribute(config, "max_length", default=1024), mel, generator=g)}]
    if "hidden_states" in taken:
        ways.append(lambda s, g: {"hidden_states": torch.randn(s["batch"], s["length"], attribute(config, "hidden_size", default=32), generator=g)})
    return ways


def build(name):
    """(model in f32, names, list of calls, constants), or NotBuilt."""
    logging.disable(logging.WARNING)
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING
    why = ""
    for lists, widths, grouped in ((True, True, True), (True, True, False), (False, True, True), (False, False, True)):
        try:
            cls = CONFIG_MAPPING[name]
            config = cls(**{**shrunk(cls(), lists, widths, grouped), **OWN.get(name, {})})
            family = MODEL_MAPPING[type(config)]
            family = family[0] if isinstance(family, (tuple, list)) else family
            with torch.device("meta"):
                count = sum(p.numel() for p in family(copy.deepcopy(config)).parameters())
            if count > 60e6:
                why = why or f"{count / 1e6:.0f} million parameters"
                continue
            torch.manual_seed(0)
            model = wake(family(config).float().eval())
        except Exception as error:
            why = why or trial.last_line(error)
            continue
        for way in recipes(model):
            for constants in ({"use_cache": False}, {}) if "use_cache" in inspect.signature(model.forward).parameters or hasattr(config, "use_cache") else ({},):
                calls = []
                try:
                    with torch.no_grad():
                        for size in SIZES:
                            inputs = way(size, torch.Generator().manual_seed(3))
                            out = model(**inputs, **constants)
                            if not all(leaf.isfinite().all() for _, leaf in oracle.leaves(out) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()):
                                raise ValueError("not finite")
                            calls.append(inputs)
                    return model, list(calls[0]), [list(c.values()) for c in calls], constants
                except Exception as error:
                    why = why or trial.last_line(error)
    raise NotBuilt("not built", why or "no way to feed it is known")


def cases(job, options, build=build, campaign="models"):
    built = []

    def ready():
        if not built:
            try:
                built.append(build(job["key"]))
            except NotBuilt as error:
                built.append(error)
        return built[0]

    for combination in job["combinations"]:
        about = {"id": f"{job['key']} {'-'.join(combination)}", "repro": f"./dev campaign {campaign} --only '{job['key']}' --combination {'-'.join(combination)}"}
        yield about, lambda c=combination: run(ready(), c, options)


def run(built, combination, options):
    if isinstance(built, NotBuilt):
        kind, why = built.args
        return {"class": kind, "detail": why[:300]}
    dtype, mode, weights = combination
    model, names, calls, constants = built
    torch._dynamo.reset()
    model = copy.deepcopy(model).to(DTYPES[dtype]).train(weights == "train")

    def call(m):
        return Training(Call(m, names, constants)) if weights == "train" else Call(m, names, constants)

    f = call(model)
    calls = [[t.to(DTYPES[dtype]) if t.is_floating_point() else t for t in c] for c in calls]
    wide = call(copy.deepcopy(model).double())

    def moved(i):
        other, change = copy.deepcopy(model), oracle.moved(i)
        with torch.no_grad():
            for p in other.parameters():
                p.copy_(change(p.detach()))
        return call(other)

    how = {"backend": options["backend"], "dynamic": mode == "dynamic", "freeze": weights == "frozen", "fullgraph": False}
    record = trial.check(f, calls if mode == "dynamic" else calls[:1], how, wide=wide, timed=True, aliases=False, moved=moved)
    record["parameters"] = sum(p.numel() for p in model.parameters())
    return record

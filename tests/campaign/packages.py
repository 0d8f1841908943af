"""Campaign `packages`: architectures of public packages, in small sizes, with random weights, judged by a float64 run.

A row of the table names an architecture, its module, how to build it, and its inputs. A row whose module cannot be imported is "not
installed", with the name of the missing module; the campaign installs nothing. (Use `pip install --no-deps`, because PyTorch is
installed: vit-pytorch x-transformers linear-attention-transformer perceiver-pytorch local-attention performer-pytorch
reformer_pytorch conformer nystrom-attention linformer g-mlp-pytorch mlp-mixer-pytorch lambda-networks
vector-quantize-pytorch egnn-pytorch pytorch-tcn efficientnet_pytorch monai torch_geometric diffusers timm, and what their
imports ask for.) If torchvision is not installed, packages that import it only for their data get a stub of it. Each model
runs in the combinations of campaign `models`.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import logging
import sys
import types

import torch
import transformers

from . import models, oracle, trial

LIMIT = 300


class Name(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A stub of torchvision: it has modules of every name, which have classes of every name."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torchvision" else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)

        def found(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Name(name, (), {})

        module.__getattr__ = found
        return module

    def exec_module(self, module):
        module.__path__ = []


@functools.cache
def imported(name):
    """Imports the module of this name, with the stub if it imports torchvision. No other import sees the stub."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").split(".")[0] != "torchvision":
            raise
    transformers.utils.is_torchvision_available()     # transformers remembers what it finds, so it looks now
    stand_in = StandIn()
    sys.meta_path.append(stand_in)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(stand_in)
        for key in [k for k in sys.modules if k.split(".")[0] == "torchvision"]:
            del sys.modules[key]


# These functions make the arguments of a model, positional or by name, from a size and a generator.

def image(side=32, channels=3, depth=()):
    return lambda s, g: [torch.randn(s["batch"], channels, *depth, side, side, generator=g)]


def grown(channels=3, least=64, step=32, dims=2):
    return lambda s, g: [torch.randn(s["batch"], channels, *[least + step * (s["batch"] - 2)] * dims, generator=g)]


def ids(step=1, length=None):
    return lambda s, g: [torch.randint(0, 64, (s["batch"], length or s["length"] * step), generator=g)]


def vectors(width=32, step=1):
    return lambda s, g: [torch.randn(s["batch"], s["length"] * step, width, generator=g)]


def channels_first(width=32, step=1):
    return lambda s, g: [torch.randn(s["batch"], width, s["length"] * step, generator=g)]


def series(channels, length):
    return lambda s, g: [torch.randn(s["batch"], channels, length, generator=g)]


def graph(width=16):
    def edges(s, g):
        count = 4 * s["length"]
        return [torch.randn(s["length"], width, generator=g), torch.randint(0, s["length"], (2, count), generator=g)]
    return edges


def latents(channels=4, side=8, text=0, pooled=0, depth=(), **more):
    """A denoiser takes latents, a time, and a text that conditions it."""
    def inputs(s, g):
        found = {"hidden_states": torch.randn(s["batch"], channels, *depth, side, side, generator=g),
                 "timestep": torch.randint(0, 900, (s["batch"],), generator=g)}
        if text:
            found["encoder_hidden_states"] = torch.randn(s["batch"], s["length"], text, generator=g)
        if pooled:
            found["pooled_projections"] = torch.randn(s["batch"], pooled, generator=g)
        return {**found, **{name: make(s, g) for name, make in more.items()}}
    return inputs


def noisy(channels=4, side=16, text=0):
    def inputs(s, g):
        found = {"sample": torch.randn(s["batch"], channels, side, side, generator=g), "timestep": torch.randint(0, 900, (s["batch"],), generator=g)}
        if text:
            found["encoder_hidden_states"] = torch.randn(s["batch"], s["length"], text, generator=g)
        return found
    return inputs


def flux(s, g):
    n, side = s["length"], 4
    return {"hidden_states": torch.randn(s["batch"], side * side, 16, generator=g), "encoder_hidden_states": torch.randn(s["batch"], n, 32, generator=g),
            "pooled_projections": torch.randn(s["batch"], 32, generator=g), "timestep": torch.rand(s["batch"], generator=g),
            "img_ids": torch.randint(0, 9, (side * side, 3), generator=g).float(), "txt_ids": torch.zeros(n, 3)}


VIT = dict(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=64, dim_head=8)
STAGES = dict(num_classes=10, dim=16, depth=(1, 1, 1, 1), heads=(1, 2, 4, 8))
SMALL = dict(block_out_channels=(16, 32), norm_num_groups=4)
ENDS = dict(down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"), up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"))
HEADS = dict(num_attention_heads=4, attention_head_dim=8)


def vit(module, name="ViT", feed=None, drop=(), **more):
    kwargs = {k: v for k, v in VIT.items() if k not in drop} | more
    return f"vit_pytorch.{module}", lambda m: getattr(m, name)(**kwargs), feed or image()


def timm(name, feed, **more):
    return "timm", lambda m: m.create_model(name, pretrained=False, num_classes=10, **more), feed


def two_blocks(model):
    model.blocks = model.blocks[:2]
    return model


def table():
    two, three = (1, 1, 1, 1), dict(spatial_dims=2, in_channels=1, out_channels=2)
    rows = {
        "vit-pytorch ViT": vit("vit"),
        "vit-pytorch SimpleViT": vit("simple_vit", "SimpleViT"),
        "vit-pytorch CaiT": vit("cait", "CaiT", cls_depth=1),
        "vit-pytorch CCT": ("vit_pytorch.cct", lambda m: m.CCT(img_size=32, embedding_dim=32, num_layers=2, num_heads=4, mlp_ratio=2, num_classes=10), image()),
        "vit-pytorch CrossViT": ("vit_pytorch.cross_vit", lambda m: m.CrossViT(
            image_size=48, num_classes=10, sm_dim=32, lg_dim=48, sm_enc_heads=2, lg_enc_depth=1, lg_enc_heads=2, cross_attn_depth=1, cross_attn_heads=2,
                depth=1), image(48)),
        "vit-pytorch CrossFormer": ("vit_pytorch.crossformer", lambda m: m.CrossFormer(
            dim=(64, 64, 64, 128), depth=two, global_window_size=(4, 4, 2, 1), local_window_size=2, num_classes=10), image(64)),
        "vit-pytorch CvT": ("vit_pytorch.cvt", lambda m: m.CvT(num_classes=10, s1_emb_dim=16, s2_emb_dim=32, s3_emb_dim=48, s2_depth=1, s3_depth=1), grown()),
        "vit-pytorch DeepViT": vit("deepvit", "DeepViT"),
        "vit-pytorch LeViT": ("vit_pytorch.levit", lambda m: m.LeViT(
            image_size=64, num_classes=10, dim=(16, 32, 48), depth=1, heads=(2, 2, 4), mlp_mult=2), image(64)),
                "vit-pytorch MaxViT": ("vit_pytorch.max_vit", lambda m: m.MaxViT(num_classes=10, dim=16, depth=(1, 1), dim_head=8, dim_conv_stem=16,
                    window_size=4), image(32)),
        "vit-pytorch MobileViT": ("vit_pytorch.mobile_vit", lambda m: m.MobileViT(
            image_size=(64, 64), dims=[32, 40, 48], channels=[8, 16, 24, 24, 32, 32, 40, 40, 48, 48, 64], num_classes=10), image(64)),
        "vit-pytorch NesT": ("vit_pytorch.nest", lambda m: m.NesT(
            image_size=32, patch_size=4, num_classes=10, dim=16, heads=2, num_hierarchies=2, block_repeats=(1, 1)), image()),
        "vit-pytorch ParallelViT": vit("parallel_vit"),
        "vit-pytorch PiT": vit("pit", "PiT", depth=(1, 1)),
        "vit-pytorch RegionViT": ("vit_pytorch.regionvit", lambda m: m.RegionViT(dim=(16, 32, 32, 64), depth=two, window_size=2, num_classes=10), image(64)),
        "vit-pytorch RvT": vit("rvt", "RvT"),
        "vit-pytorch ScalableViT": ("vit_pytorch.scalable_vit", lambda m: m.ScalableViT(
            **STAGES, reduction_factor=(8, 4, 2, 1), window_size=(8, 4, None, None)), image(64)),
        "vit-pytorch T2T": ("vit_pytorch.t2t", lambda m: m.T2TViT(image_size=32, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=64, t2t_layers=((7, 4),
            (3, 2))), image()),
        "vit-pytorch TwinsSVT": ("vit_pytorch.twins_svt", lambda m: m.TwinsSVT(
            num_classes=10, s1_emb_dim=16, s2_emb_dim=16, s3_emb_dim=32, s4_emb_dim=32, s1_local_patch_size=2, s2_local_patch_size=2, s3_local_patch_size=2,
            s4_local_patch_size=2, s1_global_k=2, s2_global_k=2, s3_global_k=2, s4_global_k=2, s3_depth=1, s4_depth=1), image(64)),
        "vit-pytorch XCiT": vit("xcit", "XCiT", cls_depth=1),
        "vit-pytorch nViT": vit("normalized_vit", "nViT"),
        "vit-pytorch UViT": vit("simple_uvit", "SimpleUViT"),
        "vit-pytorch FFT": vit("simple_vit_with_fft", "SimpleViT", freq_patch_size=4),
        "vit-pytorch LookViT": ("vit_pytorch.look_vit", lambda m: m.LookViT(
            dim=32, image_size=48, num_classes=10, depth=2, heads=2, dim_head=8, highres_patch_size=8, cross_attn_heads=2), image(48)),
        "vit-pytorch JumboViT": vit("jumbo_vit", "JumboViT", jumbo_cls_k=2),
        "vit-pytorch AdaptiveTokens": vit("ats_vit", max_tokens_per_depth=(12, 8)),
        "vit-pytorch 1d": ("vit_pytorch.vit_1d", lambda m: m.ViT(seq_len=32, patch_size=4, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=64), series(3,
            32)),
        "vit-pytorch 3d": vit("vit_3d", feed=image(32, 3, (4,)), drop=("patch_size",), image_patch_size=8, frames=4, frame_patch_size=2),
        "vit-pytorch ViViT": vit("vivit", "ViViT", image(32, 3, (4,)), ("patch_size", "depth"), image_patch_size=8, frames=4, frame_patch_size=2,
                                 spatial_depth=1, temporal_depth=1),
        "x-transformers decoder": ("x_transformers", lambda m: m.TransformerWrapper(
            num_tokens=64, max_seq_len=64, attn_layers=m.Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, use_rmsnorm=True,
                ff_glu=True)), ids()),
        "x-transformers alibi": ("x_transformers", lambda m: m.TransformerWrapper(
            num_tokens=64, max_seq_len=64, use_abs_pos_emb=False, attn_layers=m.Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, alibi_pos_bias=True,
                attn_kv_heads=2)), ids()),
        "x-transformers t5 bias": ("x_transformers", lambda m: m.TransformerWrapper(
            num_tokens=64, max_seq_len=64, attn_layers=m.Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, rel_pos_bias=True, macaron=True,
                use_scalenorm=True)), ids()),
        "x-transformers memories": ("x_transformers", lambda m: m.TransformerWrapper(
            num_tokens=64, max_seq_len=64, num_memory_tokens=4, attn_layers=m.Encoder(
                dim=32, depth=2, heads=4, attn_dim_head=8, attn_qk_norm=True, attn_pre_talking_heads=True, attn_num_mem_kv=4, gate_residual=True)), ids()),
        "x-transformers continuous": ("x_transformers", lambda m: m.ContinuousTransformerWrapper(
            dim_in=32, dim_out=16, max_seq_len=64, attn_layers=m.Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, shift_tokens=1)), vectors()),
        "linear-attention-transformer": ("linear_attention_transformer", lambda m: m.LinearAttentionTransformerLM(
            num_tokens=64, dim=32, heads=4, depth=2, max_seq_len=128, causal=True, n_local_attn_heads=2, local_attn_window_size=8), ids(length=128)),
        "perceiver-pytorch": ("perceiver_pytorch", lambda m: m.Perceiver(
            input_channels=3, input_axis=2, num_freq_bands=4, max_freq=10.0, depth=2, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=4,
                cross_dim_head=8,
            latent_dim_head=8, num_classes=10, self_per_cross_attn=1), lambda s, g: [torch.randn(s["batch"], 12, 8 + s["batch"], 3, generator=g)]),
        "perceiver-pytorch IO": ("perceiver_pytorch", lambda m: m.PerceiverIO(
            dim=16, queries_dim=32, logits_dim=10, depth=2, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=4, cross_dim_head=8, latent_dim_head=8),
            lambda s, g: {"data": torch.randn(s["batch"], s["length"], 16, generator=g), "queries": torch.randn(9, 32, generator=g)}),
        "local-attention": ("local_attention", lambda m: m.LocalTransformer(
            num_tokens=64, dim=32, depth=2, max_seq_len=128, causal=True, local_attn_window_size=8), ids(step=3)),
        "performer-pytorch": ("performer_pytorch", lambda m: m.PerformerLM(num_tokens=64, max_seq_len=64, dim=32, depth=2, heads=4, dim_head=8,
            causal=False), ids()),
        "performer-pytorch causal": ("performer_pytorch", lambda m: m.PerformerLM(
            num_tokens=64, max_seq_len=64, dim=32, depth=2, heads=4, dim_head=8, causal=True, generalized_attention=True), ids()),
        "reformer-pytorch": ("reformer_pytorch", lambda m: m.ReformerLM(
            num_tokens=64, dim=32, depth=2, max_seq_len=64, heads=4, bucket_size=8, n_hashes=2, causal=True, use_full_attn=True), ids(length=64)),
        "conformer": ("conformer", lambda m: m.Conformer(32, depth=2, dim_head=8, heads=4, ff_mult=2, conv_expansion_factor=2, conv_kernel_size=7),
            vectors(step=3)),
        "nystrom-attention": ("nystrom_attention", lambda m: m.Nystromformer(dim=32, dim_head=8, heads=4, depth=2, num_landmarks=8), vectors(step=3)),
        "linformer": ("linformer", lambda m: m.LinformerLM(num_tokens=64, dim=32, seq_len=32, depth=2, heads=4, k=8), ids(length=32)),
        "g-mlp-pytorch": ("g_mlp_pytorch", lambda m: m.gMLP(num_tokens=64, dim=32, depth=2, seq_len=32, causal=True), ids(length=32)),
        "g-mlp-pytorch vision": ("g_mlp_pytorch", lambda m: m.gMLPVision(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2), image()),
        "mlp-mixer-pytorch": ("mlp_mixer_pytorch", lambda m: m.MLPMixer(image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10), image()),
        "lambda-networks": ("lambda_networks", lambda m: m.LambdaLayer(dim=16, dim_out=16, r=7, dim_k=8, heads=4, dim_u=1), grown(16, 16, 4)),
        "vector-quantize-pytorch": ("vector_quantize_pytorch", lambda m: m.ResidualVQ(dim=32, num_quantizers=3, codebook_size=16), vectors()),
        "vector-quantize-pytorch FSQ": ("vector_quantize_pytorch", lambda m: m.FSQ([8, 5, 5, 5]), vectors(4)),
        "egnn-pytorch": ("egnn_pytorch", lambda m: m.EGNN_Network(num_tokens=21, num_positions=64, dim=16, depth=2, num_nearest_neighbors=4),
                         lambda s, g: [torch.randint(0, 21, (s["batch"], s["length"]), generator=g), torch.randn(s["batch"], s["length"], 3, generator=g)]),
        "pytorch-tcn": ("pytorch_tcn", lambda m: m.TCN(num_inputs=8, num_channels=[16, 16, 32], use_skip_connections=True), channels_first(8, 4)),
        "pytorch-tcn gated": ("pytorch_tcn", lambda m: m.TCN(num_inputs=8, num_channels=[16, 16], use_gate=True, causal=False, use_norm="layer_norm"),
            channels_first(8, 4)),
        "efficientnet-pytorch b0": ("efficientnet_pytorch", lambda m: m.EfficientNet.from_name("efficientnet-b0", num_classes=10, image_size=64), image(64)),
    }
    nets = "monai.networks.nets"
    rows |= {
        "monai UNet": (nets, lambda m: m.UNet(**three, channels=(8, 16, 32), strides=(2, 2), num_res_units=2), grown(1)),
        "monai UNet 3d": (nets, lambda m: m.UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2)), grown(1, 16, 8, 3)),
        "monai AttentionUnet": (nets, lambda m: m.AttentionUnet(**three, channels=(8, 16, 32), strides=(2, 2)), grown(1)),
        "monai BasicUNetPlusPlus": (nets, lambda m: m.BasicUNetPlusPlus(**three, features=(8, 8, 16, 16, 32, 8)), grown(1)),
        "monai DenseNet": (nets, lambda m: m.DenseNet(**three, init_features=8, growth_rate=4, block_config=(2, 2)), grown(1)),
        "monai DynUNet": (nets, lambda m: m.DynUNet(**three, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[8, 16, 32]),
            grown(1)),
        "monai SegResNet": (nets, lambda m: m.SegResNet(**three, init_filters=8), grown(1)),
        "monai SwinUNETR": (nets, lambda m: m.SwinUNETR(**three, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4)), image(64, 1)),
        "monai UNETR": (nets, lambda m: m.UNETR(**three, img_size=32, feature_size=8, hidden_size=48, mlp_dim=64, num_heads=4), image(32, 1)),
        "monai VNet": (nets, lambda m: m.VNet(**three), grown(1)),
        "monai HighResNet": (nets, lambda m: m.HighResNet(**three), grown(1, 32)),
        "monai VQVAE": (nets, lambda m: m.VQVAE(**three, channels=(8, 16), num_res_channels=8, downsample_parameters=((2, 4, 1, 1),) * 2,
            upsample_parameters=((2, 4, 1, 1, 0),) * 2, num_embeddings=16, embedding_dim=8), grown(1)),
        "monai SEResNet50": (nets, lambda m: m.SEResNet50(spatial_dims=2, in_channels=3, num_classes=10), image(64)),
        "torch-geometric GCN": ("torch_geometric.nn", lambda m: m.GCN(16, 32, 2, 10), graph()),
        "torch-geometric GAT": ("torch_geometric.nn", lambda m: m.GAT(16, 32, 2, 10, heads=4, v2=True), graph()),
        "torch-geometric SAGE": ("torch_geometric.nn", lambda m: m.GraphSAGE(16, 32, 2, 10), graph()),
        "torch-geometric GIN": ("torch_geometric.nn", lambda m: m.GIN(16, 32, 2, 10), graph()),
        "torch-geometric PNA": ("torch_geometric.nn", lambda m: m.PNA(
            16, 32, 2, 10, aggregators=["mean", "min", "max", "std"], scalers=["identity", "amplification"], deg=torch.tensor([0, 1, 3, 5, 2])), graph()),
        "diffusers UNet2D": ("diffusers", lambda m: m.UNet2DModel(sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, **SMALL, down_block_types=(
            "DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8), noisy()),
        "diffusers UNet2DCondition": ("diffusers", lambda m: m.UNet2DConditionModel(
            sample_size=16, layers_per_block=1, **SMALL, cross_attention_dim=32, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=4), noisy(text=32)),
        "diffusers ControlNet": ("diffusers", lambda m: m.ControlNetModel(layers_per_block=1, **SMALL, cross_attention_dim=32, down_block_types=(
            "DownBlock2D", "CrossAttnDownBlock2D"), attention_head_dim=4, conditioning_embedding_out_channels=(8, 16)), lambda s, g: {
            **noisy(text=32)(s, g), "controlnet_cond": torch.randn(s["batch"], 3, 32, 32, generator=g)}),
        "diffusers AutoencoderKL": ("diffusers", lambda m: m.AutoencoderKL(**ENDS, **SMALL), grown(3, 32)),
        "diffusers AutoencoderTiny": ("diffusers", lambda m: m.AutoencoderTiny(
            encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1)), grown(3, 32)),
        "diffusers AutoencoderDC": ("diffusers", lambda m: m.AutoencoderDC(
            in_channels=3, latent_channels=4, attention_head_dim=8, encoder_block_out_channels=(16, 32), decoder_block_out_channels=(16, 32),
            encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1), encoder_block_types=("ResBlock", "EfficientViTBlock"),
            decoder_block_types=("ResBlock", "EfficientViTBlock"), encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)),
            decoder_norm_types=("rms_norm", "rms_norm"), decoder_act_fns="silu"), grown(3, 32)),
        "diffusers VQModel": ("diffusers", lambda m: m.VQModel(**ENDS, **SMALL, num_vq_embeddings=16), grown(3, 32)),
        "diffusers DiT": ("diffusers", lambda m: m.DiTTransformer2DModel(
            **HEADS, in_channels=4, num_layers=2, sample_size=8, num_embeds_ada_norm=10, norm_num_groups=4), latents(
            class_labels=lambda s, g: torch.randint(0, 9, (s["batch"],), generator=g))),
        "diffusers PixArt": ("diffusers", lambda m: m.PixArtTransformer2DModel(
            **HEADS, in_channels=4, out_channels=8, num_layers=2, sample_size=8, cross_attention_dim=32, caption_channels=16,
            use_additional_conditions=False), latents(text=16)),
        "diffusers SD3": ("diffusers", lambda m: m.SD3Transformer2DModel(
            **HEADS, sample_size=8, in_channels=4, out_channels=4, num_layers=2, joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=32,
            pos_embed_max_size=16), latents(text=32, pooled=32)),
        "diffusers Flux": ("diffusers", lambda m: m.FluxTransformer2DModel(
            in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
            axes_dims_rope=(4, 4, 8)), flux),
        "diffusers AuraFlow": ("diffusers", lambda m: m.AuraFlowTransformer2DModel(
            sample_size=8, num_mmdit_layers=1, num_single_dit_layers=1, **HEADS, joint_attention_dim=32, caption_projection_dim=32, pos_embed_max_size=64),
                latents(text=32)),
        "diffusers Prior": ("diffusers", lambda m: m.PriorTransformer(**HEADS, num_layers=2, embedding_dim=32, num_embeddings=7, additional_embeddings=4),
            lambda s, g: {
            "hidden_states": torch.randn(s["batch"], 32, generator=g), "timestep": torch.randint(0, 99, (s["batch"],), generator=g),
            "proj_embedding": torch.randn(s["batch"], 32, generator=g), "encoder_hidden_states": torch.randn(s["batch"], 7, 32, generator=g)}),
        "diffusers Lumina2": ("diffusers", lambda m: m.Lumina2Transformer2DModel(
            sample_size=8, in_channels=4, hidden_size=32, num_layers=1, num_refiner_layers=1, num_attention_heads=2, num_kv_heads=1, multiple_of=16,
            axes_dim_rope=(8, 4, 4), axes_lens=(64, 32, 32), cap_feat_dim=16), latents(text=16, encoder_attention_mask=lambda s, g: torch.ones(
                s["batch"], s["length"], dtype=torch.bool))),
        "diffusers Sana": ("diffusers", lambda m: m.SanaTransformer2DModel(
            in_channels=4, out_channels=4, num_layers=1, **HEADS, num_cross_attention_heads=4, cross_attention_head_dim=8, cross_attention_dim=32,
            caption_channels=16, sample_size=8), latents(text=16)),
        "diffusers CogVideoX": ("diffusers", lambda m: m.CogVideoXTransformer3DModel(
            **HEADS, in_channels=4, out_channels=4, num_layers=1, text_embed_dim=16, time_embed_dim=16, sample_width=8, sample_height=8, sample_frames=5,
            max_text_seq_length=8), lambda s, g: {
            "hidden_states": torch.randn(s["batch"], 2, 4, 8, 8, generator=g), "timestep": torch.randint(0, 99, (s["batch"],), generator=g),
            "encoder_hidden_states": torch.randn(s["batch"], 8, 16, generator=g)}),
        "diffusers Wan": ("diffusers", lambda m: m.WanTransformer3DModel(
            num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=16, freq_dim=32, ffn_dim=32, num_layers=1,
            rope_max_seq_len=32), latents(text=16, depth=(2,))),
        "diffusers LTX": ("diffusers", lambda m: m.LTXVideoTransformer3DModel(
            in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, cross_attention_dim=16, num_layers=1, caption_channels=16),
            lambda s, g: {
            "hidden_states": torch.randn(s["batch"], 32, 4, generator=g), "encoder_hidden_states": torch.randn(s["batch"], s["length"], 16, generator=g),
            "timestep": torch.randint(0, 99, (s["batch"],), generator=g), "encoder_attention_mask": torch.ones(s["batch"], s["length"], dtype=torch.bool),
            "num_frames": 2, "height": 4, "width": 4}),
    }
    free = ("resnet18 seresnext26d_32x4d resnest14d densenet121 dla34 dpn48b hrnet_w18_small vovnet39a ghostnetv2_100 mobilenetv3_small_100 mobilenetv4_conv_small "
            "mnasnet_small regnety_002 rexnet_100 repvgg_a0 efficientnet_b0 tinynet_e lcnet_050 fasternet_t0 starnet_s1 shvit_s1 xception41 res2net50_14w_8s selecsls42 "
            "skresnet18 gernet_s nf_resnet26 eca_nfnet_l0 lambda_resnet26t edgenext_xx_small fastvit_t8 repvit_m1 pvt_v2_b0 poolformerv2_s12 caformer_s18 "
            "efficientvit_b0 mobilevitv2_050 focalnet_tiny_srf davit_tiny hgnetv2_b0 inception_next_atto nextvit_small rdnet_tiny swiftformer_xs ese_vovnet19b_dw "
            "cspdarknet53 hardcorenas_a tresnet_m mobileone_s0")
    tests = "test_byobnet test_convnext test_efficientnet test_mambaout test_nfnet test_resnet test_vit test_vit3"
    usual = ("levit_128s efficientformer_l1 efficientformerv2_s0 efficientvit_m0 mvitv2_tiny twins_svt_small visformer_tiny gcvit_xxtiny hiera_tiny_224 "
             "tiny_vit_5m_224 pit_ti_224")
    large = "botnet26t_256 halonet26t maxvit_rmlp_pico_rw_256 csatv2"
    for names, side in ((free, 64), (tests, 160), (usual, 224), (large, 256), ("inception_v3", 96), ("crossvit_tiny_240", 240)):
        rows |= {f"timm {name}": timm(name, image(side)) for name in names.split()}
    narrow, staged = dict(dims=(16, 16, 32, 32), depths=two), dict(embed_dim=24, depths=two, num_heads=(1, 2, 2, 4))
    thin = dict(depth=2, embed_dim=48, num_heads=4)
    for name, side, more in [
        ("convnext_atto", 64, narrow), ("convnextv2_atto", 64, narrow), ("swin_tiny_patch4_window7_224", 224, staged), ("swinv2_tiny_window8_256", 256, staged),
        ("tnt_s_patch16_224", 224, dict(depth=1)), ("xcit_nano_12_p16_224", 224, dict(depth=1)), ("cait_xxs24_224", 224, dict(depth=1)),
        ("sequencer2d_s", 224, dict(layers=two)), ("convit_tiny", 224, dict(depth=2, local_up_to_layer=1)), ("deit3_small_patch16_224", 224, dict(depth=2)),
        ("eva02_tiny_patch14_224", 224, dict(depth=2)), ("beit_base_patch16_224", 224, thin), ("vit_srelpos_small_patch16_224", 224, dict(depth=2)),
        ("naflexvit_base_patch16_gap", 64, thin),
    ]:
        rows[f"timm {name}"] = timm(name, image(side), **more)
    for name in ("mixer_s16_224", "gmlp_ti16_224", "resmlp_12_224"):     # these take no num_blocks
        rows[f"timm {name}"] = "timm", lambda m, name=name: two_blocks(m.create_model(name, pretrained=False, num_classes=10)), image(224)
    return rows


TABLE = table()


def add_arguments(parser):
    models.add_arguments(parser)


def jobs(options):
    return models.chosen(list(TABLE), options)


def build(name):
    """Like models.build. Raises models.NotBuilt also for packages that are not installed."""
    logging.disable(logging.WARNING)
    module, make, feed = TABLE[name]
    try:
        module = imported(module)
    except ImportError as error:
        raise models.NotBuilt("not installed", trial.last_line(error)) from None
    try:
        torch.manual_seed(0)
        model = models.wake(make(module).float().eval())
        calls = [feed(size, torch.Generator().manual_seed(3)) for size in models.SIZES]
        names = list(calls[0]) if isinstance(calls[0], dict) else list(inspect.signature(model.forward).parameters)[:len(calls[0])]
        calls = [list(call.values()) if isinstance(call, dict) else call for call in calls]
        plain = [name for name, value in zip(names, calls[0]) if not isinstance(value, torch.Tensor)]
        constants = {name: value for name, value in zip(names, calls[0]) if name in plain}
        calls = [[value for value in call if isinstance(value, torch.Tensor)] for call in calls]
        names = [name for name in names if name not in plain]
        with torch.no_grad():
            for call in calls:
                out = model(**dict(zip(names, call)), **constants)
                if not all(leaf.isfinite().all() for _, leaf in oracle.leaves(out) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()):
                    raise ValueError("not finite")
    except Exception as error:
        raise models.NotBuilt("not built", trial.last_line(error)) from None
    return model, names, calls, constants


def cases(job, options):
    return models.cases(job, options, build, "packages")

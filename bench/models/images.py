"""The models of the zoo that take images: `NAME(tiny)` returns (model, inputs). Tested by tests/torch/test_zoo.py."""

import torch

from bench.models import conv_nets, unet


def image(tiny, batch=1):
    side = 64 if tiny else 224
    return (torch.randn(2 if tiny and batch > 1 else batch, 3, side, side),)


def resnet50(tiny, batch=1):
    model = conv_nets.ResNet((1, 1, 1, 1), width=16, classes=10) if tiny else conv_nets.ResNet((3, 4, 6, 3))
    return model, image(tiny, batch)


def resnet50_b8(tiny):
    return resnet50(tiny, 8)


def mobilenet_v3_large(tiny):
    model = conv_nets.MobileNetV3(scale=0.25, classes=10) if tiny else conv_nets.MobileNetV3()
    return model, image(tiny)


def efficientnet_b0_of_transformers(tiny):
    """Its pooling has windows of 1280x1280, so that one covers the 7x7 pixels of each channel."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification
    small = dict(in_channels=[32, 16, 24], out_channels=[16, 24, 40], kernel_sizes=[3, 5, 3], strides=[1, 2, 2], num_block_repeats=[1, 2, 1],
                 expand_ratios=[1, 4, 4], width_coefficient=0.25, hidden_dim=320, image_size=64, num_labels=10)
    full = dict(width_coefficient=1.0, hidden_dim=1280, image_size=224, num_labels=1000)
    config = EfficientNetConfig(depth_coefficient=1.0, **small if tiny else full)
    model = EfficientNetForImageClassification(config)
    for module in model.modules():      # transformers draws the weights of batch norms around 0 instead of 1
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_parameters()
    return model, image(tiny)


def efficientnet_b0(tiny):
    """The model with the pooling of torchvision and timm."""
    model, inputs = efficientnet_b0_of_transformers(tiny)
    model.efficientnet.pooler = torch.nn.AdaptiveAvgPool2d(1)
    return model, inputs


def convnext_tiny(tiny):
    from transformers import ConvNextConfig, ConvNextForImageClassification
    small = dict(hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 2, 1], image_size=64)
    config = ConvNextConfig(num_labels=10 if tiny else 1000, **small if tiny else {})
    return ConvNextForImageClassification(config), image(tiny)


def vit_b_16(tiny):
    from transformers import ViTConfig, ViTForImageClassification
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64)
    config = ViTConfig(num_labels=10 if tiny else 1000, **small if tiny else {})
    return ViTForImageClassification(config), image(tiny)


def swin_tiny(tiny):
    from transformers import SwinConfig, SwinForImageClassification
    small = dict(embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, image_size=64)
    config = SwinConfig(num_labels=10 if tiny else 1000, **small if tiny else {})
    return SwinForImageClassification(config), image(tiny)


def unet_block(tiny):
    width, context, side = (32, 48, 16) if tiny else (160, 512, 32)
    inputs = torch.randn(1, 4, side, side), torch.tensor([601]), torch.randn(1, 7 if tiny else 77, context)
    return unet.UNet(width, context), inputs

"""A small U-Net like those that denoise latents in Stable Diffusion.

It has residual blocks (group norm, SiLU, time embedding), one transformer block (self-attention, cross-attention
on a text context, gated feed-forward), strided down-sampling, nearest up-sampling, and skip connections by
concatenation. `UNet(width, context)(latent [N,4,H,W], timestep [N], text [N,T,context])` returns the predicted
noise [N,4,H,W]. H and W are multiples of 4, width is a multiple of 32. Tested by tests/torch/test_zoo.py.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def time_embedding(timestep, width):
    """Sinusoids of geometrically falling frequency, as in Vaswani et al. 2017."""
    steps = torch.arange(width // 2, device=timestep.device) / (width // 2)
    frequencies = torch.exp(-math.log(10000.0) * steps)
    angles = timestep[:, None].float() * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, time_width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, c_in), nn.Conv2d(c_in, c_out, 3, padding=1)
        self.time = nn.Linear(time_width, c_out)
        self.norm2, self.conv2 = nn.GroupNorm(32, c_out), nn.Conv2d(c_out, c_out, 3, padding=1)
        self.shortcut = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(context, width, bias=False)
        self.v = nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x, context):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        h = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(context)), split(self.v(context)))
        return self.out(h.transpose(1, 2).flatten(-2))


class Transformer(nn.Module):
    def __init__(self, width, context, heads=4):
        super().__init__()
        self.norm, self.proj_in = nn.GroupNorm(32, width), nn.Linear(width, width)
        self.norm1, self.self_attention = nn.LayerNorm(width), Attention(width, width, heads)
        self.norm2, self.cross_attention = nn.LayerNorm(width), Attention(width, context, heads)
        self.norm3, self.up = nn.LayerNorm(width), nn.Linear(width, 8 * width)
        self.down, self.proj_out = nn.Linear(4 * width, width), nn.Linear(width, width)

    def forward(self, x, context):
        h = self.proj_in(self.norm(x).flatten(2).transpose(1, 2))
        n = self.norm1(h)
        h = h + self.self_attention(n, n)
        h = h + self.cross_attention(self.norm2(h), context)
        value, gate = self.up(self.norm3(h)).chunk(2, dim=-1)
        h = h + self.down(value * F.gelu(gate))
        return x + self.proj_out(h).transpose(1, 2).unflatten(-1, x.shape[2:])


class UNet(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        time, wide = 4 * width, 2 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.conv_in = nn.Conv2d(4, width, 3, padding=1)
        self.res1, self.down1 = ResBlock(width, width, time), nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.res2, self.down2 = ResBlock(width, wide, time), nn.Conv2d(wide, wide, 3, stride=2, padding=1)
        self.mid1, self.attention, self.mid2 = (ResBlock(wide, wide, time), Transformer(wide, context),
                                                ResBlock(wide, wide, time))
        self.up2, self.res3 = nn.Conv2d(wide, wide, 3, padding=1), ResBlock(2 * wide, wide, time)
        self.up1, self.res4 = nn.Conv2d(wide, wide, 3, padding=1), ResBlock(wide + width, width, time)
        self.norm_out, self.conv_out = nn.GroupNorm(32, width), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, latent, timestep, text):
        time = self.time(time_embedding(timestep, self.width).to(latent.dtype))
        skip1 = self.res1(self.conv_in(latent), time)
        skip2 = self.res2(self.down1(skip1), time)
        h = self.mid2(self.attention(self.mid1(self.down2(skip2), time), text), time)
        h = self.up2(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        h = self.res3(torch.cat([h, skip2], dim=1), time)
        h = self.up1(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        h = self.res4(torch.cat([h, skip1], dim=1), time)
        return self.conv_out(F.silu(self.norm_out(h)))

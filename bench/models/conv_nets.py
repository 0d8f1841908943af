"""ResNet-50 and MobileNetV3-Large, with the structure of torchvision's models.

ResNet: He et al. 2015, bottleneck blocks with the stride on the 3x3 convolution. MobileNetV3: Howard et al.
2019, table 1. Both map [N,3,H,W] images to [N,classes] logits. Tested by tests/torch/test_zoo.py.
"""

from torch import nn


def conv_bn(c_in, c_out, kernel, stride=1, groups=1, act=None, eps=1e-5):
    layers = [nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(c_out, eps=eps)]
    return nn.Sequential(*layers, *[act(inplace=True)] if act else [])


class Bottleneck(nn.Module):
    def __init__(self, c_in, width, stride):
        super().__init__()
        c_out = 4 * width
        self.body = nn.Sequential(conv_bn(c_in, width, 1, act=nn.ReLU),
                                  conv_bn(width, width, 3, stride, act=nn.ReLU),
                                  conv_bn(width, c_out, 1))
        self.shortcut = conv_bn(c_in, c_out, 1, stride) if stride != 1 or c_in != c_out else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, depths, width=64, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, width, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1))
        blocks, c_in = [], width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Bottleneck(c_in, width << stage, 2 if stage and i == 0 else 1))
                c_in = 4 * width << stage
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(c_in, classes)

    def forward(self, x):
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1),
                                  nn.Conv2d(channels, squeezed, 1), nn.ReLU(inplace=True),
                                  nn.Conv2d(squeezed, channels, 1), nn.Hardsigmoid(inplace=True))

    def forward(self, x):
        return x * self.gate(x)


class InvertedResidual(nn.Module):
    def __init__(self, c_in, kernel, expanded, c_out, squeeze, act, stride):
        super().__init__()
        layers = [] if expanded == c_in else [conv_bn(c_in, expanded, 1, act=act, eps=1e-3)]
        layers.append(conv_bn(expanded, expanded, kernel, stride, groups=expanded, act=act, eps=1e-3))
        if squeeze:
            layers.append(SqueezeExcite(expanded, round_to_8(expanded / 4)))
        layers.append(conv_bn(expanded, c_out, 1, eps=1e-3))
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def round_to_8(channels):
    """The nearest multiple of 8, or the next one if that would lose more than a tenth."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8


# kernel, expanded channels, output channels, squeeze-excite, activation, stride
RE, HS = nn.ReLU, nn.Hardswish
MOBILENET_V3_LARGE = [
    (3, 16, 16, False, RE, 1), (3, 64, 24, False, RE, 2), (3, 72, 24, False, RE, 1),
    (5, 72, 40, True, RE, 2), (5, 120, 40, True, RE, 1), (5, 120, 40, True, RE, 1),
    (3, 240, 80, False, HS, 2), (3, 200, 80, False, HS, 1), (3, 184, 80, False, HS, 1),
    (3, 184, 80, False, HS, 1), (3, 480, 112, True, HS, 1), (3, 672, 112, True, HS, 1),
    (5, 672, 160, True, HS, 2), (5, 960, 160, True, HS, 1), (5, 960, 160, True, HS, 1),
]


class MobileNetV3(nn.Module):
    def __init__(self, scale=1.0, classes=1000):
        super().__init__()
        scaled = lambda channels: round_to_8(channels * scale)
        c_in = scaled(16)
        layers = [conv_bn(3, c_in, 3, 2, act=HS, eps=1e-3)]
        for kernel, expanded, c_out, *rest in MOBILENET_V3_LARGE:
            layers.append(InvertedResidual(c_in, kernel, scaled(expanded), scaled(c_out), *rest))
            c_in = scaled(c_out)
        layers.append(conv_bn(c_in, 6 * c_in, 1, act=HS, eps=1e-3))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        hidden = scaled(1280)
        self.classifier = nn.Sequential(nn.Linear(6 * c_in, hidden), HS(inplace=True), nn.Dropout(0.2),
                                        nn.Linear(hidden, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))

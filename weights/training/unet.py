"""A U-Net that knows the noise level: more of its work at low resolutions, where a step costs little and sees far.

A third of the work of NCSNv2 of the same first width, and after 500 steps it denoises about as NCSNv2 did after 5,000
(docs/notebook.md). Its blocks are NCSNv2's: InstanceNorm++, ELU, convolution. The level enters as in EDM (Karras et al., 2022):
the input is scaled to one variance whatever the level, the output is mixed with it, and a constant channel holds ln(sigma)/4.

A norm takes its statistics over the whole map, so what it does to a pixel depends on the image's size. For images of any size the norms
can be `LevelTerms`: what they would do on the average, a scale and a shift for each channel that depend on the level alone.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from fused import affine_elu, norm_elu
from ncsnv2 import InstanceNormPlus, conv3x3, geometric

DATA_DEVIATION = 0.5  # EDM's, of images in [-1, 1]


FREQUENCIES = 6
PERIOD = 5.4  # of ln(2 sigma)/4: twice what it covers from 0.001 to 50, so that a function of the level need not be periodic


def told(sigma):
    """What `LevelTerms` are told of a level: sines and cosines of ln(2 sigma)/4."""
    frequencies = torch.arange(1, FREQUENCIES + 1, dtype=torch.float64) * (2 * math.pi / PERIOD)
    angles = (2 * sigma.double()).log()[:, None] / 4 * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1).to(sigma.dtype)


class LevelTerms(nn.Linear):
    """In the place of a norm: scale and shift of each channel, from what is told of the level."""

    def __init__(self, channels):
        super().__init__(2 * FREQUENCIES, 2 * channels)
        nn.init.zeros_(self.weight)
        self.bias.data = torch.cat([torch.ones(channels), torch.zeros(channels)])


def activated(norm, x, level):
    """The norm and the ELU behind it."""
    return affine_elu(x, norm(level)) if isinstance(norm, LevelTerms) else norm_elu(norm, x)


class Block(nn.Module):
    """norm, ELU, conv, norm, ELU, conv, plus the input; the identity before training."""

    def __init__(self, channels, norm):
        super().__init__()
        self.normalize1 = norm(channels)
        self.conv1 = conv3x3(channels, channels)
        self.normalize2 = norm(channels)
        self.conv2 = conv3x3(channels, channels)
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)

    def forward(self, x, level):
        h = self.conv1(activated(self.normalize1, x, level))
        return x + self.conv2(activated(self.normalize2, h, level))


class Group(nn.ModuleList):
    def forward(self, x, level):
        for block in self:
            x = block(x, level)
        return x


class UNet(nn.Module):
    """`widths`: feature maps at the image's resolution, at half of it, at a quarter...; at each, `blocks` blocks on the way
    down and as many on the way up. `norm`: InstanceNormPlus or LevelTerms."""

    def __init__(self, channels, widths, blocks, sigmas, norm=InstanceNormPlus):
        super().__init__()
        steps = list(zip(widths, widths[1:]))
        group = lambda width: Group(Block(width, norm) for _ in range(blocks))
        self.register_buffer("sigmas", torch.as_tensor(sigmas, dtype=torch.float32))
        self.begin_conv = conv3x3(channels + 1, widths[0])
        self.down = nn.ModuleList(map(group, widths))
        self.shrink = nn.ModuleList(conv3x3(a, b) for a, b in steps)
        self.grow = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in steps)
        self.up = nn.ModuleList(map(group, widths[:-1]))
        self.normalizer = norm(widths[0])
        self.end_conv = conv3x3(widths[0], channels)

    def body(self, x, level):
        h = self.down[0](self.begin(x), level)
        passed = [h]
        for shrink, down in zip(self.shrink, self.down[1:]):
            h = down(shrink(F.avg_pool2d(h, 2)), level)
            passed.append(h)
        for i in reversed(range(len(self.up))):
            small = self.grow[i](h)
            large = F.interpolate(small, size=passed[i].shape[2:], mode="bilinear", align_corners=True)
            h = self.up[i](passed[i] + large.to(small.dtype), level)
        return self.end_conv(activated(self.normalizer, h, level))

    def begin(self, x):
        """The first convolution, in f32 also where the others are in bf16: that has eight bits for a pixel, and the noise of
        the smallest levels lies below them."""
        with torch.autocast("cpu", enabled=False):
            h = self.begin_conv(x)
        return h.to(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else h

    def noise(self, x, sigma):
        """-(x's estimated unit noise): the score times sigma, which holds one level per image."""
        terms = told(sigma)
        x, sigma = 2 * x - 1, 2 * sigma.view(-1, 1, 1, 1)
        total = (sigma**2 + DATA_DEVIATION**2).sqrt()
        level = (sigma.log() / 4).expand(-1, 1, *x.shape[2:])
        f = self.body(torch.cat([x / total, level], 1).contiguous(memory_format=torch.channels_last), terms)
        # EDM's image is (s/t)^2 x + (s sigma/t) f with s the data's deviation, t the total one; this is (image - x) / sigma.
        return DATA_DEVIATION / total * f - sigma / total**2 * x

    def image(self, x, sigma):
        """The expected image, given that x is one plus noise of the levels sigma. It lies where images lie, in [0, 1], also
        where the network, far from all it was trained on, says otherwise."""
        return (x + sigma.view(-1, 1, 1, 1) * self.noise(x, sigma)).clamp(0, 1)

    def denoised(self, x, sigma):
        """The same for one level."""
        return self.image(x, torch.full((len(x),), sigma))

    def forward(self, x, sigma):
        """The score of images x in [0,1] (plus noise); sigma holds one level per image."""
        return (self.image(x, sigma) - x) / sigma.view(-1, 1, 1, 1) ** 2

"""Writes ncsnv2_{deeper,deepest}.safetensors: the deeper forms of NCSNv2 with random weights, images that are not square, and their
scores in float64. Written from the networks' description, not from their authors' code.

    python make_ncsnv2.py
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LEVELS = [0.05, 3.0]


class Network:
    """Draws each weight when it is first asked for, and computes in float64."""

    def __init__(self, seed):
        self.weights, self.random = {}, torch.Generator().manual_seed(seed)

    def weight(self, name, *shape, scale=0.3, mean=0.0):
        if name not in self.weights:
            self.weights[name] = (torch.randn(shape, generator=self.random) * scale + mean).float()
        return self.weights[name].double()

    def conv(self, name, x, width, kernel=3, dilation=1, bias=True):
        fan = x.shape[1] * kernel * kernel
        weight = self.weight(f"{name}.weight", width, x.shape[1], kernel, kernel, scale=fan ** -0.5)
        bias = self.weight(f"{name}.bias", width) if bias else None
        return F.conv2d(x, weight, bias, padding=dilation * (kernel // 2), dilation=dilation)

    def norm(self, name, x):
        alpha, gamma, beta = (self.weight(f"{name}.{what}", x.shape[1], mean=float(what == "gamma"))[:, None, None]
                              for what in ("alpha", "gamma", "beta"))
        means = x.mean((2, 3), keepdim=True)
        spread = (means - means.mean(1, keepdim=True)) / (means.var(1, keepdim=True, unbiased=True) + 1e-5).sqrt()
        return gamma * (F.instance_norm(x, eps=1e-5) + alpha * spread) + beta

    def residual(self, name, x, width, dilation=1, halve=False, change=False):
        h = self.conv(f"{name}.conv1", F.elu(self.norm(f"{name}.normalize1", x)), x.shape[1], dilation=dilation)
        h = F.elu(self.norm(f"{name}.normalize2", h))
        if halve:
            return F.avg_pool2d(self.conv(f"{name}.conv2.conv", h, width), 2) + F.avg_pool2d(
                self.conv(f"{name}.shortcut.conv", x, width, kernel=1), 2)
        h = self.conv(f"{name}.conv2", h, width, dilation=dilation)
        return h + (self.conv(f"{name}.shortcut", x, width, dilation=dilation) if change else x)

    def stage(self, name, x, width, dilation=1, **first):
        x = self.residual(f"{name}.0", x, width, dilation, **first)
        return self.residual(f"{name}.1", x, width, dilation)

    def rcu(self, name, x, blocks):
        for block in range(1, blocks + 1):
            h = x
            for stage in (1, 2):
                h = self.conv(f"{name}.{block}_{stage}_conv", F.elu(h), x.shape[1], bias=False)
            x = x + h
        return x

    def refine(self, name, inputs, width, blocks=1):
        inputs = [self.rcu(f"{name}.adapt_convs.{i}", x, 2) for i, x in enumerate(inputs)]
        x = inputs[0]
        if len(inputs) > 1:
            size = x.shape[2:]
            x = sum(F.interpolate(self.conv(f"{name}.msf.convs.{i}", x, width), size=size, mode="bilinear", align_corners=True)
                    for i, x in enumerate(inputs))
        x = path = F.elu(x)
        for stage in range(2):
            path = self.conv(f"{name}.crp.convs.{stage}", F.max_pool2d(path, 5, 1, 2), x.shape[1], bias=False)
            x = x + path
        return self.rcu(f"{name}.output_convs", x, blocks)

    def score(self, x, levels, ngf, deepest):
        h = self.conv("begin_conv", 2 * x.double() - 1, ngf)
        layer1 = self.stage("res1", h, ngf)
        layer2 = self.stage("res2", layer1, 2 * ngf, halve=True)
        layer3 = self.stage("res3", layer2, 2 * ngf, halve=True)
        layer31 = self.stage("res31", layer3, 2 * ngf, halve=True) if deepest else layer3
        layer4 = self.stage("res4", layer31, 4 * ngf, 2, change=True)
        layer5 = self.stage("res5", layer4, 4 * ngf, 4, change=True)
        h = self.refine("refine1", [layer5], 4 * ngf)
        h = self.refine("refine2", [layer4, h], 2 * ngf)
        if deepest:
            h = self.refine("refine31", [layer31, h], 2 * ngf)
        h = self.refine("refine3", [layer3, h], 2 * ngf)
        h = self.refine("refine4", [layer2, h], ngf)
        h = self.refine("refine5", [layer1, h], ngf, 3)
        h = self.conv("end_conv", F.elu(self.norm("normalizer", h)), x.shape[1])
        return h / levels[:, None, None, None]


for name, channels, height, width in [("deeper", 1, 12, 16), ("deepest", 3, 16, 24)]:
    torch.manual_seed(height)
    net, levels = Network(seed=width), torch.tensor(LEVELS, dtype=torch.float64)
    x = torch.rand(2, channels, height, width) + levels.float()[:, None, None, None] * torch.randn(2, channels, height, width)
    score = net.score(x, levels, ngf=8, deepest=name == "deepest")
    tensors = {f"sd.{k}": v.half() for k, v in net.weights.items()}
    net.weights = {k[3:]: v.float() for k, v in tensors.items()}  # the weights as the file has them, halves
    score = net.score(x, levels, ngf=8, deepest=name == "deepest")
    file = Path(__file__).resolve().parent / f"ncsnv2_{name}.safetensors"
    save_file({**tensors, "x": x, "levels": levels, "out_f64": score}, file)
    print(file.name, file.stat().st_size, len(net.weights))

"""NCSNv2 (Song & Ermon, 2020) for small images, under the original state-dict key names.

One class for every data set: only `channels` and `ngf` change. The noise level enters through
the last division by sigma and nowhere else, so the same weights serve any list of levels.
`python ncsnv2.py GOLDEN.safetensors...` compares this file with stored float64 outputs.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from fused import elu, max_pool, norm_elu


def conv3x3(cin, cout, dilation=1, bias=True):
    return nn.Conv2d(cin, cout, 3, padding=dilation, dilation=dilation, bias=bias)


def mean_of_four(x):
    """Halves the size: the mean of the four stride-2 slices, which is a 2x2 average pool."""
    return F.avg_pool2d(x, 2)


class InstanceNormPlus(nn.Module):
    """InstanceNorm++: instance norm, plus alpha times the normalised channel means it removed."""

    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(1 + 0.02 * torch.randn(channels))
        self.gamma = nn.Parameter(1 + 0.02 * torch.randn(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        mu = x.mean((2, 3))
        var_of_mu = mu.var(dim=1, keepdim=True)  # over channels, unbiased: C - 1
        mu_hat = (mu - mu.mean(dim=1, keepdim=True)) / torch.sqrt(var_of_mu + 1e-5)
        shift = self.gamma * self.alpha * mu_hat + self.beta
        return F.instance_norm(x, weight=self.gamma, eps=1e-5) + shift[:, :, None, None]


class ConvMeanPool(nn.Module):
    """A conv, then the mean of the four stride-2 slices: the network's only down-sampling."""

    def __init__(self, cin, cout, kernel):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, padding=kernel // 2)

    def forward(self, x):
        return mean_of_four(self.conv(x))


class ResidualBlock(nn.Module):
    """norm, ELU, conv, norm, ELU, conv, plus shortcut. `first` blocks of res2..res4 have a
    convolution on the shortcut; only the one without dilation (res2) halves the image."""

    def __init__(self, cin, cout, dilation=1, first=False):
        super().__init__()
        self.normalize1 = InstanceNormPlus(cin)
        self.normalize2 = InstanceNormPlus(cin if first else cout)
        self.shortcut = None
        if first and dilation == 1:
            self.conv1 = conv3x3(cin, cin)
            self.conv2 = ConvMeanPool(cin, cout, 3)
            self.shortcut = ConvMeanPool(cin, cout, 1)
        else:
            self.conv1 = conv3x3(cin, cin if first else cout, dilation)
            self.conv2 = conv3x3(cin if first else cout, cout, dilation)
            if first:
                self.shortcut = conv3x3(cin, cout, dilation)

    def forward(self, x):
        h = self.conv1(norm_elu(self.normalize1, x))
        h = self.conv2(norm_elu(self.normalize2, h))
        return h + (x if self.shortcut is None else self.shortcut(x))


class RCU(nn.Module):
    """Residual conv unit: `blocks` times (ELU, conv, ELU, conv, plus input), without biases."""

    def __init__(self, channels, blocks):
        super().__init__()
        self.blocks = blocks
        for b in range(1, blocks + 1):
            for s in (1, 2):
                self.add_module(f"{b}_{s}_conv", conv3x3(channels, channels, bias=False))

    def forward(self, x):
        for b in range(1, self.blocks + 1):
            h = x
            for s in (1, 2):
                h = getattr(self, f"{b}_{s}_conv")(elu(h))
            x = x + h
        return x


class MSF(nn.Module):
    """Multi-scale fusion: a conv per input, resized to the first input's size, summed."""

    def __init__(self, cins, cout):
        super().__init__()
        self.convs = nn.ModuleList(conv3x3(c, cout) for c in cins)

    def forward(self, xs):
        size = xs[0].shape[2:]
        total = self.convs[0](xs[0])
        for conv, x in zip(self.convs[1:], xs[1:]):
            h = conv(x)
            if h.shape[2:] != size:
                h = F.interpolate(h, size=size, mode="bilinear", align_corners=True).to(total.dtype)
            total = total + h
        return total


class CRP(nn.Module):
    """Chained residual pooling: twice a 5x5 max pool and a conv, each stage added to the sum."""

    def __init__(self, channels):
        super().__init__()
        self.convs = nn.ModuleList(conv3x3(channels, channels, bias=False) for _ in range(2))

    def forward(self, x):
        total = path = elu(x)
        for conv in self.convs:
            path = conv(max_pool(path))
            total = total + path
        return total


class RefineBlock(nn.Module):
    def __init__(self, cins, cout, output_blocks=1):
        super().__init__()
        self.adapt_convs = nn.ModuleList(RCU(c, 2) for c in cins)
        self.msf = MSF(cins, cout) if len(cins) > 1 else None
        self.crp = CRP(cout)
        self.output_convs = RCU(cout, output_blocks)

    def forward(self, *xs):
        hs = [rcu(x) for rcu, x in zip(self.adapt_convs, xs)]
        return self.output_convs(self.crp(self.msf(hs) if self.msf else hs[0]))


class NCSNv2(nn.Module):
    def __init__(self, channels, ngf, sigmas):
        super().__init__()
        n, m = ngf, 2 * ngf
        self.register_buffer("sigmas", torch.as_tensor(sigmas, dtype=torch.float32))
        self.begin_conv = conv3x3(channels, n)
        self.res1 = nn.Sequential(ResidualBlock(n, n), ResidualBlock(n, n))
        self.res2 = nn.Sequential(ResidualBlock(n, m, first=True), ResidualBlock(m, m))
        self.res3 = nn.Sequential(ResidualBlock(m, m, 2, first=True), ResidualBlock(m, m, 2))
        self.res4 = nn.Sequential(ResidualBlock(m, m, 4, first=True), ResidualBlock(m, m, 4))
        self.refine1 = RefineBlock([m], m)
        self.refine2 = RefineBlock([m, m], m)
        self.refine3 = RefineBlock([m, m], n)
        self.refine4 = RefineBlock([n, n], n, output_blocks=3)
        self.normalizer = InstanceNormPlus(n)
        self.end_conv = conv3x3(n, channels)

    def noise(self, x, _sigma):
        """-(x's estimated unit noise): the score before the division by sigma, which this network does not ask for."""
        r1 = self.res1(self.begin_conv(2 * x - 1))
        r2 = self.res2(r1)
        r3 = self.res3(r2)
        h = self.refine1(self.res4(r3))
        h = self.refine2(r3, h)
        h = self.refine3(r2, h)
        h = self.refine4(r1, h)
        return self.end_conv(norm_elu(self.normalizer, h))

    def denoised(self, x, sigma):
        """The expected image, given that x is one plus noise of one level."""
        return x + sigma * self.noise(x, sigma)

    def forward(self, x, sigma):
        """The score of images x in [0,1] (plus noise); sigma holds one level per image."""
        return self.noise(x, sigma) / sigma.view(-1, 1, 1, 1)


def geometric(begin, end, count):
    """`count` levels from begin down to end with a constant ratio, rounded once to float32."""
    ratio = math.log(end / begin) / (count - 1)
    return torch.tensor([begin * math.exp(i * ratio) for i in range(count)], dtype=torch.float64).float()


def check(path):
    from safetensors.torch import load_file

    t = load_file(path)
    sd = {k[3:]: v for k, v in t.items() if k.startswith("sd.")}
    ngf, channels = sd["begin_conv.weight"].shape[:2]
    net = NCSNv2(channels, ngf, sd["sigmas"])
    net.load_state_dict(sd)  # strict: every key, and no other
    worst = 0.0
    for dtype, key in ((torch.float32, "out_f32"), (torch.float64, "out_f64")):
        net = net.to(dtype)
        with torch.no_grad():
            out = net(t["x"].to(dtype), sd["sigmas"][t["labels"]].to(dtype))
        # Per image: the levels differ by a factor of 5000, a norm over all would hide two of three.
        err = ((out - t[key]).flatten(1).norm(dim=1) / t[key].flatten(1).norm(dim=1)).max().item()
        print(f"{path}: {key} relative error {err:.1e}")
        worst = max(worst, err)
    return worst


if __name__ == "__main__":
    sys.exit(0 if all([check(p) <= 1e-5 for p in sys.argv[1:]]) else 1)

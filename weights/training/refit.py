"""Fits the last norms of a U-Net anew, for images larger than those it learnt on.

    python refit.py small.safetensors large.safetensors --data PHOTOS [--size 256]

A norm takes its statistics over the whole map. Zeros stand around every map, what convolutions make of them is unlike all else, and
of a small map they are a larger share: on the way up at the image's resolution the deviations at 256 pixels are a quarter smaller than at
64, so all that lies within comes out a quarter too large. No gradient is needed to take that back. The network sees training
photographs twice, in tiles of the size it learnt on and whole; in order, gain and shift of each channel are those that give what
lies inside the tiles the mean and deviation it had when they were tiles.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

import photos
import prior
import unet
from fused import norm_elu


def column(v):
    return v.view(1, -1, 1, 1)


def before_gain(norm, x, part):
    """InstanceNorm++ of x before its gain and shift, of a part of it."""
    variance, mean = torch.var_mean(x, (2, 3), unbiased=False, keepdim=True)
    among = (mean - mean.mean(1, keepdim=True)) / (mean.var(1, keepdim=True) + 1e-5).sqrt()
    return part((x - mean) / (variance + 1e-5).sqrt() + column(norm.alpha) * among)


def tiles(x, size):
    """[n, C, H, W] in squares of `size`: [n H/size W/size, C, size, size]."""
    n, channels, height, width = x.shape
    x = x.view(n, channels, height // size, size, width // size, size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(-1, channels, size, size)


def inside(x):
    """What lies a quarter of a tile from its border at least."""
    quarter = x.shape[-1] // 4
    return x[:, :, quarter:-quarter, quarter:-quarter].double()


class Fit:
    """Stands in for `norm_elu` of unet.py: keeps the moments that the norms give inside tiles, then gives them these on the whole."""

    def __init__(self, names, tile):
        self.names, self.tile, self.sums, self.whole = names, tile, {}, False

    def __call__(self, norm, x):
        if norm in self.names:
            self.fit(norm, x) if self.whole else self.keep(norm, x)
        return norm_elu(norm, x)

    def keep(self, norm, x):
        z = column(norm.gamma) * before_gain(norm, x, inside) + column(norm.beta)
        sums = torch.stack([torch.full_like(z[0, :, 0, 0], z[:, 0].numel()), z.sum((0, 2, 3)), z.square().sum((0, 2, 3))])
        self.sums[norm] = self.sums.get(norm, 0) + sums

    def fit(self, norm, x):
        u = before_gain(norm, x, lambda u: inside(tiles(u, self.tile)))
        count, total, squares = self.sums[norm]
        mean, deviation = total / count, (squares / count - (total / count) ** 2).clamp(min=0).sqrt()
        gain = norm.gamma.sign() * deviation / u.var((0, 2, 3), unbiased=False).sqrt().clamp(min=1e-6)
        print(f"{self.names[norm]}: gains times {(gain / norm.gamma).median():.3f} (median)", flush=True)
        norm.gamma.copy_(gain)
        norm.beta.copy_(mean - gain * u.mean((0, 2, 3)))


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("small")
    parser.add_argument("large")
    parser.add_argument("--data", type=Path, required=True, help="folder that has `train`")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--tile", type=int, default=64, help="the size it learnt on")
    parser.add_argument("--photos", type=int, default=3)
    parser.add_argument("--levels", type=float, nargs="+", default=[0.1, 0.4])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    net, metadata = prior.load(args.small)
    chosen = photos.read(args.data / "train")[5::150][: args.photos]
    images = torch.stack([photos.centre(p, args.size, args.size) for p in chosen]).float() / 255
    levels = torch.tensor(args.levels).repeat_interleave(len(images))
    images = images.repeat(len(args.levels), 1, 1, 1)
    noisy = images + levels.view(-1, 1, 1, 1) * torch.randn(images.shape, generator=torch.Generator().manual_seed(3))

    stream = [block.normalize1 for block in net.up[0]] + [net.normalizer]
    names = {norm: name for name, norm in net.named_modules() if any(norm is one for one in stream)}
    unet.norm_elu = fit = Fit(names, args.tile)
    small = tiles(noisy, args.tile)
    for x, level in zip(small.split(32), levels.repeat_interleave(len(small) // len(noisy)).split(32)):
        net.image(x, level)
    fit.whole = True
    errors = (net.image(noisy, levels) - images).square().mean((1, 2, 3)).view(len(args.levels), -1).mean(1).sqrt()
    print("errors: " + ", ".join(f"{e:.4f} at {s:g}" for e, s in zip(errors, args.levels)))
    save_file({k: t.contiguous() for k, t in net.state_dict().items()}, args.large, dict(metadata, refitted=str(args.size)))


if __name__ == "__main__":
    main()

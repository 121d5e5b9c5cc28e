"""Takes the norms out of a U-Net: in their place stands what they do on the average, by level.

    python unnorm.py small.safetensors sizeless.safetensors --data PHOTOS

A norm takes its statistics over the whole map: on larger images they are others (zeros stand around every map, and of a small one they are
a larger share), so a network that learnt at 64 pixels errs more the larger the image. Here each norm becomes a scale and a shift of its
channels that depend on the level alone (`unet.LevelTerms`), fitted to its statistics on crops of the size it learnt on. What was
the norms' own work, to bring images of little and of much contrast to one scale, is for the training that follows.
"""

import argparse
import math
from pathlib import Path

import torch
from safetensors.torch import save_file

import photos
import prior
import unet
from fused import norm_elu

LEVELS = torch.linspace(math.log(0.001), math.log(50), 25).exp()
RIDGE = 1e-4


class Watch:
    """Stands in for `norm_elu` of unet.py: keeps the means and log variances of what the norms are given, by channel."""

    def __init__(self):
        self.seen = {}

    def __call__(self, norm, x):
        variance, mean = torch.var_mean(x, (2, 3), unbiased=False)
        self.seen.setdefault(norm, []).append((mean.mean(0), (variance + 1e-5).log().mean(0)))
        return norm_elu(norm, x)


def terms_of(norm, seen):
    """Scales and shifts of a norm's channels at each level, [levels, 2 channels]."""
    mean, log_variance = (torch.stack(list(part)) for part in zip(*seen))
    among = (mean - mean.mean(1, keepdim=True)) / (mean.var(1, keepdim=True) + 1e-5).sqrt()
    scale = norm.gamma * (-log_variance / 2).exp()
    return torch.cat([scale, norm.gamma * norm.alpha * among + norm.beta - scale * mean], 1)


def fitted(terms):
    """The `LevelTerms` that come closest to them, as (weight, bias)."""
    features = torch.cat([unet.told(LEVELS), torch.ones(len(LEVELS), 1)], 1).double()
    damping = RIDGE * torch.eye(features.shape[1], dtype=torch.double)
    damping[-1, -1] = 0
    solved = torch.linalg.solve(features.T @ features + damping, features.T @ terms.double())
    print(f"largest difference by the size of a term: {((features @ solved - terms).abs().amax(0) / terms.abs().amax(0)).median():.3f} (median)")
    return solved[:-1].T.float().contiguous(), solved[-1].float()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("small")
    parser.add_argument("sizeless")
    parser.add_argument("--data", type=Path, required=True, help="folder that has `train`")
    parser.add_argument("--size", type=int, default=64, help="what it learnt on")
    parser.add_argument("--crops", type=int, default=24)
    args = parser.parse_args()
    torch.set_flush_denormal(True)
    net, metadata = prior.load(args.small)
    names = {norm: name for name, norm in net.named_modules()}
    g = torch.Generator().manual_seed(1)
    source = photos.Photos(photos.read(args.data / "train"))
    images = torch.stack([source.crop(args.size, g) for _ in range(args.crops)]).float() / 255
    unet.norm_elu = watch = Watch()
    for sigma in LEVELS.tolist():
        net.denoised(images + sigma * torch.randn(images.shape, generator=g), sigma)
    tensors = net.state_dict()
    for norm, seen in watch.seen.items():
        for part in ("alpha", "gamma", "beta"):
            del tensors[f"{names[norm]}.{part}"]
        tensors[f"{names[norm]}.weight"], tensors[f"{names[norm]}.bias"] = fitted(terms_of(norm, seen))
    save_file({k: t.contiguous() for k, t in tensors.items()}, args.sizeless, dict(metadata, norms="level"))


if __name__ == "__main__":
    main()

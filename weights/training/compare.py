"""Compares exported priors on the validation images, level by level.

    python compare.py --dataset mnist --data DIR new.safetensors old.safetensors

Every prior sees the same images and the same noise, so the differences are paired: the last column
is (first - second) with its standard error over images, negative where the first prior is better.
`regression` is a mark that needs no network: denoising by the mean of the training images, each weighted
by how likely it made the noisy one. From sigma = 1 on a prior above it has something left to learn.
"""

import argparse

import torch
from safetensors import safe_open

import data
from ncsnv2 import NCSNv2, geometric
from train import dsm_loss


def load_prior(path):
    with safe_open(path, "pt") as f:
        tensors = {k: f.get_tensor(k).float() for k in f.keys()}
        metadata = f.metadata() or {}
    ngf, channels = tensors["begin_conv.weight"].shape[:2]
    net = NCSNv2(channels, ngf, tensors["sigmas"])
    net.load_state_dict(tensors)
    return net.to(memory_format=torch.channels_last).eval(), metadata


@torch.no_grad()
def losses(net, images, sigma, noise):
    """DSM loss per image at one level."""
    parts = zip(images.split(100), noise.split(100))
    return torch.cat([dsm_loss(net, x, torch.full((len(x),), sigma), z) for x, z in parts])


class Regression:
    """The score of the training images' own distribution, blurred by the level."""

    def __init__(self, images):
        self.images = images.flatten(1).float() / 255
        self.squares = self.images.square().sum(1)

    def losses(self, images, sigma, noise):
        """As `losses`: error of the denoised image over sigma^2."""
        x = images.flatten(1)
        parts = zip(x.split(100), (x + sigma * noise.flatten(1)).split(100))
        return torch.cat([(self.denoised(y, sigma) - x).square().mean(1) for x, y in parts]) / sigma**2

    def denoised(self, y, sigma):
        return torch.softmax((y @ self.images.T - self.squares / 2) / sigma**2, 1) @ self.images


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--data", required=True)
    parser.add_argument("--levels", type=int, default=12, help="geometric levels from 17 to 0.01")
    parser.add_argument("--images", type=int, default=data.VALIDATION)
    parser.add_argument("priors", nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.set_flush_denormal(True)
    training, images = data.load(args.dataset, args.data)
    regression = Regression(training)
    images = images[: args.images].float() / 255
    priors = [load_prior(p) for p in args.priors]
    for path, (_, metadata) in zip(args.priors, priors):
        print(path, {k: metadata.get(k) for k in ("ngf", "steps", "batch", "loss", "date")})

    print("   sigma  " + "  ".join(f"prior {i + 1:2d}" for i in range(len(priors))) + "  regression   first - second")
    per_image = torch.zeros(len(priors), len(images))
    for sigma in geometric(17.0, 0.01, args.levels).tolist():
        noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(7))
        row = torch.stack([losses(net, images, sigma, noise) for net, _ in priors])
        per_image += row / args.levels
        print_row(f"{sigma:8.3f}", row, f"{regression.losses(images, sigma, noise).mean():10.5f}")
    print_row("    mean", per_image, 10 * " ")


def print_row(name, row, mark):
    line = f"{name}  " + "  ".join(f"{v:8.5f}" for v in row.mean(1).tolist()) + f"  {mark}"
    if len(row) > 1:
        d = row[0] - row[1]
        line += f"   {d.mean():+.5f} +- {d.std() / len(d) ** 0.5:.5f}  ({d.mean() / row[1].mean():+.1%})"
    print(line, flush=True)


if __name__ == "__main__":
    main()

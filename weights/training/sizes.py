"""Denoising errors of priors for photographs by size: does the error grow with the image? It must not.

    python sizes.py --data PHOTOS old.safetensors new.safetensors... [--every 2]

Crops of 64, 128 and 256 pixels around the middle of each validation photograph, the same noise on the same pixels. `middle`
is the error of the 64 x 64 pixels that all three share: a larger image only tells more about them.
"""

import argparse
from pathlib import Path

import torch

import photos
import prior

LEVELS = (0.05, 0.1, 0.2, 0.33, 0.5, 1.0, 2.0)
SIZES = (64, 128, 256)


def inner(x, size):
    at = (x.shape[-1] - size) // 2
    return x[..., at : at + size, at : at + size]


@torch.no_grad()
def errors(net, images, noise, sigma):
    """Mean squared error of each image, and of the pixels that all sizes share."""
    one_by_one = zip(images.split(1), noise.split(1))
    squares = torch.cat([(net.denoised(x + sigma * z, sigma) - x).square() for x, z in one_by_one])
    return squares.mean((1, 2, 3)), inner(squares, SIZES[0]).mean((1, 2, 3))


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that has `val`")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth photograph")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("priors", nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    nets = {Path(path).stem: prior.load(path)[0] for path in args.priors}
    largest = photos.validation(args.data, SIZES[-1])[:: args.every].float() / 255
    noise = torch.randn(largest.shape, generator=torch.Generator().manual_seed(7))
    row(f"root mean squared error, {len(largest)} photographs", "size", *(f"{s:g}" for s in args.levels))
    print("|---" * (2 + len(args.levels)) + "|")
    for name, net in nets.items():
        for size in args.sizes:
            table = [errors(net, inner(largest, size), inner(noise, size), s) for s in args.levels]
            row(name, str(size), *(f"{whole.mean().sqrt():.4f}" for whole, _ in table))
            row(name, f"{size}, middle", *(f"{middle.mean().sqrt():.4f}" for _, middle in table))


if __name__ == "__main__":
    main()

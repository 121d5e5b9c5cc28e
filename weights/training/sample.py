"""A contact sheet of unconditional samples by the reverse SDE, as `qcs sample` draws them.

    python sample.py prior.safetensors sheet.png --count 25 --levels 100
"""

import argparse
import math

import torch
from PIL import Image

import prior
from ncsnv2 import geometric


@torch.no_grad()
def reverse_sde(net, sigmas, shape, generator):
    """From level a to level b: the denoised image d, the share (b/a)^2 of x's noise, and fresh noise that makes it level b."""
    x = 0.5 + sigmas[0] * torch.randn(shape, generator=generator)
    for a, b in zip(sigmas, sigmas[1:]):
        d, kept = net.denoised(x, a), (b / a) ** 2
        x = d + kept * (x - d) + b * math.sqrt(1 - kept) * torch.randn(shape, generator=generator)
    return net.denoised(x, sigmas[-1]).clamp(0, 1)


def sheet(images):
    """N x C x H x W in [0,1] as one picture, as square as it comes, enlarged twice."""
    count, channels, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    grid = torch.zeros(rows * columns, channels, height, width)
    grid[:count] = images
    grid = grid.view(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
    pixels = (grid.reshape(rows * height, columns * width, channels) * 255).round().byte().numpy()
    picture = Image.fromarray(pixels.squeeze(2) if channels == 1 else pixels)
    return picture.resize((2 * picture.width, 2 * picture.height), Image.Resampling.NEAREST)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prior")
    parser.add_argument("picture")
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--levels", type=int, default=100, help="geometric")
    parser.add_argument("--sigma-begin", type=float, default=20.0)
    parser.add_argument("--sigma-end", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.set_flush_denormal(True)
    net, metadata = prior.load(args.prior)
    size = int(metadata["image_size"])
    shape = (args.count, int(metadata["channels"]), size, size)
    generator = torch.Generator().manual_seed(args.seed)
    sigmas = geometric(args.sigma_begin, args.sigma_end, args.levels).tolist()
    sheet(reverse_sde(net, sigmas, shape, generator)).save(args.picture)
    print(f"{args.picture}: {args.count} samples, {args.levels} evaluations each")


if __name__ == "__main__":
    main()

"""A contact sheet of unconditional samples by annealed Langevin dynamics, as NCSNv2 prescribes.

    python sample.py prior.safetensors sheet.png --count 25 --steps 3
"""

import argparse
import math

import torch
from PIL import Image

import levels
import prior


@torch.no_grad()
def annealed_langevin(net, sigmas, shape, steps, generator):
    """x += alpha s(x) + sqrt(2 alpha) z with alpha = e sigma^2, `steps` times per level, and a last
    denoising step x + sigma^2 s(x) that removes the noise of the final level."""
    e = levels.langevin_step((sigmas[0] / sigmas[1]).item(), steps)
    x = 0.5 + sigmas[0] * torch.randn(shape, generator=generator)
    for sigma in sigmas.tolist():
        level = torch.full(shape[:1], sigma)
        for _ in range(steps):
            z = torch.randn(shape, generator=generator)
            x += e * sigma**2 * net(x, level) + math.sqrt(2 * e) * sigma * z
    return (x + sigmas[-1] ** 2 * net(x, level)).clamp(0, 1)


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
    parser.add_argument("--steps", type=int, default=3, help="Langevin steps per level")
    parser.add_argument("--every", type=int, default=1, help="use every n-th level of the prior's list")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.set_flush_denormal(True)
    net, metadata = prior.load(args.prior)
    size = int(metadata["image_size"])
    shape = (args.count, int(metadata["channels"]), size, size)
    generator = torch.Generator().manual_seed(args.seed)
    images = annealed_langevin(net, net.sigmas[:: args.every], shape, args.steps, generator)
    sheet(images).save(args.picture)
    print(f"{args.picture}: {args.count} samples, {len(net.sigmas[:: args.every]) * args.steps + 1} evaluations each")


if __name__ == "__main__":
    main()

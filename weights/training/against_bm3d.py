"""PSNR of denoising on the four test photographs at sigma 25/255 and 50/255, beside BM3D, on the same noise.

    python against_bm3d.py prior.safetensors...        needs scikit-image and bm3d
"""

import argparse
from pathlib import Path

import bm3d
import numpy as np
import torch

import prior
import test_photos

SIGMAS = (25, 50)


class Bm3d:
    """With its default profile, for colour images and white noise of a known level."""

    def denoised(self, x, sigma):
        image = bm3d.bm3d_rgb(x[0].permute(1, 2, 0).double().numpy(), sigma)
        return torch.from_numpy(np.asarray(image)).permute(2, 0, 1)[None].clamp(0, 1)


def psnr(x, truth):
    return -10 * (x - truth).square().mean().log10().item()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("priors", nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    denoisers = {"BM3D": Bm3d(), **{Path(path).stem: prior.load(path)[0] for path in args.priors}}
    pictures = {name: pixels[None].float() / 255 for name, pixels in test_photos.load().items()}
    print("| sigma · 255 | | " + " | ".join(pictures) + " | mean |\n" + "|---" * (3 + len(pictures)) + "|")
    for sigma in SIGMAS:
        for name, denoiser in denoisers.items():
            g = torch.Generator().manual_seed(sigma)
            noisy = [x + sigma / 255 * torch.randn(x.shape, generator=g) for x in pictures.values()]
            found = [psnr(denoiser.denoised(y, sigma / 255), x) for y, x in zip(noisy, pictures.values())]
            print(f"| {sigma} | {name} | " + " | ".join(f"{p:.2f}" for p in (*found, np.mean(found))) + " |", flush=True)


if __name__ == "__main__":
    main()

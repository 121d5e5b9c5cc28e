"""Denoising errors of exported priors on the validation images, level by level: does it beat the last one?

    python compare.py --dataset mnist --data DIR old.safetensors new.safetensors...

Every prior sees the same images and the same noise, so the differences to the first prior are paired: in per cent of its
error, with the standard error over images, negative where the later prior is better.
`regression` is a mark that needs no network: denoising by the mean of the training images, each weighted
by how likely it made the noisy one. From sigma = 1 on a prior above it has something left to learn.
"""

import argparse
from pathlib import Path

import torch

import data
import objective
import prior


class Regression:
    """The posterior mean under the training images' own distribution."""

    def __init__(self, images):
        self.images = images.flatten(1).float() / 255
        self.squares = self.images.square().sum(1)

    def denoised(self, x, sigma):
        y = x.flatten(1)
        return (torch.softmax((y @ self.images.T - self.squares / 2) / sigma**2, 1) @ self.images).view(x.shape)


def row(name, cells):
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--data", required=True)
    parser.add_argument("--images", type=int, default=data.VALIDATION)
    parser.add_argument("--regression", action="store_true", help="print the mark as well")
    parser.add_argument("priors", nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.set_flush_denormal(True)
    training, images = data.load(args.dataset, args.data)
    images = images[: args.images]
    row("root mean squared error at sigma", [f"{s:g}" for s in objective.TABLE])
    print("|---" * (1 + len(objective.TABLE)) + "|")
    tables = []
    for path in args.priors:
        tables.append(objective.squared_errors(prior.load(path)[0], images))
        row(Path(path).stem, [f"{e:.4f}" for e in tables[-1].mean(1).sqrt().tolist()])
    for path, table in zip(args.priors[1:], tables[1:]):
        change = 50 * (table - tables[0]) / tables[0].mean(1, keepdim=True)  # half: of the root
        row(f"{Path(path).stem}, change in %", [f"{c.mean():+.1f} ± {c.std() / len(c) ** 0.5:.1f}" for c in change])
    if args.regression:
        mark = objective.squared_errors(Regression(training), images)
        row("regression", [f"{e:.4f}" for e in mark.mean(1).sqrt().tolist()])


if __name__ == "__main__":
    main()

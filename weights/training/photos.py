"""Photographs: a folder with `train` and `val`, from which crops are cut at several scales.

A denoiser of photographs should see details as a camera gives them and whole scenes made small: the side of the square that a crop
is made of is drawn log-uniformly between the crop's own size, which is a detail, and the photograph's short side.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

CHANNELS = 3


def read(folder):
    """The photographs of a folder, in the order of their names."""
    found = sorted(p for p in Path(folder).iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not found:
        raise SystemExit(f"{folder}: no photographs (.jpg, .png) here")
    return [Image.open(p).convert("RGB") for p in found]


def square(photo, left, top, side, size):
    """The square of `side` pixels at (left, top), brought to `size` pixels: 3 x size x size bytes."""
    box = (left, top, left + side, top + side)
    small = photo.crop(box) if side == size else photo.resize((size, size), Image.Resampling.BICUBIC, box=box)
    return torch.from_numpy(np.asarray(small).transpose(2, 0, 1).copy())


def centre(photo, side, size):
    """The square of `side` pixels in the middle, brought to `size` pixels."""
    return square(photo, (photo.width - side) // 2, (photo.height - side) // 2, side, size)


def validation(folder, size, largest=256):
    """One crop of `size` from the middle of each validation photograph that holds one of `largest`: crops of different sizes share
    their middles, so that their errors compare."""
    return torch.stack([centre(p, size, size) for p in read(Path(folder) / "val") if min(p.size) >= largest])


class Photos:
    """Crops of photographs and, in some batches, CIFAR-10's images of as many pixels. `shape` is that of a data set's tensor."""

    def __init__(self, photos, small=None):
        self.photos, self.small = photos, small
        self.shape = (len(photos), CHANNELS, 64, 64)

    def __len__(self):
        return len(self.photos)

    def draw(self, args, g):
        """One batch: with `cifar_share` of the chances small images, else crops of one of the sizes `args.crops`. All batches have about
        as many pixels as `args.batch` crops of the first size."""
        first = args.crops[0]
        if self.small is not None and torch.rand((), generator=g) < args.cifar_share:
            count = args.batch * first**2 // self.small.shape[2] ** 2
            return self.small[torch.randint(len(self.small), (count,), generator=g)]
        size = args.crops[torch.randint(len(args.crops), (), generator=g)]
        count = max(1, round(args.batch * first**2 / size**2))
        return torch.stack([self.crop(size, g) for _ in range(count)])

    def crop(self, size, g):
        photo = self.photos[torch.randint(len(self.photos), (), generator=g)]
        scale, x, y = torch.rand(3, generator=g).tolist()
        side = round(size * (min(photo.size) / size) ** scale)
        return square(photo, round(x * (photo.width - side)), round(y * (photo.height - side)), side, size)

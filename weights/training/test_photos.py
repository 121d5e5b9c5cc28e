"""The four test photographs, 256 x 256: scikit-image's astronaut, chelsea, coffee and rocket (public domain and CC0), the square in
the middle of each made small. No prior has seen them; choices are made on the validation photographs.

    python test_photos.py FOLDER [--size 256]         needs scikit-image
"""

import argparse
from pathlib import Path

from PIL import Image
from skimage import data

import photos

NAMES = ("astronaut", "chelsea", "coffee", "rocket")


def load(size=256):
    """name -> 3 x size x size bytes"""
    pictures = {name: Image.fromarray(getattr(data, name)()) for name in NAMES}
    return {name: photos.centre(picture, min(picture.size), size) for name, picture in pictures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=256)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in load(args.size).items():
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(args.folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()

"""Settings by name, as the library reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import UsageError


def texts(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings as text; what is ``None`` is left open."""

    def text(value: Any) -> str:
        if isinstance(value, (bool, np.bool_)):
            return "true" if value else "false"
        if isinstance(value, (list, tuple, np.ndarray)):
            return ",".join(text(part) for part in value)
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"a setting is {type(value).__name__}: a number, a word or a list is needed")
        return str(value)

    return [(name, text(value)) for name, value in settings.items() if value is not None]


def whole(value: Any, name: str) -> int:
    """A whole number, 1 or more."""
    number = int(value)
    if number != value or number < 1:
        raise UsageError(f"{name} must be a whole number, 1 or more, not {value}")
    return number


def seed_of(seed: Any) -> int:
    """A seed, which is a number: every image and chain keys its own noise with it."""
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool):
        raise TypeError(f"seed is {type(seed).__name__}: a whole number is needed, by which image and chain key their noise")
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed must be from 0 to 2**63 - 1, not {seed}")
    return int(seed)


def part_of(images: Any, count: int) -> tuple[int, int] | None:
    """Which of so many images: the first, and the one after the last."""
    if images is None:
        return None
    if isinstance(images, (int, np.integer)):
        first = int(images) + (count if images < 0 else 0)
        images = range(first, first + 1)
    if isinstance(images, slice):
        images = range(*images.indices(count))
    if not isinstance(images, range) or images.step != 1 or len(images) == 0:
        raise UsageError("images must be a number, or a range or slice without gaps, of at least one image")
    if images.start < 0 or images.stop > count:
        raise UsageError(f"images {images.start} to {images.stop - 1} are asked for, but the problem holds {count}")
    return images.start, images.stop

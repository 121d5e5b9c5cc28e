"""From what people hand over, NumPy or torch, to what the library takes: shapes and dtypes are settled here."""

from __future__ import annotations

from typing import Any, Callable, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._errors import UsageError

#: What is called an array: NumPy's, torch's, lists.
Array = Union[ArrayLike, Any]

Images = NDArray[np.float32]


def is_torch(x: object) -> bool:
    """Whether it is a torch tensor; torch is not imported to find out."""
    return type(x).__module__.split(".")[0] == "torch" and hasattr(x, "detach")


def as_numpy(x: Any, what: str) -> NDArray[Any]:
    """The array as NumPy has it."""
    if is_torch(x):
        x = x.detach().cpu().numpy()
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} holds {array.dtype}: real numbers are needed")
    return array


def back_to(x: Any) -> Callable[[NDArray[Any]], Any]:
    """What turns NumPy's arrays into the kind of ``x``: torch in, torch out, on the same device."""
    if not is_torch(x):
        return lambda array: array
    import torch

    return lambda array: torch.from_numpy(array).to(x.device)


def images(x: Any, what: str = "x", shape: tuple[int, int, int] | None = None) -> Images:
    """Images as ``[B, C, H, W]``, float32 in [0, 1]. ``[C, H, W]`` and ``[H, W]`` are one image."""
    array = as_numpy(x, what)
    if array.dtype.kind in "biu":
        line = f"{what} = {what} / 255" if array.dtype == np.uint8 else f"{what} = {what}.astype(np.float32)"
        raise UsageError(f"{what} holds {array.dtype}, but images are floats from 0 to 1: write {line}")
    if array.ndim not in (2, 3, 4):
        raise UsageError(f"{what} has shape {array.shape}: images are [B, C, H, W], [C, H, W] or [H, W]")
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if shape is not None and array.shape[1:] != tuple(shape):
        raise UsageError(f"{what} holds images of shape {array.shape[1:]}, not {tuple(shape)}")
    if array.size == 0:
        raise UsageError(f"{what} has shape {array.shape}: there are no pixels")
    if not np.isfinite(array).all():
        raise UsageError(f"{what} holds NaN or infinity")
    return np.ascontiguousarray(array, dtype=np.float32)


def in_range(x: Images, what: str = "x") -> Images:
    """Refuses images that are not in [0, 1], with the line that brings them there."""
    low, high = float(x.min()), float(x.max())
    slack = 1e-3
    if low < -slack or high > 1 + slack:
        line = f"{what} = {what} / 255" if high > 2 else f"{what} = ({what} + 1) / 2"
        raise UsageError(f"{what} has values from {low:.3g} to {high:.3g}, but images go from 0 to 1: perhaps {line}")
    return x


def matrix(a: Any) -> NDArray[Any]:
    """A as ``[M, N]``, float32 or float64 as it came."""
    array = as_numpy(a, "A")
    if array.ndim != 2:
        raise UsageError(f"A has shape {array.shape}: a matrix [M, N] is needed")
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    return np.ascontiguousarray(array, dtype=dtype)


def rows(y: Any, what: str) -> tuple[NDArray[Any], bool]:
    """Measurements as ``[B, M]``, and whether they came without the first axis."""
    array = as_numpy(y, what)
    if array.ndim not in (1, 2):
        raise UsageError(f"{what} has shape {array.shape}: measurements are [B, M] or [M]")
    return np.atleast_2d(array), array.ndim == 1


def bounds(values: NDArray[Any]) -> NDArray[np.float64]:
    """Bounds of cells as the library takes them."""
    return np.ascontiguousarray(values, dtype=np.float64)

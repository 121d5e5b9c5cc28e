"""Priors: what images look like, as a denoiser knows it."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from . import _arrays, _qcs
from ._arrays import Array
from ._errors import RunFailed, UsageError
from ._threads import get_num_threads

#: Mean image, variance, noise levels, mean squared errors.
Table = tuple[Sequence[float], float, Sequence[float], Sequence[float]]


class Prior:
    """A denoiser that stands for the images' distribution: one of our networks, or any function of yours.

    >>> prior = Prior.builtin("mnist")
    >>> prior.shape
    (1, 28, 28)
    """

    def __init__(self, native: _qcs.Prior) -> None:
        self._native = native
        self._function: Callable[..., Any] | None = None

    @staticmethod
    @functools.cache
    def builtin(name: str = "mnist") -> Prior:
        """The prior that comes with the package: ``mnist``, a U-Net trained on the MNIST training images."""
        if name != "mnist":
            raise UsageError(f"there is no built-in prior {name!r}: there is mnist; Prior.load reads a file")
        return Prior(_qcs.Prior.shipped())

    @classmethod
    def load(cls, path: str | os.PathLike[str], shape: tuple[int, int, int] | None = None) -> Prior:
        """Reads a weights file, which ``qcs convert`` makes of checkpoints. shape: C, H, W, for a file that does not say it."""
        return cls(_qcs.Prior.load(os.path.abspath(os.fspath(path)), None if shape is None else list(shape)))

    @classmethod
    def from_callable(
        cls,
        denoise: Callable[[NDArray[np.float32], NDArray[np.float64]], Any],
        shape: tuple[int, int, int],
        *,
        name: str | None = None,
        table: Table | None = None,
    ) -> Prior:
        """Any denoiser as prior: ``denoise(x, sigma)`` gives E[x₀ | x] of images ``x`` with noise of deviation ``sigma``.

        x: ``[B, C, H, W]``, float32; pixels of clean images are in [0, 1], those of noisy ones are not. sigma: ``[B]``.
        name: says which denoiser it is in files. Turbo needs a table of its errors: see ``calibrate``.

        It runs on the CPU engine; what the function itself computes with is its own affair. Results do not depend on the batch
        where the function's do not.
        """
        shape = _shape(shape)

        def called(x: NDArray[np.float32], sigma: NDArray[np.float64]) -> NDArray[np.float32]:
            given = x.reshape(-1, *shape)
            found = denoise(given, sigma)
            array = _arrays.as_numpy(found, "what the denoiser gives")
            if array.shape != given.shape:
                raise UsageError(f"the denoiser made {array.shape} of images of shape {given.shape}")
            if not np.isfinite(array).all():
                raise RunFailed(f"the denoiser gave NaN or infinity at a noise level from {sigma.min():g} to {sigma.max():g}")
            return np.ascontiguousarray(array, dtype=np.float32).ravel()

        name = name or getattr(denoise, "__name__", type(denoise).__name__)
        prior = cls(_qcs.Prior.from_callable(called, list(shape), name, _table(table)))
        prior._function = called
        return prior

    @classmethod
    def from_torch(
        cls,
        module: Any,
        shape: tuple[int, int, int],
        *,
        predicts: str = "x0",
        range: tuple[float, float] = (0.0, 1.0),
        device: Any = None,
        name: str | None = None,
        table: Table | None = None,
    ) -> Prior:
        """A torch module as prior, called as ``module(x, sigma)``, as deepinv calls its denoisers.

        predicts: ``x0`` the clean image, ``eps`` the noise in units of sigma, ``score`` the score.
        range: the values of black and white that the module was trained with; sigma is scaled to it.
        device: where the module is, if it has no parameters that say it.
        """
        if predicts not in ("x0", "eps", "score"):
            raise UsageError(f"predicts is {predicts!r}: there are x0, eps and score")
        low, high = range
        if not high > low:
            raise UsageError(f"range is {range}: black must be below white")
        import torch

        scale = high - low
        parameter = next(iter(module.parameters()), None) if hasattr(module, "parameters") else None
        device = device or (torch.device("cpu") if parameter is None else parameter.device)
        dtype = torch.float32 if parameter is None else parameter.dtype

        def denoise(x: NDArray[np.float32], sigma: NDArray[np.float64]) -> Any:
            with torch.no_grad():
                x_in = torch.from_numpy(x).to(device=device, dtype=dtype) * scale + low
                s = torch.from_numpy(sigma).to(device=device, dtype=dtype) * scale
                out = module(x_in, s)
                by_image = s.reshape(-1, 1, 1, 1)
                if predicts == "eps":
                    out = x_in - by_image * out
                elif predicts == "score":
                    out = x_in + by_image**2 * out
                return ((out - low) / scale).float()

        return cls.from_callable(denoise, shape, name=name or type(module).__name__, table=table)

    def calibrate(
        self,
        images: Array,
        count: int = 16,
        *,
        levels: int = 33,
        least: float = 0.001,
        largest: float = 20.0,
    ) -> Prior:
        """The same prior, knowing its error at each noise level, which turbo needs; measured on clean ``images``.

        Mean and variance are those of all the images, errors those of the first ``count``: ``levels · count`` evaluations. The
        table ends where the error stops rising, which is where a denoiser was not trained for such noise.
        """
        if self._function is None:
            raise UsageError("this prior is a file: `qcs calibrate --model FILE --images DATA` measures it and keeps the table")
        x = _arrays.in_range(_arrays.images(images, "images", self.shape), "images")
        table = self._native.measure_errors(x, count, (levels, least, largest), get_num_threads())
        prior = Prior(_qcs.Prior.from_callable(self._function, list(self.shape), self._native.source, table))
        prior._function = self._function
        return prior

    @property
    def shape(self) -> tuple[int, int, int]:
        """C, H, W of its images."""
        return self._native.shape

    @property
    def is_calibrated(self) -> bool:
        """Whether turbo can use it."""
        return self._native.is_calibrated

    @property
    def is_callable(self) -> bool:
        """Whether it is a function of yours: then the CPU engine calls it."""
        return self._function is not None

    @property
    def parameters(self) -> int:
        """Weights of the network; 0 of a function."""
        return self._native.parameters

    def denoise(self, x: Array, sigma: float, device: str = "auto") -> Any:
        """E[x₀ | x] of noisy images, by Tweedie's formula; shaped as ``x``."""
        score = self._score(x, sigma, device)
        noisy = _arrays.as_numpy(x, "x")
        return _arrays.back_to(x)((noisy + sigma**2 * score.reshape(noisy.shape)).astype(np.float32))

    def score(self, x: Array, sigma: float, device: str = "auto") -> Any:
        """The gradient of the log density of images with noise of deviation ``sigma``, at ``x``; shaped as ``x``."""
        return _arrays.back_to(x)(self._score(x, sigma, device).reshape(_arrays.as_numpy(x, "x").shape))

    def _score(self, x: Array, sigma: float, device: str) -> NDArray[np.float32]:
        images = _arrays.images(x, shape=self.shape)
        return self._native.score(images, float(sigma), self._device(device), get_num_threads())

    def _device(self, device: str) -> str:
        return "cpu" if device == "auto" and self.is_callable else device

    def __repr__(self) -> str:
        c, h, w = self.shape
        what = self._native.source if self.is_callable else self._native.describe()
        return f"Prior({what}, images {c}×{h}×{w})"


def _shape(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3 or not all(0 < int(side) <= 65536 for side in shape):
        raise UsageError(f"shape is {tuple(shape)}: C, H, W are needed, for example (1, 28, 28)")
    c, h, w = (int(side) for side in shape)
    return c, h, w


def _table(table: Table | None) -> tuple[list[float], float, list[float], list[float]] | None:
    if table is None:
        return None
    mean, variance, levels, errors = table
    flat = [float(value) for value in np.asarray(mean).ravel()]
    return flat, float(variance), [float(v) for v in levels], [float(v) for v in errors]


def prior_of(prior: Prior | str | os.PathLike[str]) -> Prior:
    """A prior by whatever names it."""
    if isinstance(prior, Prior):
        return prior
    if isinstance(prior, (str, os.PathLike)):
        return Prior.load(prior) if os.path.exists(prior) else Prior.builtin(os.fspath(prior))
    raise TypeError(
        f"prior is {type(prior).__name__}: a Prior, a file or 'mnist' is needed; Prior.from_torch and Prior.from_callable make one"
    )

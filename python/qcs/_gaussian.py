"""A Gaussian that stands in for a denoiser at noise levels that it does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Gaussian:
    """The best linear denoiser of images with this mean and this power at each spatial frequency.

    Images are taken as periodic, and their statistics as the same in all places and directions: few images tell them.
    """

    def __init__(self, mean: NDArray[np.float64], power: NDArray[np.float64]) -> None:
        #: ``[C, H, W]``
        self.mean = mean
        #: ``[R, C, C]``: the covariance of the channels at each distance from the zero frequency, in whole cycles
        self.power = power
        values, self._vectors = np.linalg.eigh(power)
        self._values = np.maximum(values, 0.0)
        self._ring = _rings(*mean.shape[1:])

    @classmethod
    def of(cls, images: NDArray[np.float32]) -> Gaussian:
        """That of these images, ``[B, C, H, W]``."""
        x = images.astype(np.float64)
        count, channels, height, width = x.shape
        mean = x.mean(axis=0)
        flat = np.broadcast_to(mean.mean(axis=(1, 2), keepdims=True), mean.shape)
        # The mean image differs from a flat one also by chance, being that of so many images: what is not chance is kept.
        chance = ((x - mean) ** 2).mean() / max(count - 1, 1)
        seen = ((mean - flat) ** 2).mean()
        mean = flat + max(0.0, 1.0 - chance / max(seen, 1e-30)) * (mean - flat)
        spectrum = np.fft.fft2(x - mean, norm="ortho")
        ring = _rings(height, width)
        covariance = np.einsum("bchw,bdhw->hwcd", spectrum, spectrum.conj()).real / count
        power = np.zeros((ring.max() + 1, channels, channels))
        np.add.at(power, ring.ravel(), covariance.reshape(-1, channels, channels))
        return cls(mean, power / np.bincount(ring.ravel())[:, None, None])

    def denoise(self, x: NDArray[Any], sigma: NDArray[np.float64]) -> NDArray[np.float32]:
        """E[x₀ | x] of images ``[B, C, H, W]`` with noise of deviation ``sigma``, ``[B]``."""
        spectrum = np.fft.fft2(x - self.mean, norm="ortho")
        for image, level in enumerate(sigma):
            gain = self._values / (self._values + level**2)
            filters = np.einsum("rck,rk,rdk->rcd", self._vectors, gain, self._vectors)
            spectrum[image] = np.einsum("hwcd,dhw->chw", filters[self._ring], spectrum[image])
        return (self.mean + np.fft.ifft2(spectrum, norm="ortho").real).astype(np.float32)


def _rings(height: int, width: int) -> NDArray[np.intp]:
    """The distance of each frequency from zero in whole cycles over the longer side, ``[H, W]``."""
    longer = max(height, width)
    down, across = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None]
    return np.rint(longer * np.hypot(down, across)).astype(np.intp)

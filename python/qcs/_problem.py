"""Problems: what was measured, and how."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrays, _qcs
from ._arrays import Array
from ._errors import UsageError


@dataclass(frozen=True)
class Quantizer:
    """A scalar quantizer: 1 bit keeps the sign, 2 to 8 bits are uniform and mid-rise with thresholds at multiples of ``step``.

    >>> q = Quantizer(bits=2, step=0.5)
    >>> q.thresholds
    array([-0.5,  0. ,  0.5])
    >>> q([-0.7, 0.1, 3.0])
    array([-0.75,  0.25,  0.75])
    >>> q.codes([-0.7, 0.1, 3.0])
    array([0, 2, 3], dtype=uint8)
    """

    bits: int
    step: float | None = None

    def __post_init__(self) -> None:
        if not 0 < int(self.bits) < 256:
            raise UsageError(f"a quantizer has 1 to 8 bits, not {self.bits}")
        _qcs.check_quantizer(int(self.bits), self.step)

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Where one code ends and the next begins."""
        if self.step is None:
            return np.zeros(1)
        half = 1 << (self.bits - 1)
        return np.arange(1 - half, half, dtype=np.float64) * float(self.step)

    def codes(self, z: Array) -> NDArray[np.uint8]:
        """The codes of values, from 0 on: how many thresholds each has reached."""
        z = _arrays.as_numpy(z, "z")
        if np.isnan(z).any():
            raise UsageError("z holds NaN")
        return np.searchsorted(self.thresholds, z, side="right").astype(np.uint8)

    def __call__(self, z: Array) -> Any:
        """The quantized values: the middle of each cell, and ±1 where there is one bit."""
        values = np.array([-1.0, 1.0])
        if self.step is not None:
            half = 1 << (self.bits - 1)
            values = (np.arange(-half, half) + 0.5) * self.step
        given = _arrays.as_numpy(z, "z").dtype
        return _arrays.back_to(z)(values[self.codes(z)].astype(given if given.kind == "f" else np.float64))

    def cells(self, y: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The cell ``[lower, upper)`` of each measurement: of codes where ``y`` holds integers, else of values."""
        y = _arrays.as_numpy(y, "y")
        if y.dtype.kind in "iu":
            most = len(self.thresholds)
            if y.size and (y.min() < 0 or y.max() > most):
                raise UsageError(f"y holds codes from {y.min()} to {y.max()}: {self.bits} bits have the codes 0 to {most}")
            codes = y.astype(np.intp)
        else:
            codes = self.codes(y).astype(np.intp)
        ends = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        return ends[codes], ends[codes + 1]


def sign_cells(y: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The cells of signs, which are booleans or ±1."""
    if y.dtype.kind != "b" and not np.isin(y, (-1, 1)).all():
        if np.isin(y, (0, 1)).all():
            raise UsageError("y holds 0 and 1: for signs write y.astype(bool), for codes give quantizer=")
        raise UsageError("y holds other values than ±1: give the quantizer= that made them, or the cells, (lower, upper)")
    positive = y > 0
    return np.where(positive, 0.0, -np.inf), np.where(positive, np.inf, 0.0)


class Problem:
    """What was measured: A, the cell of every measurement, and the noise before it was quantized.

    The same file that ``qcs run`` takes holds it: see ``save`` and ``load``. Its arrays are copies; A is factorised once, by
    the first reconstruction that needs it.
    """

    def __init__(self, native: _qcs.Problem, path: str | None = None) -> None:
        self._native = native
        self._path = path

    @classmethod
    def from_cells(
        cls,
        lower: Array,
        upper: Array,
        A: Array,
        sigma: float,
        *,
        shape: tuple[int, int, int] | None = None,
        truth: Array | None = None,
        quantizer: Quantizer | None = None,
    ) -> Problem:
        """A problem from the interval of each measurement; a lost one is ``(-inf, inf)``.

        lower, upper: ``[B, M]`` or ``[M]``. A: ``[M, N]``, or a ``qcs.Operator``. sigma: standard deviation of the noise before quantization.
        shape: C, H, W of the images. truth: the images, where they are known, for metrics.
        """
        (low, _), (up, _) = _arrays.rows(lower, "lower"), _arrays.rows(upper, "upper")
        if low.shape != up.shape:
            raise UsageError(f"lower has shape {low.shape} and upper {up.shape}: each measurement needs both")
        given = (
            _arrays.bounds(low),
            _arrays.bounds(up),
            float(sigma),
            None if shape is None else list(shape),
            None if truth is None else _arrays.in_range(_arrays.images(truth, "truth"), "truth"),
            None if quantizer is None else (quantizer.bits, quantizer.step),
        )
        known = getattr(A, "_native", None)
        if isinstance(known, _qcs.Problem):
            return cls(known.with_cells(*given))
        return cls(_qcs.Problem.from_cells(_arrays.matrix(A), *given))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Problem:
        """Reads a problem file."""
        path = os.path.abspath(os.fspath(path))
        return cls(_qcs.Problem.load(path), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a problem file, whole or not at all."""
        self._native.save(os.fspath(path))

    def with_cells(self, lower: Array, upper: Array) -> Problem:
        """The same A and noise with other measurements: what was factorised of A stays known."""
        low, up = _arrays.rows(lower, "lower")[0], _arrays.rows(upper, "upper")[0]
        if low.shape != up.shape:
            raise UsageError(f"lower has shape {low.shape} and upper {up.shape}: each measurement needs both")
        made = self._native.quantizer
        return Problem(
            self._native.with_cells(_arrays.bounds(low), _arrays.bounds(up), self.sigma, self.shape and list(self.shape), None, made)
        )

    def factorise(self) -> Problem:
        """Computes the spectrum of A·Aᵀ now: what EP and turbo need once, and ``save`` then keeps."""
        self._native.factorise()
        return self

    @property
    def m(self) -> int:
        """Measurements of each image."""
        return self._native.m

    @property
    def n(self) -> int:
        """Pixels of each image."""
        return self._native.n

    def __len__(self) -> int:
        return self._native.count

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self._native.sigma

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """C, H, W of the images, where it is known."""
        return self._native.shape

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower ends of the cells, ``[B, M]``."""
        return self._native.lower

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper ends of the cells, ``[B, M]``."""
        return self._native.upper

    @property
    def truth(self) -> _arrays.Images | None:
        """The images that were measured, ``[B, C, H, W]``, where they are known."""
        return self._native.truth

    @property
    def quantizer(self) -> Quantizer | None:
        """What made the cells, where it is known."""
        made = self._native.quantizer
        return None if made is None else Quantizer(*made)

    def forward(self, x: Array) -> NDArray[np.float64]:
        """A·x of images, ``[B, M]``: before noise and quantizer."""
        return self._native.forward(_arrays.bounds(_arrays.images(x).reshape(-1, self.n)))

    def adjoint(self, z: Array) -> NDArray[np.float64]:
        """Aᵀ·z, ``[B, N]``."""
        return self._native.adjoint(_arrays.bounds(_arrays.rows(z, "z")[0]))

    def consistency(self, x: Array) -> NDArray[np.float64]:
        """The share of measurements that each image agrees with."""
        return np.array(self._native.consistency(_arrays.images(x)))

    def __repr__(self) -> str:
        made = "" if self.quantizer is None else f" of {self.quantizer.bits} bit{'s' * (self.quantizer.bits > 1)}"
        images = "1 image" if len(self) == 1 else f"{len(self)} images"
        return f"Problem({images}, {self.m} measurements{made} of {self.n} pixels, sigma={self.sigma:g})"

    def __reduce__(self) -> tuple[Any, ...]:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "problem.safetensors")
            self._native.save(path)
            with open(path, "rb") as file:
                return (_unpickled, (file.read(),))


def _unpickled(data: bytes) -> Problem:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "problem.safetensors")
        with open(path, "wb") as file:
            file.write(data)
        return Problem(_qcs.Problem.load(path))

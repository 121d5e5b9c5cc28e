"""Operators: what A is, where it is not a matrix that you have in your hands."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrays, _qcs
from ._arrays import Array
from ._errors import UsageError
from ._prior import shape_of
from ._settings import seed_of, texts


class Operator:
    """A linear operator by name, drawn by a seed: the same that ``qcs.measure`` and the command draw.

    name: a law of matrices (``gaussian``, ``row-orthogonal``, ``ill-conditioned`` with ``kappa``, ``correlated`` with ``rho``) or
    an operator without a matrix: ``hadamard``, ``dct``, ``hartley``, ``separable``, ``mask``, ``blur:PIXELS``, ``shrink:K``,
    ``blocks:SIDE``. shape: C, H, W of the images. measurements: M, or a share of the pixels like ``"50%"``.

    >>> A = Operator("row-orthogonal", shape=(1, 28, 28), measurements=100, seed=3)
    >>> A
    Operator(row-orthogonal, 100 by 784)
    >>> z = A.forward(np.ones((28, 28)))
    >>> z.shape, A.adjoint(z).shape
    ((1, 100), (1, 784))
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int, int],
        *,
        measurements: int | str | None = None,
        kappa: float | None = None,
        rho: float | None = None,
        seed: int = 0,
    ) -> None:
        self.name, self.shape = name, shape_of(shape)
        settings = {"matrix": name, "measurements": measurements, "kappa": kappa, "rho": rho, "seed": seed_of(seed)}
        # What measures an image with it holds it.
        blank = np.zeros((1, *self.shape), dtype=np.float32)
        self._native = _qcs.Problem.measure(blank, texts(settings))

    @property
    def m(self) -> int:
        """Measurements of an image."""
        return self._native.m

    @property
    def n(self) -> int:
        """Pixels of an image."""
        return self._native.n

    def forward(self, x: Array) -> NDArray[np.float64]:
        """A·x of images, ``[B, M]``."""
        return self._native.forward(_arrays.bounds(_arrays.images(x, shape=self.shape).reshape(-1, self.n)))

    def adjoint(self, z: Array) -> NDArray[np.float64]:
        """Aᵀ·z, ``[B, N]``."""
        return self._native.adjoint(_arrays.bounds(_arrays.rows(z, "z")[0]))

    def __repr__(self) -> str:
        return f"Operator({self.name}, {self.m} by {self.n})"


#: The largest matrix that somebody's operator is turned into.
MOST_BYTES = 2**31


def is_linear_operator(a: Any) -> bool:
    """Whether it is an operator as SciPy and PyLops have them."""
    return hasattr(a, "shape") and callable(getattr(a, "matmat", None)) and not hasattr(a, "__array__")


def as_matrix(a: Any, max_bytes: int = MOST_BYTES) -> NDArray[Any]:
    """The matrix of a SciPy or PyLops operator, asked for column by column; refused where it would be too large."""
    m, n = a.shape
    if 8 * m * n > max_bytes:
        raise UsageError(
            f"A is an operator of {m} by {n}: as a matrix, which is what is needed, it would take {8 * m * n / 2**30:.1f} GiB, and "
            f"{max_bytes / 2**30:.3g} GiB are the limit; qcs.Operator has operators without one"
        )
    at_once = max(1, min(n, 2**22 // n))
    columns = [a.matmat(np.eye(n, min(at_once, n - first), -first)) for first in range(0, n, at_once)]
    return np.ascontiguousarray(np.concatenate(columns, axis=1), dtype=np.float64)

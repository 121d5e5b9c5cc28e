"""deepinv and qcs: quantized physics, our methods as its reconstructors, our denoisers and likelihood in its samplers.

    physics = dinv.physics.CompressedSensing(
        m=400, img_size=(1, 28, 28), noise_model=dinv.physics.GaussianNoise(0.05), sensor_model=qcs.deepinv.Quantizer(1)
    )
    x_hat = qcs.deepinv.QCSReconstructor("mnist")(physics(x), physics)
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import deepinv as dinv
import numpy as np
import torch
from deepinv.models import Denoiser, Reconstructor
from deepinv.sampling import NoisyDataFidelity
from torch import Tensor

from ._api import reconstruct
from ._errors import UsageError
from ._prior import Prior, prior_of
from ._problem import Problem, Quantizer
from ._result import Result
from ._scores import likelihood_score

__all__ = ["QCSDenoiser", "QCSReconstructor", "QuantizedDataFidelity", "Quantizer", "problem_of"]

#: The largest matrix that a physics is turned into unasked.
MOST_BYTES = 2**31

#: Of each physics, the problem that was made of it last, and of what state of its buffers.
_known: weakref.WeakKeyDictionary[Any, tuple[Any, Problem]] = weakref.WeakKeyDictionary()


def problem_of(
    y: Tensor,
    physics: Any,
    img_size: tuple[int, int, int],
    *,
    sigma: float | None = None,
    quantizer: Quantizer | None = None,
    max_bytes: int = MOST_BYTES,
) -> Problem:
    """The problem that measurements ``y`` of a linear physics are.

    The quantizer is the physics' ``sensor_model``, the noise its Gaussian ``noise_model``, unless they are given. A is asked for
    column by column and kept with the physics, as is its factorisation, until a buffer of the physics changes.
    """
    quantizer = quantizer or getattr(physics, "sensor_model", None)
    if not isinstance(quantizer, Quantizer):
        raise UsageError("the physics does not quantize: give it sensor_model=qcs.deepinv.Quantizer(bits), or give quantizer=")
    if sigma is None:
        sigma = _noise(physics)
    rows = y.detach().reshape(len(y), -1).cpu().numpy()
    lower, upper = quantizer.cells(rows)
    state = (sigma, tuple(img_size), tuple((id(b), b._version) for b in physics.buffers()))
    kept = _known.get(physics)
    if kept is not None and kept[0] == state and kept[1].m == rows.shape[1]:
        return kept[1].with_cells(lower, upper)
    matrix = _matrix(physics, img_size, rows.shape[1], max_bytes)
    problem = Problem.from_cells(lower, upper, matrix, sigma, shape=img_size, quantizer=quantizer).factorise()
    _known[physics] = (state, problem)
    return problem


def _noise(physics: Any) -> float:
    model = getattr(physics, "noise_model", None)
    if not isinstance(model, dinv.physics.GaussianNoise):
        raise UsageError("the physics has no Gaussian noise_model: give sigma=, which may be 0")
    sigma = torch.as_tensor(model.sigma).flatten()
    if not bool((sigma == sigma[0]).all()):
        raise UsageError("the images have noise of different strength: reconstruct them one by one")
    return float(sigma[0])


def _matrix(physics: Any, img_size: tuple[int, int, int], m: int, max_bytes: int) -> np.ndarray:
    n = int(np.prod(img_size))
    if 4 * m * n > max_bytes:
        raise UsageError(f"A as a matrix of {m} by {n} would take {4 * m * n / 2**30:.1f} GiB: raise max_bytes if you have them")
    buffer = next(physics.buffers(), None)
    device = "cpu" if buffer is None else buffer.device
    matrix = np.empty((m, n), dtype=np.float32)
    at_once = max(1, min(n, 2**24 // n))
    with torch.no_grad():
        for first in range(0, n, at_once):
            last = min(first + at_once, n)
            unit = torch.zeros(last - first, n, device=device)
            unit[torch.arange(last - first), torch.arange(first, last)] = 1
            columns = physics.A(unit.reshape(-1, *img_size)).reshape(last - first, -1)
            matrix[:, first:last] = columns.T.cpu().numpy()
    return matrix


class QCSReconstructor(Reconstructor):
    """Our methods as a deepinv ``Reconstructor``: ``model(y, physics)`` gives posterior means.

    prior, method, chains, seed and settings: as of ``qcs.reconstruct``. sigma, quantizer: where the physics does not say them.
    ``last`` is the whole ``qcs.Result`` of the last call.
    """

    def __init__(
        self,
        prior: Prior | str | os.PathLike[str] = "mnist",
        method: str = "turbo",
        *,
        chains: int = 1,
        seed: int = 0,
        sigma: float | None = None,
        quantizer: Quantizer | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.prior, self.method, self.chains, self.seed = prior_of(prior), method, chains, seed
        self.noise, self.quantizer, self.settings = sigma, quantizer, settings
        self.last: Result | None = None

    def forward(self, y: Tensor, physics: Any, **kwargs: Any) -> Tensor:
        """Posterior means, ``[B, C, H, W]``."""
        return self._run(y, physics, self.chains).mean

    def sample(self, y: Tensor, physics: Any, chains: int | None = None) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of each pixel, from several chains."""
        chains = chains or max(self.chains, 8)
        if chains < 2:
            raise UsageError("a variance needs two chains at least")
        result = self._run(y, physics, chains)
        return result.mean, result.std**2

    def _run(self, y: Tensor, physics: Any, chains: int) -> Result:
        problem = problem_of(y, physics, self.prior.shape, sigma=self.noise, quantizer=self.quantizer)
        result = reconstruct(
            problem, prior=self.prior, method=self.method, chains=chains, seed=self.seed, progress=False, **self.settings
        )
        for name in ("mean", "samples", "std"):
            array = getattr(result, name)
            if array is not None:
                setattr(result, name, torch.from_numpy(array).to(device=y.device))
        self.last = result
        return result


class QCSDenoiser(Denoiser):
    """A prior of ours as a deepinv ``Denoiser``, for its plug-and-play methods and samplers. It has no gradient."""

    def __init__(self, prior: Prior | str | os.PathLike[str] = "mnist", device: str = "auto") -> None:
        super().__init__()
        self.prior, self.where = prior_of(prior), device

    def forward(self, x: Tensor, sigma: float | Tensor, **kwargs: Any) -> Tensor:
        """E[x₀ | x] of images ``[B, C, H, W]``; sigma a number or ``[B]``."""
        if torch.is_grad_enabled() and x.requires_grad:
            raise UsageError("QCSDenoiser has no gradient: DPS and others that differentiate the denoiser need a torch module")
        levels = _levels(sigma, len(x))
        out = torch.empty_like(x)
        for level in np.unique(levels):
            chosen = torch.from_numpy(np.flatnonzero(levels == level)).to(x.device)
            # No network of ours was shown less noise than this; an image without any is its own denoised one.
            part = x[chosen]
            out[chosen] = part if level == 0 else self.prior.denoise(part.float(), float(level), self.where).to(x)
        return out


class QuantizedDataFidelity(NoisyDataFidelity):
    """The likelihood of quantized measurements for deepinv's samplers, by ``ep`` (QCS-SGM+) or ``diag`` (QCS-SGM).

    ``grad`` is −∇ log p(y | x_t) at the noise level of x_t. The physics says A, the noise and the quantizer: see ``problem_of``.
    problem: the measurements themselves, where A is an operator of ours without a matrix; y and the physics say nothing then.
    """

    def __init__(
        self,
        likelihood: str = "ep",
        weight: float = 1.0,
        *,
        sigma: float | None = None,
        quantizer: Quantizer | None = None,
        problem: Problem | None = None,
    ) -> None:
        super().__init__(weight=weight)
        self.likelihood, self.noise, self.quantizer, self.problem = likelihood, sigma, quantizer, problem

    def grad(self, x: Tensor, y: Tensor, physics: Any, sigma: float | Tensor = 0.0, *args: Any, **kwargs: Any) -> Tensor:
        """−∇ log p(y | x) for images ``x`` with noise of deviation ``sigma``."""
        levels = _levels(sigma, len(x))
        problem = self.problem
        if problem is None:
            _, c, h, w = x.shape
            problem = problem_of(y, physics, (c, h, w), sigma=self.noise, quantizer=self.quantizer)
        if len(problem) != len(x):
            raise UsageError(f"there are {len(x)} images but measurements of {len(problem)}")
        out = torch.empty_like(x)
        for level in np.unique(levels):
            chosen = torch.from_numpy(np.flatnonzero(levels == level)).to(x.device)
            score = likelihood_score(problem, x.detach().float(), max(float(level), 1e-6), self.likelihood)
            out[chosen] = -self.weight * score[chosen].to(x)
        return out


def _levels(sigma: float | Tensor, count: int) -> np.ndarray:
    levels = np.atleast_1d(np.asarray(sigma.detach().cpu() if isinstance(sigma, Tensor) else sigma, dtype=np.float64).ravel())
    if len(levels) not in (1, count):
        raise UsageError(f"sigma has {len(levels)} values for {count} images")
    return np.broadcast_to(levels, count)



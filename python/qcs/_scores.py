"""The likelihood score alone, for samplers of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays, _qcs
from ._arrays import Array
from ._errors import UsageError
from ._problem import Problem
from ._threads import get_num_threads


def likelihood_score(problem: Problem, x: Array, sigma: float, likelihood: str = "ep", device: str = "auto") -> Any:
    """The gradient of log p(y | x) at images ``x`` with noise of deviation ``sigma``, image b with its own measurements.

    likelihood: ``ep``, expectation propagation as in QCS-SGM+, or ``diag``, the diagonal of QCS-SGM. Shaped as ``x``.
    """
    given = _arrays.as_numpy(x, "x")
    if given.size != len(problem) * problem.n:
        raise UsageError(f"x has {given.size} values, but {len(problem)} images of {problem.n} pixels were measured")
    flat = np.ascontiguousarray(given.reshape(len(problem), problem.n), dtype=np.float32)
    score = _qcs.likelihood_score(problem._native, flat, float(sigma), likelihood, device, get_num_threads())
    return _arrays.back_to(x)(score.reshape(given.shape))

"""Images from coarsely quantized measurements y = Q(Ax + n): a known A, Gaussian noise, 1 to 8 bits.

    import qcs
    problem = qcs.measure(qcs.digits(), bits=1)   # signs of random projections
    result = qcs.reconstruct(problem)             # posterior means, by turbo
    result                                        # in a notebook: the picture; elsewhere one line

Your own measurements: ``qcs.reconstruct(y, A, sigma)``. Your own denoiser: ``qcs.Prior.from_torch``, ``qcs.Prior.from_callable``.
In deepinv: ``qcs.deepinv``.
"""

from __future__ import annotations

from ._api import digits, load_images, measure, methods, photo, reconstruct
from ._errors import (
    BadFileError,
    DeviceError,
    DivergenceWarning,
    Error,
    RunFailed,
    SettingError,
    Stopped,
    UsageError,
)
from ._operator import Operator
from ._prior import Prior
from ._problem import Problem, Quantizer
from ._progress import Progress
from ._result import Picture, Result, show
from ._scores import likelihood_score
from ._threads import get_num_threads, set_num_threads

__version__ = "0.1.0"

__all__ = [
    "BadFileError",
    "DeviceError",
    "DivergenceWarning",
    "Error",
    "Operator",
    "Picture",
    "Prior",
    "Problem",
    "Progress",
    "Quantizer",
    "Result",
    "RunFailed",
    "SettingError",
    "Stopped",
    "UsageError",
    "digits",
    "get_num_threads",
    "likelihood_score",
    "load_images",
    "measure",
    "methods",
    "photo",
    "reconstruct",
    "set_num_threads",
    "show",
]

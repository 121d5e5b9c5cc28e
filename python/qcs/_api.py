"""The two functions that most people need: ``measure`` and ``reconstruct``."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from . import _arrays, _qcs
from ._arrays import Array, Images
from ._errors import DivergenceWarning, RunFailed, UsageError
from ._operator import Operator, as_matrix, is_linear_operator
from ._prior import Prior, prior_of, shape_of
from ._problem import Problem, Quantizer, sign_cells
from ._progress import Watch, watcher
from ._result import Result, result_of
from ._settings import part_of, seed_of, texts, whole
from ._threads import get_num_threads


def digits() -> Images:
    """Ten handwritten digits to try things on, 0 to 9, ``[10, 1, 28, 28]`` in [0, 1]: MNIST test images."""
    return _qcs.bundled_images("bundled:digits")


def photo() -> Images:
    """A photograph to try things on, ``[1, 3, 256, 256]`` in [0, 1]: scikit-image's chelsea, a cat.

    >>> import qcs
    >>> qcs.photo().shape
    (1, 3, 256, 256)
    """
    return _qcs.bundled_images("bundled:chelsea")


def load_images(path: str | os.PathLike[str], *, first: int = 0, count: int | None = None) -> Images:
    """Images of a file, or of a folder of pictures, as the command reads them: PNG, ``.npy``, MNIST's idx; ``[B, C, H, W]`` in [0, 1].

    first, count: which of them.
    """
    if first < 0 or (count is not None and count < 1):
        raise UsageError(f"images from {first} on, {count} of them: first is 0 or more, count 1 or more")
    return _qcs.load_images(os.fspath(path), first, count)


def methods() -> dict[str, dict[str, Any]]:
    """The methods by key: ``title``, ``about``, and ``settings`` with what each does."""
    return {
        key: {"title": title, "about": about, "settings": dict(settings)}
        for key, title, about, settings in _qcs.methods()
    }


def measure(
    x: Array,
    A: Array | str = "gaussian",
    *,
    measurements: int | str | None = None,
    bits: int = 1,
    step: float | None = None,
    sigma: float = 0.05,
    kappa: float | None = None,
    rho: float | None = None,
    mean_square: float | None = None,
    dither: bool | None = None,
    seed: int = 0,
) -> Problem:
    """Simulated measurements y = Q(Ax + n) of images.

    x: ``[B, C, H, W]``, ``[C, H, W]`` or ``[H, W]``, floats in [0, 1]; kept as the truth.
    A: a matrix ``[M, N]``, SciPy's or PyLops' operator, a file with a matrix, or a law to draw it from: ``gaussian``, ``row-orthogonal``, ``ill-conditioned``
    (with ``kappa``), ``correlated`` (with ``rho``); or an operator without a matrix, for large images: ``hadamard``, ``dct``,
    ``hartley``, ``separable``, ``mask``, ``blur:PIXELS``, ``shrink:K``, ``blocks:SIDE``.
    measurements: M of a drawn A, a number or a share like ``"50%"``; for images of MNIST's, CIFAR-10's and CelebA's shapes the
    paper's, if absent. dither: for one bit, known thresholds that are drawn too, so that signs tell the contrast.
    bits, step: the quantizer; without a step the best one for Gaussian values of this variance, for which E[x²] of such
    images, ``mean_square``, must be known.
    sigma: standard deviation of the noise before quantization. seed: of A and of the noise.

    >>> import qcs
    >>> qcs.measure(qcs.digits()[:2], measurements=300, bits=2)
    Problem(2 images, 300 measurements of 2 bits of 784 pixels, sigma=0.05)
    """
    images = _arrays.in_range(_arrays.images(x))
    seed = seed_of(seed)
    if not isinstance(A, (str, os.PathLike)):
        if isinstance(A, Operator):
            raise UsageError(f"measure draws A itself: write A={A.name!r}, with the measurements and the seed of yours")
        if any(value is not None for value in (measurements, kappa, rho, dither)):
            raise UsageError("measurements, kappa, rho and dither are of an A that is drawn: this one is given")
        if not 0 < bits < 256:
            raise UsageError(f"bits must be 1 to 8, not {bits}")
        matrix = as_matrix(A) if is_linear_operator(A) else _arrays.matrix(A)
        return Problem(_qcs.Problem.simulate(images, matrix, bits, step, float(sigma), mean_square, seed))
    settings = {
        "matrix": os.fspath(A),
        "measurements": measurements,
        "bits": bits,
        "step": step,
        "sigma": sigma,
        "kappa": kappa,
        "rho": rho,
        "mean_square": mean_square,
        "dither": dither,
        "seed": seed,
    }
    return Problem(_qcs.Problem.measure(images, texts(settings)))


def reconstruct(
    y: Problem | Array | tuple[Array, Array],
    A: Operator | Array | None = None,
    sigma: float | None = None,
    *,
    quantizer: Quantizer | None = None,
    prior: Prior | str | os.PathLike[str] | None = None,
    method: str = "turbo",
    chains: int = 1,
    seed: int = 0,
    images: int | range | slice | None = None,
    shape: tuple[int, int, int] | None = None,
    truth: Array | None = None,
    device: str = "auto",
    precision: str | None = None,
    batch: int = 8,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Watch = None,
    on_divergence: str = "warn",
    **settings: Any,
) -> Result:
    """Images from quantized measurements.

    y: a ``Problem``; or, with A and sigma: signs ``[B, M]`` or ``[M]``, booleans or ±1; values or codes of a ``quantizer``; or
    a pair (lower, upper), the interval of each measurement, (-inf, inf) of a lost one.
    A: ``[M, N]``, a ``qcs.Operator``, or an operator of SciPy's or PyLops', which is turned into a matrix. sigma: standard
    deviation of the noise before quantization.
    prior: ``"mnist"``, ``"photo"``, a weights file, or a ``Prior``, which any denoiser can be. If absent, what comes with the
    package for such images: ``mnist`` for 1×28×28, ``photo`` for colour of any size.
    method: ``turbo``, posterior means in about 30 evaluations; ``ep`` (QCS-SGM+) and ``diag`` (QCS-SGM), posterior samples;
    ``bipg``, ``oneshot``, baselines. ``qcs.methods()`` has their settings, which are given by name.
    chains: samples of each image. seed: of their noise. images: which of the problem's; image 3 alone is the same bits as
    image 3 among others. shape: C, H, W, where A is a matrix and the prior serves any size. truth: the images themselves,
    for metrics.
    device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``. batch: chains worked on at once; changes speed and memory, never results.
    out: a folder that keeps the run as ``qcs run`` does; ``resume=True`` goes on with what it holds, or loads it.
    progress: see ``qcs.Progress``. on_divergence: ``warn``, ``raise`` or ``ignore``.

    Ctrl-C ends the run after the step that it is at.

    >>> import qcs
    >>> problem = qcs.measure(qcs.digits()[:2], bits=2)
    >>> result = qcs.reconstruct(problem)
    >>> result.mean.shape, bool(result.psnr > 20)
    ((2, 1, 28, 28), True)
    """
    if on_divergence not in ("warn", "raise", "ignore"):
        raise UsageError(f"on_divergence is {on_divergence!r}: there are warn, raise and ignore")
    problem, knows, single, back = _problem(y, A, sigma, quantizer, shape, truth, prior)
    part = part_of(images, len(problem))
    watch = watcher(progress)
    options: _qcs._Options = {
        "method": method,
        "settings": texts(settings),
        "chains": whole(chains, "chains"),
        "seed": seed_of(seed),
        "images": part,
        "batch": whole(batch, "batch"),
        "device": knows._device(device),
        "precision": precision,
        "threads": get_num_threads(),
        "watch": watch,
    }
    try:
        if out is not None:
            result = _in_folder(out, resume, problem, knows, options)
        else:
            if resume:
                raise UsageError("resume is of a run in a folder: name it with out")
            found = _qcs.reconstruct(problem._native, knows._native, options)
            known = problem.truth
            if known is not None and part is not None:
                known = known[part[0] : part[1]]
            result = result_of(found, known, single, back)
    finally:
        getattr(watch, "close", lambda: None)()
    _tell_of_divergence(result, on_divergence)
    return result


def _problem(
    y: Any,
    A: Any,
    sigma: float | None,
    quantizer: Quantizer | None,
    shape: tuple[int, int, int] | None,
    truth: Any,
    prior: Any,
) -> tuple[Problem, Prior, bool, Any]:
    """The problem and the prior, whether measurements came without a first axis, and what turns arrays into the caller's kind."""
    if isinstance(y, Problem):
        if any(given is not None for given in (A, sigma, quantizer, shape, truth)):
            raise UsageError("A, sigma, quantizer, shape and truth are part of the Problem: leave them out")
        return y, prior_of(prior, y.shape, y.n), False, _arrays.back_to(None)
    if A is None or sigma is None:
        raise UsageError("measurements alone say nothing: give A and sigma too, or a Problem")
    if isinstance(y, tuple):
        if len(y) != 2 or quantizer is not None:
            raise UsageError("a pair (lower, upper) has two arrays and needs no quantizer")
        (lower, single), upper = _arrays.rows(y[0], "lower"), _arrays.rows(y[1], "upper")[0]
        back = _arrays.back_to(y[0])
    else:
        rows, single = _arrays.rows(y, "y")
        lower, upper = sign_cells(rows) if quantizer is None else quantizer.cells(rows)
        back = _arrays.back_to(y)
    matrix = A if isinstance(A, Operator) else as_matrix(A) if is_linear_operator(A) else _arrays.matrix(A)
    n = matrix.n if isinstance(matrix, Operator) else matrix.shape[1]
    if isinstance(matrix, Operator):
        if shape is not None and shape_of(shape) != matrix.shape:
            raise UsageError(f"shape is {shape_of(shape)}, but the operator's images are {matrix.shape}: leave shape out")
        shape = matrix.shape
    knows = prior_of(prior, None if shape is None else shape_of(shape), n)
    if n != int(np.prod(knows.shape)):
        c, h, w = knows.shape
        reason = f"A has {n} columns, but the prior's images ({c}×{h}×{w}) have {c * h * w} pixels"
        raise UsageError(reason if shape is not None else f"{reason}; shape=(C, H, W) says it of a prior that serves any size")
    problem = Problem.from_cells(lower, upper, matrix, sigma, shape=knows.shape, truth=truth, quantizer=quantizer)
    return problem, knows, single, back


def _in_folder(
    out: str | os.PathLike[str],
    resume: bool,
    problem: Problem,
    prior: Prior,
    options: _qcs._Options,
) -> Result:
    if prior.is_callable:
        raise UsageError("a folder names its prior by a file, and this one is a function: leave out away")
    if not prior._in_file:
        raise UsageError("a folder names its prior by a file, and this one is in none: save it (Prior.save) and load it first")
    folder = os.fspath(out)
    try:
        _qcs.run_in_folder(folder, problem._native, problem._path, prior._native.source, options, resume=resume)
    except KeyboardInterrupt as stopped:
        if hasattr(stopped, "add_note"):
            stopped.add_note(f"the state is saved: call again with out={folder!r}, resume=True to go on")
        raise
    return Result.load(folder, options["method"])


def _tell_of_divergence(result: Result, on_divergence: str) -> None:
    if not result.diverged or on_divergence == "ignore":
        return
    first = result.diverged[0]
    words = (
        f"{len(result.diverged)} chains left the range of images, the first of image {first['image']}: "
        "they are in no mean; Result.diverged lists them"
    )
    if on_divergence == "raise":
        raise RunFailed(words)
    warnings.warn(words, DivergenceWarning, stacklevel=3)

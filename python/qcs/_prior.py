"""Priors: what images look like, as a denoiser knows it."""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
import zipfile
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from . import _arrays, _diffusers, _qcs
from ._arrays import Array, Images
from ._errors import BadFileError, DivergenceWarning, RunFailed, UsageError
from ._gaussian import Gaussian
from ._progress import Watch, watcher
from ._settings import seed_of, texts, whole
from ._threads import get_num_threads

#: Mean image, variance, noise levels, mean squared errors.
Table = tuple[Sequence[float], float, Sequence[float], Sequence[float]]
_Table = tuple[list[float], float, list[float], list[float]]


class Prior:
    """A denoiser that stands for the images' distribution: one of our networks, or any function of yours.

    >>> prior = Prior.builtin("mnist")
    >>> prior.shape
    (1, 28, 28)
    """

    def __init__(self, native: _qcs.Prior, *, in_file: bool = False) -> None:
        self._native = native
        self._in_file = in_file
        self._denoise: Callable[..., Any] | None = None
        self._largest: float | None = None
        self._gaussian: Gaussian | None = None

    @staticmethod
    def builtin(name: str = "mnist", shape: tuple[int, int, int] | None = None) -> Prior:
        """A prior that comes with the package: ``mnist``, a U-Net trained on the MNIST training images, or ``photo``, one for colour
        photographs.

        shape: C, H, W; ``photo`` serves any size.

        >>> Prior.builtin("photo", shape=(3, 96, 128)).shape
        (3, 96, 128)
        """
        return _builtin(name, None if shape is None else shape_of(shape))

    @classmethod
    def load(cls, path: str | os.PathLike[str], shape: tuple[int, int, int] | None = None) -> Prior:
        """Reads a weights file, one that ``qcs convert`` or ``Prior.save`` made, or a published file or folder as it is.

        shape: C, H, W, for a file that does not say it, or to work at another size than the one it was trained at.
        """
        return cls(_qcs.Prior.load(os.path.abspath(os.fspath(path)), None if shape is None else list(shape)), in_file=True)

    @classmethod
    def from_callable(
        cls,
        denoise: Callable[[NDArray[np.float32], NDArray[np.float64]], Any],
        shape: tuple[int, int, int],
        *,
        name: str | None = None,
        largest: float | None = None,
        table: Table | str | os.PathLike[str] | None = None,
    ) -> Prior:
        """Any denoiser as prior: ``denoise(x, sigma)`` gives E[x₀ | x] of images ``x`` with noise of deviation ``sigma``.

        x: ``[B, C, H, W]``, float32; pixels of clean images are in [0, 1], those of noisy ones are not. sigma: ``[B]``.
        name: says which denoiser it is, in messages.
        largest: the largest sigma that the denoiser was made for. Above it a Gaussian with the mean and the spectrum of the images
        that ``calibrate`` is given makes a guess, and up to six times it the denoiser improves on that, in up to three evaluations.
        table: what ``calibrate`` found earlier: ``Prior.table``, or the file that ``Prior.save`` wrote. Turbo needs one.

        It runs on the CPU engine; what the function itself computes with is its own affair. Results do not depend on the batch
        where the function's do not.

        >>> import numpy as np, qcs
        >>> def flat(x, sigma):                        # every pixel is N(0.1, 0.09)
        ...     gain = 0.09 / (0.09 + sigma.reshape(-1, 1, 1, 1) ** 2)
        ...     return 0.1 + gain * (x - 0.1)
        >>> prior = qcs.Prior.from_callable(flat, shape=(1, 28, 28))
        >>> print(prior.denoise(np.ones((28, 28)), sigma=0.3).max().round(3))
        0.55
        """
        shape = shape_of(shape)
        if largest is not None and not largest > 0:
            raise UsageError(f"largest must be above 0, not {largest}")
        gaussian = None
        if isinstance(table, (str, os.PathLike)):
            table, gaussian = _read_table(table)
            if largest is not None and gaussian is None:
                raise UsageError("the table was measured without largest=: leave it out here too, or calibrate again")
        elif table is not None and largest is not None:
            raise UsageError("the table alone does not say what stands above largest: give the file that Prior.save wrote")

        def called(x: NDArray[np.float32], sigma: NDArray[np.float64]) -> Any:
            found = denoise(x, sigma)
            array = _arrays.as_numpy(found, "what the denoiser gives")
            if array.shape != x.shape:
                raise UsageError(f"the denoiser made {array.shape} of images of shape {x.shape}")
            if not np.isfinite(array).all():
                raise RunFailed(f"the denoiser gave NaN or infinity at a noise level from {sigma.min():g} to {sigma.max():g}")
            return array

        called_so = str(name or getattr(denoise, "__name__", type(denoise).__name__))
        return cls._of_function(called, shape, called_so, largest, gaussian, _table(table))

    @classmethod
    def _of_function(
        cls,
        denoise: Callable[..., Any],
        shape: tuple[int, int, int],
        name: str,
        largest: float | None,
        gaussian: Gaussian | None,
        table: _Table | None,
    ) -> Prior:
        def called(x: NDArray[np.float32], sigma: NDArray[np.float64]) -> NDArray[np.float32]:
            given = x.reshape(-1, *shape)
            found = denoise(given, sigma) if largest is None else _split(denoise, gaussian, largest, given, sigma)
            return np.ascontiguousarray(found, dtype=np.float32).ravel()

        prior = cls(_qcs.Prior.from_callable(called, list(shape), name, table))
        prior._denoise, prior._largest, prior._gaussian = denoise, largest, gaussian
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
        largest: float | None = None,
        table: Table | str | os.PathLike[str] | None = None,
    ) -> Prior:
        """A torch module as prior, called as ``module(x, sigma)``, as deepinv calls its denoisers.

        predicts: ``x0`` the clean image, ``eps`` the noise in units of sigma, ``score`` the score.
        range: the values of black and white that the module was trained with; sigma is scaled to it.
        device: where the module is, if it has no parameters that say it.
        largest, table: as of ``from_callable``, in units of images in [0, 1]: 50 / 255 for DRUNet.
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

        return cls.from_callable(denoise, shape, name=name or type(module).__name__, largest=largest, table=table)

    @classmethod
    def from_diffusers(
        cls,
        model: Any,
        *,
        shape: tuple[int, int, int] | None = None,
        scheduler: Any = None,
        own_engine: bool | None = None,
        device: Any = None,
        table: Table | str | os.PathLike[str] | None = None,
    ) -> Prior:
        """A pixel-space diffusion model of diffusers: a pipeline, a ``UNet2DModel``, or a folder or repository that holds one.

        Our own engine runs it where it knows the family, and torch where it does not; ``own_engine`` says which, with the reason
        where ours cannot. device: torch's. scheduler: of a model that comes alone; if absent, 1000 linear steps and epsilon.
        shape: C, H, W, for another size than the model's. Latent models are not for this: A acts on pixels.

        A repository that is no folder is downloaded by diffusers.
        """
        name = type(model).__name__
        if isinstance(model, (str, os.PathLike)):
            name = os.fspath(model)
            if own_engine is not False and os.path.isdir(name) and scheduler is None:
                prior = cls._in_own_engine(name, shape, own_engine)
                if prior is not None:
                    return prior if table is None else prior.with_table(table)
            network, scheduler = _diffusers.opened(name, scheduler)
        else:
            network, scheduler = _diffusers.parts(model, scheduler)
        _diffusers.check(network, scheduler)
        if own_engine is not False:
            with tempfile.TemporaryDirectory() as folder:
                place = os.path.join(folder, "model")
                network.save_pretrained(os.path.join(place, "unet"))
                if scheduler is not None:
                    scheduler.save_pretrained(os.path.join(place, "scheduler"))
                prior = cls._in_own_engine(place, shape, own_engine)
            if prior is not None:
                prior._in_file = False
                return prior if table is None else prior.with_table(table)
        denoise = _diffusers.denoiser(network, scheduler, device)
        return cls.from_callable(denoise, shape or _diffusers.shape_of(network), name=name, table=table)

    @classmethod
    def _in_own_engine(cls, folder: str, shape: tuple[int, int, int] | None, must: bool | None) -> Prior | None:
        try:
            return cls.load(folder, shape)
        except (BadFileError, UsageError):
            if must:
                raise
            return None

    def calibrate(
        self,
        images: Array,
        count: int = 16,
        *,
        levels: int = 33,
        least: float = 0.001,
        largest: float = 20.0,
        device: str = "auto",
    ) -> Prior:
        """The same prior, knowing its error at each noise level, which turbo needs; measured on clean ``images``.

        Mean and variance are those of all the images, errors those of the first ``count``: ``levels · count`` evaluations. least,
        largest: the first and the last noise level. The table of a function begins where it leaves less error than there was noise, and
        any ends where the error stops rising, which is where a denoiser was not trained for such noise.
        """
        count, levels = whole(count, "count"), whole(levels, "levels")
        x = _arrays.in_range(_arrays.images(images, "images", self.shape), "images")
        prior = self
        if self._denoise is not None and self._largest is not None:
            given = (self._denoise, self.shape, self._native.source, self._largest, Gaussian.of(x))
            prior = Prior._of_function(*given, None)
        on = (self._device(device), get_num_threads())
        if self._denoise is not None:
            least = prior._least_known(x[:count], np.geomspace(least, largest, levels))
        table = prior._native.measure_errors(x, count, (levels, least, largest), *on)
        if self._denoise is not None and self._largest is None:
            _warn_of_range(table, largest)
        return prior.with_table(table)

    def _least_known(self, x: Images, levels: NDArray[np.float64]) -> float:
        """The first of the noise levels at which denoising helps."""
        noise = np.random.default_rng(0).standard_normal(x.shape, dtype=np.float32)
        for level in levels:
            clean = self.denoise(x + np.float32(level) * noise, float(level))
            if ((clean - x) ** 2).mean() < 0.9 * level**2:
                return float(level)
        return float(levels[0])

    def with_table(self, table: Table | str | os.PathLike[str]) -> Prior:
        """The same prior with what ``calibrate`` found earlier: ``Prior.table``, or the file that ``save`` wrote of a function."""
        gaussian = self._gaussian
        if isinstance(table, (str, os.PathLike)):
            table, gaussian = _read_table(table)
        known = _table(table)
        assert known is not None
        if self._denoise is None:
            return Prior(self._native.with_table(known))
        return Prior._of_function(self._denoise, self.shape, self._native.source, self._largest, gaussian, known)

    @property
    def table(self) -> Table | None:
        """What ``calibrate`` measured: mean image, variance, noise levels, mean squared errors."""
        return self._native.table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the prior: of a network the weights file that ``Prior.load`` and ``qcs run --model`` read, with its table; of a
        function its table alone (``.npz``), which ``from_callable``, ``from_torch`` and ``from_diffusers`` take as ``table``."""
        if self._denoise is None:
            self._native.save(os.path.abspath(os.fspath(path)))
            return
        if self.table is None:
            raise UsageError("of a function its table is saved, and this one has none: calibrate it first")
        mean, variance, levels, errors = self.table
        more: dict[str, Any] = {}
        if self._gaussian is not None:
            more = {"gaussian_mean": self._gaussian.mean, "gaussian_power": self._gaussian.power}
        shaped = np.asarray(mean, dtype=np.float32).reshape(self.shape)
        with open(path, "wb") as file:
            np.savez(file, mean=shaped, variance=variance, levels=levels, errors=errors, **more)

    def sample(
        self,
        count: int = 16,
        *,
        seed: int = 0,
        batch: int = 8,
        device: str = "auto",
        progress: Watch = None,
        **settings: Any,
    ) -> Images:
        """Images that the prior believes in, without measurements: ``[count, C, H, W]``.

        By the reverse SDE from each noise level to the next. settings: ``levels``, ``sigma_begin``, ``sigma_end``, where the model
        does not say them; ``steps_per_level``, ``step_scale`` or ``momentum`` ask for annealed Langevin dynamics. The same images as
        those of ``qcs sample``.
        """
        watch = watcher(progress)
        try:
            drawn, diverged = _qcs.sample(
                self._native,
                whole(count, "count"),
                texts(settings),
                seed=seed_of(seed),
                batch=whole(batch, "batch"),
                device=self._device(device),
                threads=get_num_threads(),
                watch=watch,
            )
        finally:
            getattr(watch, "close", lambda: None)()
        if diverged:
            warnings.warn(f"{diverged} of {count} samples left the range of images", DivergenceWarning, stacklevel=2)
        return drawn

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
        return self._denoise is not None

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


#: The priors that come with the package.
BUILTIN = ("mnist", "photo")


@functools.cache
def _builtin(name: str, shape: tuple[int, int, int] | None) -> Prior:
    if name not in BUILTIN:
        raise UsageError(f"there is no built-in prior {name!r}: there are {' and '.join(BUILTIN)}; Prior.load reads a file")
    return Prior(_qcs.Prior.bundled(f"bundled:{name}", None if shape is None else list(shape)), in_file=True)


def shape_of(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3 or not all(0 < int(side) <= 65536 for side in shape):
        raise UsageError(f"shape is {tuple(shape)}: C, H, W are needed, for example (1, 28, 28)")
    c, h, w = (int(side) for side in shape)
    return c, h, w


def _table(table: Table | None) -> _Table | None:
    if table is None:
        return None
    mean, variance, levels, errors = table
    flat = [float(value) for value in np.asarray(mean).ravel()]
    return flat, float(variance), [float(v) for v in levels], [float(v) for v in errors]


def _read_table(path: str | os.PathLike[str]) -> tuple[Table, Gaussian | None]:
    """What ``Prior.save`` wrote of a function."""
    try:
        with np.load(path, allow_pickle=False) as file:
            table = (file["mean"], float(file["variance"]), file["levels"], file["errors"])
            if "gaussian_mean" not in file:
                return table, None
            return table, Gaussian(file["gaussian_mean"], file["gaussian_power"])
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as wrong:
        bad = BadFileError(f"{os.fspath(path)}: holds no table of Prior.save's ({wrong})".splitlines()[0])
        bad.path = os.fspath(path)
        raise bad from wrong


def _split(
    denoise: Callable[..., Any],
    gaussian: Gaussian | None,
    largest: float,
    x: NDArray[np.float32],
    sigma: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Each image by the denoiser if it knows its level, else by the Gaussian."""
    known = sigma <= largest
    out = np.empty_like(x)
    if known.any():
        out[known] = denoise(np.ascontiguousarray(x[known]), sigma[known])
    if not known.all():
        if gaussian is None:
            level = sigma[~known].max()
            raise UsageError(f"sigma is {level:g}, above largest = {largest:g}: calibrate finds what stands in there")
        out[~known] = _above(denoise, gaussian, largest, x[~known], sigma[~known])
    return out


#: Up to so many times its largest level a denoiser brings the Gaussian's image nearer, and up to so many times in this many steps.
FAR, NEAR, STEPS = 6.0, 3.5, 2


def _above(
    denoise: Callable[..., Any],
    gaussian: Gaussian,
    largest: float,
    x: NDArray[np.float32],
    sigma: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Images with more noise than the denoiser knows.

    x is u with noise of variance sigma² − largest², and u a clean image with noise of its largest level. The Gaussian guesses u;
    what the denoiser makes of u, and x, say better where u lies.
    """
    level = np.full(len(x), largest)
    u = gaussian.denoise(x, sigma)
    near, not_far = sigma <= NEAR * largest, sigma <= FAR * largest
    if near.any():
        rest = (sigma[near] ** 2 - largest**2).reshape(-1, 1, 1, 1)
        for _ in range(STEPS):
            clean = _arrays.as_numpy(denoise(np.ascontiguousarray(u[near]), level[near]), "images")
            u[near] = (rest * clean + largest**2 * x[near]) / (rest + largest**2)
    if not_far.any():
        u[not_far] = denoise(np.ascontiguousarray(u[not_far]), level[not_far])
    return u


#: A denoiser this much worse than shrinking to the mean does not know its level, or the images are not its kind.
MUCH = 1.25


def _warn_of_range(table: Table, largest: float) -> None:
    """Says it where a denoiser does not know the noise that turbo begins with, about the images' deviation."""
    _, variance, levels, errors = table
    level, error = np.asarray(levels), np.asarray(errors)
    shrunk = variance * level**2 / (variance + level**2)
    worse = level[error > MUCH * shrunk]
    end = worse[0] if worse.size else level[-1] if level[-1] < 0.99 * largest else np.inf
    if end < 2 * np.sqrt(variance):
        warnings.warn(
            f"from sigma = {end:.2g} on it denoises worse than shrinking to the mean image, or no better than at less noise; the "
            f"images' deviation is {np.sqrt(variance):.2g}: if it was made for small noise, say how small by largest=",
            stacklevel=3,
        )


def prior_of(prior: Prior | str | os.PathLike[str] | None, shape: tuple[int, int, int] | None = None, n: int | None = None) -> Prior:
    """A prior by whatever names it, for images of a shape where that is known, or of so many pixels."""
    if isinstance(prior, Prior):
        return prior
    if prior is None:
        prior = _chosen(shape, n)
    if not isinstance(prior, (str, os.PathLike)):
        raise TypeError(
            f"prior is {type(prior).__name__}: a Prior, a file or one of {', '.join(BUILTIN)} is needed; Prior.from_torch and "
            "Prior.from_callable make one"
        )
    # A folder of one's data is called mnist too: as a file it is ./mnist.
    is_file = prior not in BUILTIN and os.path.exists(prior)
    known = Prior.load(prior) if is_file else Prior.builtin(os.fspath(prior))
    # Convolutions serve any size. What was trained on digits alone does not, and its name is refused as the command refuses it.
    if shape is None or shape == known.shape or shape[0] != known.shape[0] or prior == "mnist":
        return known
    return Prior.load(prior, shape) if is_file else Prior.builtin(os.fspath(prior), shape)


def _chosen(shape: tuple[int, int, int] | None, n: int | None) -> str:
    """The prior that comes with the package for such images."""
    if shape == (1, 28, 28) or (shape is None and n == 28 * 28):
        return "mnist"
    if shape is not None and shape[0] == 3:
        return "photo"
    what = f"{n} pixels" if shape is None else "×".join(map(str, shape))
    say = "; shape=(C, H, W) says which they are" if shape is None else ""
    raise UsageError(f"no prior comes with the package for images of {what}: there are mnist for 1×28×28 and photo for 3×H×W{say}")

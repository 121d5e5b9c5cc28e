"""What comes of a reconstruction."""

from __future__ import annotations

import base64
import json
import os
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from . import _arrays, _qcs
from ._errors import BadFileError


@dataclass(repr=False)
class Result:
    """Images, and what is known of their errors.

    Arrays are NumPy's, float32, unless the measurements were torch tensors. B images of shape C, H, W; measurements without a
    first axis give images without it.
    """

    #: Posterior means, ``[B, C, H, W]``. With ``method="ep"`` or ``"diag"`` and one chain this is one sample.
    mean: Any
    #: Posterior samples, ``[B, chains, C, H, W]``.
    samples: Any
    #: Posterior standard deviation of each pixel, with several chains.
    std: Any
    #: Root mean squared error that the method expects of each mean, ``[B]``; turbo alone knows it.
    predicted_error: NDArray[np.float64] | None
    #: Evaluations of the denoiser for each image, ``[B]``.
    evaluations: NDArray[np.int64]
    #: By name, a value for each image: ``consistency`` always, ``psnr`` in dB and ``ssim`` where the truth is known.
    metrics: dict[str, NDArray[np.float64]]
    #: The chains that left the range of images: image, chain, level and step of each. They are in no mean.
    diverged: list[dict[str, Any]]
    #: The method's key.
    method: str
    #: Every setting that it ran with.
    settings: dict[str, Any]
    #: What was said of how the run was set up.
    notes: list[str]
    #: Seconds that it computed.
    seconds: float
    #: The images that were measured, where they are known.
    truth: Any = None
    #: Whether chains are spread as they should be, with several chains and a truth: ``coverage`` says it in short.
    calibration: dict[str, Any] | None = field(default=None)

    @property
    def psnr(self) -> float | None:
        """The mean PSNR in dB, where the truth is known."""
        values = self.metrics.get("psnr")
        return None if values is None else float(np.nanmean(values))

    def coverage(self) -> dict[float, float]:
        """Of each central interval of the samples, the share of pixels whose truth lies in it: equal for true posterior samples.

        Pixels that all samples agree on do not count. Empty without several chains and a truth.
        """
        if self.calibration is None:
            return {}
        return {row["interval"]: row["held"] for row in self.calibration["coverage"]}

    def summary(self) -> str:
        """What there is to say, in one line."""
        count = len(self.evaluations)
        words = [f"{self.method}: {count} image{'s' * (count > 1)}"]
        for name, unit, digits in (("psnr", " dB", 2), ("ssim", "", 3)):
            if name in self.metrics:
                words.append(f"{name.upper()} {np.nanmean(self.metrics[name]):.{digits}f}{unit}")
        if self.predicted_error is not None:
            words.append(f"predicted error {np.mean(self.predicted_error):.3f}")
        words.append(f"{np.mean(self.evaluations):.0f} evaluations")
        words.append(f"{self.seconds:.1f} s")
        if self.diverged:
            words.append(f"{len(self.diverged)} chains diverged")
        return ", ".join(words)

    def __repr__(self) -> str:
        return f"Result({self.summary()})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = _arrays.as_numpy(self.mean, "mean")
        return np.array(array, dtype=dtype, copy=True) if copy else np.asarray(array, dtype=dtype)

    def picture(self, count: int = 10) -> NDArray[np.uint8]:
        """Truth, reconstruction and deviation of the first images as one picture, ``[H, W, 3]``."""
        mean = _batched(self.mean)[:count]
        series: list[tuple[str, NDArray[np.float32], list[str] | None, bool]] = []
        if self.truth is not None:
            series.append(("Truth", _batched(self.truth)[:count], None, False))
        series.append((self.method, mean, self._captions(len(mean)), False))
        if self.std is not None:
            series.append(("Deviation", _batched(self.std)[:count], None, True))
        return _qcs.picture(series)

    def _captions(self, count: int) -> list[str] | None:
        psnr, error = self.metrics.get("psnr"), self.predicted_error
        if psnr is not None:
            return [f"{value:.1f} dB" for value in psnr[:count]]
        return None if error is None else [f"±{value:.3f}" for value in error[:count]]

    def _repr_html_(self) -> str:
        channels = _batched(self.mean).shape[1]
        if channels not in (1, 3):
            return f"<p>{self.summary()}</p>"
        data = base64.b64encode(_png(self.picture())).decode()
        return f'<p>{self.summary()}</p><img style="max-width:100%" src="data:image/png;base64,{data}">'

    def plot(self, count: int = 10) -> Any:
        """The picture as a matplotlib figure."""
        import matplotlib.pyplot as plt

        picture = self.picture(count)
        figure, axes = plt.subplots(figsize=(picture.shape[1] / 100, picture.shape[0] / 100))
        axes.imshow(picture)
        axes.set_axis_off()
        figure.tight_layout(pad=0)
        return figure

    @classmethod
    def load(cls, folder: str | os.PathLike[str], method: str | None = None) -> Result:
        """What a run left in its folder, from Python with ``out=`` or by ``qcs run --out``.

        method: which, where the run has several.
        """
        folder = os.fspath(folder)

        def at(*names: str) -> str:
            return os.path.join(folder, *names)

        with open(at("metrics.json"), encoding="utf-8") as file:
            report = json.load(file)
        ran = {row["method"]: row for row in report["methods"]}
        method = method or next(iter(ran))
        if method not in ran:
            raise BadFileError(f"{folder} holds no run of {method!r}: there are {', '.join(ran)}")
        rows = [row for row in report["images"] if row["method"] == method]
        samples = np.load(at(method, "samples.npy"))
        several = samples.shape[1] > 1
        calibration = [row for row in report.get("calibration", []) if row["method"] == method]
        return cls(
            mean=np.load(at(method, "mean.npy")) if several else samples[:, 0],
            samples=samples,
            std=np.load(at(method, "std.npy")) if several else None,
            truth=np.load(at("truth.npy")) if os.path.exists(at("truth.npy")) else None,
            method=method,
            settings={},
            notes=[],
            diverged=[row for row in report.get("diverged", []) if row["method"] == method],
            seconds=ran[method].get("seconds") or 0.0,
            calibration=calibration[0] if calibration else None,
            **tables(rows),
        )


class Picture:
    """Images side by side, which a notebook shows; ``pixels`` is ``[H, W, 3]`` of bytes."""

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        self.pixels = pixels

    def _repr_png_(self) -> bytes:
        return _png(self.pixels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as a PNG file."""
        with open(path, "wb") as file:
            file.write(_png(self.pixels))

    def __repr__(self) -> str:
        height, width, _ = self.pixels.shape
        return f"Picture({width} by {height})"


def show(images: Any, count: int = 10) -> Picture:
    """Images as one picture: ``[B, C, H, W]`` in a row, or a row for each of a dictionary, by its name. NumPy or torch.

    >>> import qcs
    >>> qcs.show({"truth": qcs.digits()})._repr_png_()[1:4]
    b'PNG'
    """
    rows = images if isinstance(images, dict) else {"": images}
    series: list[tuple[str, NDArray[np.float32], list[str] | None, bool]] = []
    for name, row in rows.items():
        series.append((str(name), _batched(row)[:count], None, False))
    return Picture(_qcs.picture(series))


def tables(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of the metrics of images."""

    def column(name: str) -> NDArray[np.float64] | None:
        # JSON has no infinity: an image that equals the truth says so.
        values = [np.inf if name == "psnr" and row.get("exact") else row.get(name) for row in rows]
        if all(value is None for value in values):
            return None
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    metrics = {name: column(name) for name in ("psnr", "ssim", "consistency")}
    evaluations = [row.get("evaluations") or 0 for row in rows]
    return {
        "metrics": {name: values for name, values in metrics.items() if values is not None},
        "predicted_error": column("predicted_error"),
        "evaluations": np.array(evaluations, dtype=np.int64),
    }


def result_of(
    found: dict[str, Any], truth: NDArray[np.float32] | None, single: bool, back: Callable[[NDArray[Any]], Any]
) -> Result:
    """The result of a run in memory. single: the measurements came without a first axis. back: to the caller's kind of array."""

    def of(array: NDArray[Any] | None) -> Any:
        return None if array is None else back(array[0] if single else array)

    return Result(
        mean=of(found["mean"]),
        samples=of(found["samples"]),
        std=of(found["std"]),
        truth=of(truth),
        method=found["method"],
        settings=json.loads(found["settings"]),
        notes=found["notes"],
        diverged=json.loads(found["diverged"]),
        seconds=found["seconds"],
        calibration=json.loads(found["calibration"]),
        **tables(json.loads(found["metrics"])),
    )


def _batched(x: Any) -> NDArray[np.float32]:
    array = _arrays.as_numpy(x, "images")
    return np.ascontiguousarray(array.reshape((-1, *array.shape[-3:])), dtype=np.float32)


def _png(picture: NDArray[np.uint8]) -> bytes:
    """An RGB picture as a PNG file."""
    height, width, _ = picture.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body

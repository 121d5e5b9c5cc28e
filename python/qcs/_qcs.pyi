# The native module. Everything in it is for the package itself: its arguments are checked there.

from collections.abc import Callable
from typing import Any, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Prior",
    "Problem",
    "bundled_images",
    "check_quantizer",
    "command",
    "likelihood_score",
    "load_images",
    "methods",
    "picture",
    "reconstruct",
    "run_in_folder",
    "sample",
    "use_threads",
]

_Bits = tuple[int, float | None]
_Table = tuple[list[float], float, list[float], list[float]]
_Settings = list[tuple[str, str]]
_Path = str

class _Options(TypedDict):
    method: str
    settings: _Settings
    chains: int
    seed: int
    images: tuple[int, int] | None
    batch: int
    device: str
    precision: str | None
    threads: int
    watch: Callable[..., Any] | None

@final
class Problem:
    @staticmethod
    def from_cells(
        a: NDArray[Any],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        sigma: float,
        shape: list[int] | None = None,
        truth: NDArray[np.float32] | None = None,
        quantizer: _Bits | None = None,
    ) -> Problem: ...
    @staticmethod
    def simulate(
        images: NDArray[np.float32],
        a: NDArray[Any],
        bits: int,
        step: float | None,
        sigma: float,
        mean_square: float | None,
        seed: int,
    ) -> Problem: ...
    @staticmethod
    def measure(images: NDArray[np.float32], settings: _Settings) -> Problem: ...
    @staticmethod
    def load(path: _Path) -> Problem: ...
    def save(self, path: _Path) -> None: ...
    def with_cells(
        self,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        sigma: float,
        shape: list[int] | None = None,
        truth: NDArray[np.float32] | None = None,
        quantizer: _Bits | None = None,
    ) -> Problem: ...
    def factorise(self) -> None: ...
    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def sigma(self) -> float: ...
    @property
    def shape(self) -> tuple[int, int, int] | None: ...
    @property
    def quantizer(self) -> _Bits | None: ...
    @property
    def lower(self) -> NDArray[np.float64]: ...
    @property
    def upper(self) -> NDArray[np.float64]: ...
    @property
    def truth(self) -> NDArray[np.float32] | None: ...
    def forward(self, x: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def adjoint(self, z: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def consistency(self, x: NDArray[np.float32]) -> list[float]: ...

@final
class Prior:
    @staticmethod
    def bundled(name: str, shape: list[int] | None = None) -> Prior: ...
    @staticmethod
    def load(path: _Path, shape: list[int] | None = None) -> Prior: ...
    @staticmethod
    def from_callable(function: Callable[..., Any], shape: list[int], name: str, table: _Table | None = None) -> Prior: ...
    def measure_errors(
        self, images: NDArray[np.float32], count: int, levels: tuple[int, float, float], device: str, threads: int
    ) -> _Table: ...
    def with_table(self, table: _Table) -> Prior: ...
    @property
    def table(self) -> _Table | None: ...
    def save(self, path: _Path) -> None: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def source(self) -> str: ...
    def describe(self) -> str: ...
    @property
    def parameters(self) -> int: ...
    @property
    def is_calibrated(self) -> bool: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    def score(self, images: NDArray[np.float32], sigma: float, device: str, threads: int) -> NDArray[np.float32]: ...

def reconstruct(problem: Problem, prior: Prior, options: _Options) -> dict[str, Any]: ...
def run_in_folder(
    out: _Path, problem: Problem, file: _Path | None, model: str, options: _Options, *, resume: bool
) -> None: ...
def sample(
    prior: Prior,
    count: int,
    settings: _Settings,
    *,
    seed: int,
    batch: int,
    device: str,
    threads: int,
    watch: Callable[..., Any] | None,
) -> tuple[NDArray[np.float32], int]: ...
def methods() -> list[tuple[str, str, str, list[tuple[str, str]]]]: ...
def use_threads(threads: int) -> None: ...
def likelihood_score(
    problem: Problem, x: NDArray[np.float32], beta: float, likelihood: str, device: str, threads: int
) -> NDArray[np.float32]: ...
def picture(series: list[tuple[str, NDArray[np.float32], list[str] | None, bool]]) -> NDArray[np.uint8]: ...
def check_quantizer(bits: int, step: float | None) -> None: ...
def command(arguments: list[str]) -> int: ...
def bundled_images(name: str) -> NDArray[np.float32]: ...
def load_images(path: _Path, first: int, count: int | None = None) -> NDArray[np.float32]: ...

"""How far a run is: a callback of yours, or a bar."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Literal, NamedTuple, Union


class Progress(NamedTuple):
    """How far a run has come."""

    #: Share of the work that is done
    fraction: float
    #: Evaluations of the denoiser so far
    evaluations: int
    #: Chains that are finished, and all of them
    done: int
    states: int
    #: What a stage is, the one that the batch is at, and how many there are: "iteration", 12, 30
    stage: str
    at: int
    of: int


#: ``None``: a bar if tqdm is installed, somebody can see it and it lasts; ``True``, ``False``; or a function that is told after
#: every step and stops the run by returning ``False``.
Watch = Union[None, bool, Callable[[Progress], Any]]

#: Shorter calls show no bar.
PATIENCE = 2.0


def watcher(progress: Watch) -> Callable[..., Any] | None:
    """What the native half calls after every step."""
    if callable(progress):
        told = progress
        return lambda *values: told(Progress(*values)) is not False
    if progress is False or (progress is None and not _is_seen()):
        return None
    return _Bar(patience=0.0 if progress else PATIENCE) if _tqdm() else None


def _is_seen() -> bool:
    return "ipykernel" in sys.modules or bool(getattr(sys.stderr, "isatty", lambda: False)())


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


class _Bar:
    def __init__(self, patience: float) -> None:
        self.begun, self.patience = time.monotonic(), patience
        self.bar: Any = None

    def __call__(self, *values: Any) -> Literal[True]:
        now = Progress(*values)
        if self.bar is None:
            if time.monotonic() - self.begun < self.patience:
                return True
            self.bar = _tqdm()(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}", leave=False)
        self.bar.n = now.fraction
        self.bar.set_postfix_str(f"{now.stage} {now.at}/{now.of}")
        if now.fraction >= 1.0:
            self.bar.close()
        return True

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

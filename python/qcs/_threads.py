"""How many threads compute: the package's one global setting."""

from __future__ import annotations

import os

from . import _qcs
from ._errors import UsageError

_threads = 0


def set_num_threads(threads: int) -> None:
    """Computes with so many threads from now on; 0 is one to each core. It never changes results.

    The environment's ``QCS_NUM_THREADS`` says it before the first line runs.
    """
    global _threads
    if threads < 0:
        raise UsageError(f"threads must be 0 or more, not {threads}")
    _qcs.use_threads(threads)
    _threads = threads


def get_num_threads() -> int:
    """The number that was set; 0 is one to each core."""
    return _threads


_wished = os.environ.get("QCS_NUM_THREADS", "")
if _wished.isdecimal():
    _threads = int(_wished)

"""The command ``qcs``: the same program that ``cargo install`` makes."""

from __future__ import annotations

import sys

from . import _qcs


def main() -> int:
    """Runs the command line and gives its exit code."""
    return _qcs.command(["qcs", *sys.argv[1:]])

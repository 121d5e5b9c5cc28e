"""What the documentation shows runs, and the stubs are those of the native module."""

import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest

import qcs

HERE = pathlib.Path(__file__).resolve().parent.parent
MODULES = [name for _, name, _ in pkgutil.iter_modules(qcs.__path__) if name not in ("_qcs", "deepinv", "__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_run(name):
    module = importlib.import_module(f"qcs.{name}")
    failed, _ = doctest.testmod(module, extraglobs={"np": np, "qcs": qcs})
    assert failed == 0


def test_the_lines_of_the_readme_run(tmp_path):
    text = (HERE / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    *lines, last = code.strip().splitlines()
    program = "\n".join([*lines, f"print({last.split('#')[0]})"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.match(r"Result\(turbo: 10 images, PSNR 2\d\.\d\d dB", done.stdout), done.stdout


def test_the_stubs_are_those_of_the_native_module(tmp_path):
    pytest.importorskip("mypy")
    found = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "qcs._qcs", "--ignore-disjoint-bases"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert found.returncode == 0, found.stdout + found.stderr

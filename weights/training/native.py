"""C and C++ beside the Python: compiled when first used, with the machine's compiler, for its CPU."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path


def compiled(name, compilers, *flags):
    """The library made of this source file, or None where there is no compiler that takes it."""
    compiler = next(filter(None, map(shutil.which, compilers)), None)
    if not compiler:
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "library.so"
        command = [compiler, "-march=native", "-shared", "-fPIC", *flags, str(Path(__file__).with_name(name)), "-o", str(target)]
        return ctypes.CDLL(str(target)) if subprocess.run(command).returncode == 0 else None

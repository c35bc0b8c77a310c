"""Loops in C++ that yardsticks run: compiled for this machine when a bench asks for them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

from . import CannotRun

_FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def library(source: str, path: Path, *flags: str) -> ctypes.CDLL:
    """Return the library of a C++ source, built at `path` unless it is there.

    Raises: CannotRun without a C++ compiler.
    """
    if not path.exists():
        if (compiler := shutil.which("g++") or shutil.which("c++")) is None:
            raise CannotRun("no C++ compiler to build the loop with")
        command = [compiler, *_FLAGS, *flags, "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=source.encode(), check=True)
    return ctypes.CDLL(str(path))

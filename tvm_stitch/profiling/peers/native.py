"""Loops in C++ that yardsticks run: compiled for this machine when a bench asks for them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

from ..peer import CannotRun

_FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def library(source: str, path: Path, *flags: str) -> ctypes.CDLL:
    """Return the library of a C++ source, built at `path` unless it is there.

    Raises: CannotRun without a C++ compiler.
    """
    if not path.exists():
        if (compiler := shutil.which("g++") or shutil.which("c++")) is None:
            raise CannotRun("no C++ compiler to build the loop with")
        # A worker whose time is up is ended while it builds: the next one must not load a part.
        part = path.with_suffix(f".{os.getpid()}")
        command = [compiler, *_FLAGS, *flags, "-x", "c++", "-", "-o", str(part)]
        subprocess.run(command, input=source.encode(), check=True)
        part.replace(path)
    return ctypes.CDLL(str(path))

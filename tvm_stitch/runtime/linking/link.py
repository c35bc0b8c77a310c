"""Linking a compiled model and its runtime half (native/*.cc) into one shared library."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tvm_ffi import libinfo

from tvm_stitch.errors import StitchError

_SOURCES = Path(__file__).parents[1] / "native"


def find_compiler() -> str:
    """Return the C++ compiler to call: $CXX, or the first usual name on the path.

    Raises: StitchError if there is none.
    """
    named = os.environ.get("CXX")
    for name in [named] if named else ["g++", "clang++", "c++"]:
        if found := shutil.which(name):
            return found
    raise StitchError(
        f"C++ compiler {named or 'g++'}",
        "not found, and a model's library is linked with one",
        "install g++ or set CXX",
    )


def link(executable: Any, library: Path, kernels: Sequence[Path] = ()) -> None:
    """Write the shared library of a `tvm.compile` result, with our runtime half in it.

    `kernels` are objects of kernels that were built apart from it.
    """
    objects = [str(path) for path in (*native_objects(), *kernels)]
    executable.export_library(str(library), fcompile=_link_shared, addons=objects)


def _link_shared(library: str, objects: list[str], options: Sequence[str] = ()) -> None:
    """Link what TVM wrote: objects, and C source (with `options`) for a model without kernels."""
    ffi = Path(libinfo.find_libtvm_ffi())
    # By its soname the loader finds the libtvm_ffi that is already in the process.
    arguments = [*options, "-shared", "-fPIC", "-o", library, *objects, str(ffi)]
    call_compiler(*arguments, "-ldl", "-lpthread")


@functools.cache
def native_objects() -> tuple[Path, ...]:
    """Compile native/*.cc once in this process, all at a time."""
    folder = Path(tempfile.mkdtemp(prefix="tvm-stitch-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = ["-std=c++17", "-O2", "-fPIC", "-fvisibility-inlines-hidden"]
    includes = [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]

    def compiled(source: Path) -> Path:
        made = folder / f"{source.stem}.o"
        call_compiler(*flags, *includes, "-c", str(source), "-o", str(made))
        return made

    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(compiled, sorted(_SOURCES.glob("*.cc"))))


def call_compiler(*arguments: str) -> None:
    """Raises: RuntimeError with what the C++ compiler said, StitchError if there is none."""
    compiler = find_compiler()
    done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{compiler} {' '.join(arguments)} failed:\n{done.stderr}")

"""TVM's CUDA runtime in this process, and the GPU of it, if there is one.

TVM loads its CUDA runtime only where the loader finds libcuda.so.1, which comes with the driver,
and libcudart.so.13; elsewhere it has no module for machine code, and would write CUDA C++ into a
model's file. Building needs neither: without a driver, functions that all fail stand in for it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tvm
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.linking.link import call_compiler

from .cuda_toolkit import find_toolkit, wheel_folders

_MODULE = "ffi.Module.create.cuda"
_RUNTIME, _CUDART, _DRIVER = "libtvm_runtime_cuda.so", "libcudart.so.13", "libcuda.so.1"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


@functools.cache
def load_runtime() -> None:
    """Load TVM's CUDA runtime. Raises: StitchError if CUDA's own is not installed."""
    if tvm_ffi.get_global_func(_MODULE, allow_missing=True) is not None:
        return
    _load_cudart()
    library = _tvm_runtime()
    try:
        ctypes.CDLL(_DRIVER, ctypes.RTLD_GLOBAL)
    except OSError:
        _load_stand_in(library)
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def _tvm_runtime() -> Path:
    (home,) = importlib.util.find_spec("tvm").submodule_search_locations
    return Path(home, "lib", _RUNTIME)


def _load_cudart() -> None:
    for place in _places():
        try:
            ctypes.CDLL(str(place), ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return
    remedy = "pip install 'tvm-stitch[cuda]'"
    raise StitchError("a cuda target", f"{_CUDART} is not installed", remedy)


def _places() -> Iterator[Path]:
    yield Path(_CUDART)
    yield from (home / "lib" / _CUDART for home in wheel_folders())
    yield from (find_toolkit() / folder / _CUDART for folder in ("lib64", "lib"))


def _load_stand_in(library: Path) -> None:
    """Load functions in the place of the driver's: each says that there is no device."""
    command = ["nm", "-D", "--undefined-only", str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = re.findall(r" (cu[A-Z]\w+)$", listed, re.M)
    source = "".join(map(_stand_in, names))
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        code, made = Path(folder, "driver.cc"), Path(folder, _DRIVER)
        code.write_text(source)
        call_compiler("-shared", "-fPIC", f"-Wl,-soname,{_DRIVER}", "-o", str(made), str(code))
        ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL)  # stays when its file is gone


def _stand_in(name: str) -> str:
    if name.startswith("cuGetError"):
        text = '*text = "no CUDA driver"; return 0;'
        return f'extern "C" int {name}(int, const char** text) {{ {text} }}\n'
    return f'extern "C" int {name}() {{ return {_NO_DEVICE}; }}\n'


def gpu(arch: str) -> tvm.runtime.Device:
    """Return the first GPU. Raises: StitchError if there is none, or one of another arch."""
    own, given = own_arch(), f"a model for {arch}"
    if own is None:
        raise StitchError(given, "no CUDA device or driver here", "run it where one is")
    if own != arch:
        raise StitchError(given, f"this machine's GPU is {own}", f"compile for cuda:{own}")
    return tvm.cuda(0)


def own_arch() -> str | None:
    """Return the arch of the first GPU, such as "sm_90", None if there is none."""
    try:
        load_runtime()
    except StitchError:
        return None
    device = tvm.cuda(0)
    return f"sm_{device.compute_version.replace('.', '')}" if device.exist else None

"""nvcc, from its wheels or from an installed toolkit: CUDA C++ to machine code, without a GPU."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import tvm_ffi

from tvm_stitch.errors import StitchError

_CALLBACK = "tvm_callback_cuda_compile"  # TVM's code generation calls it with CUDA C++
_WHEELS = "cu13"
# At its own level, 5 of 10, ptxas spills an attention kernel to 96 registers of 255.
OPTIONS = ("-Xptxas", "--register-usage-level=10")


def find_toolkit() -> Path:
    """Return the folder of a CUDA toolkit: of nvcc's wheels, $CUDA_PATH, or nvcc on the path.

    Raises: StitchError if there is none.
    """
    for home in _homes():
        if (home / "bin" / "nvcc").exists():
            return home
    raise StitchError(
        "a cuda target", "nvcc is not installed", "pip install 'tvm-stitch[cuda]' or set CUDA_PATH"
    )


def _homes() -> Iterator[Path]:
    yield from wheel_folders()
    if named := os.environ.get("CUDA_PATH"):
        yield Path(named)
    if found := shutil.which("nvcc"):
        yield Path(found).resolve().parents[1]


def wheel_folders() -> list[Path]:
    """Return where NVIDIA's wheels are installed, none if they are not."""
    found = importlib.util.find_spec("nvidia")
    places = [] if found is None else list(found.submodule_search_locations or ())
    return [Path(place, _WHEELS) for place in places if Path(place, _WHEELS).is_dir()]


def fat_binary(source: str, arch: str) -> bytes:
    """Return the machine code of CUDA C++ for a GPU such as "sm_90", and its PTX.

    Raises: StitchError without nvcc, RuntimeError with what nvcc says if it refuses.
    """
    home = find_toolkit()
    number = arch.removeprefix("sm_")
    tools = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        code, made = Path(folder, "kernels.cu"), Path(folder, "kernels.fatbin")
        code.write_text(source)
        options = ["-fatbin", "-O3", "-w", *OPTIONS, f"-I{home / 'include'}", "-gencode"]
        codes = f"arch=compute_{number},code=[sm_{number},compute_{number}]"
        command = [str(home / "bin" / "nvcc"), *options, codes, "-o", str(made), str(code)]
        done = subprocess.run(command, capture_output=True, text=True, env=tools, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        return made.read_bytes()


@contextlib.contextmanager
def compiling(compiled: Callable[[str], bytes]) -> Iterator[None]:
    """Let TVM make machine code of its CUDA C++ by a function in this context."""
    before = tvm_ffi.get_global_func(_CALLBACK, allow_missing=True)
    tvm_ffi.register_global_func(_CALLBACK, compiled, override=True)
    try:
        yield
    finally:
        if before is None:
            tvm_ffi.remove_global_func(_CALLBACK)
        else:
            tvm_ffi.register_global_func(_CALLBACK, before, override=True)

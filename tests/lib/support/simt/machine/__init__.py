"""This process as one with a GPU, whose kernels are run by fibers: TVM's own CUDA runtime on it.

    install()
    tvm_stitch.compile(model, "cuda").run(inputs)

For a process of its own: libraries in the place of CUDA's stay until it ends.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import shutil
import tempfile
from pathlib import Path

from support.simt.simulator import build
from support.simt.source import kernel_of, kernels_apart
from tvm_stitch.runtime import cuda_toolkit
from tvm_stitch.runtime.linking import link

_HERE = Path(__file__).parent
_LIBRARIES = {"memory.cc": "libcudart.so.13", "driver.cc": "libcuda.so.1"}


def install(folder: Path | None = None) -> None:
    """Let TVM find a GPU of sm_90, and nvcc make libraries of kernels for it.

    They are in `folder`, where another process finds those of a model's file, or else in one that
    is removed at the end.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="tvm-stitch-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for source, soname in _LIBRARIES.items():
        options = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{soname}"]
        if source == "memory.cc":
            versions = folder / "versions"
            versions.write_text(f"{soname} {{ global: *; }};\n")
            options.append(f"-Wl,--version-script={versions}")
        link.call_compiler(*options, str(_HERE / source), "-o", str(folder / soname))
        ctypes.CDLL(str(folder / soname), ctypes.RTLD_GLOBAL)
    cuda_toolkit.find_toolkit = lambda: folder  # nothing of it is asked for
    cuda_toolkit.fat_binary = lambda source, arch: _image(source, folder)


def launched() -> int:
    """Return how many kernels this process has launched."""
    return ctypes.CDLL("libcuda.so.1").simt_launches()


def replayed() -> int:
    """Return how many graphs of kernels this process has launched."""
    return ctypes.CDLL("libcuda.so.1").simt_replays()


def waited() -> int:
    """Return the stream that this process waited for last, 0 if for none since the last time."""
    function = ctypes.CDLL("libcudart.so.13").simt_waited
    function.restype = ctypes.c_void_p
    return function() or 0


def limit_memory(nbytes: int) -> None:
    """Let the GPU have no more memory than so much."""
    ctypes.CDLL("libcudart.so.13").simt_limit(ctypes.c_size_t(nbytes))


def _image(source: str, folder: Path) -> bytes:
    lines = []
    for each in kernels_apart(source):
        name, parameters = kernel_of(each)
        library = folder / f"{hashlib.sha256(each.encode()).hexdigest()[:24]}.so"
        build(each, library)
        lines.append(f"{name} {library} {len(parameters)}")
    return "\n".join(lines).encode() + b"\0"

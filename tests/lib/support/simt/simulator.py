"""Scheduled kernels as TVM writes them in CUDA C++, compiled for this CPU and run by fibers.

A missing barrier, a race through shared memory, or an element that nobody writes is a wrong number:
blocks and threads go in an order that the seed draws, shared memory and results begin as NaN.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from tvm_stitch.runtime import cuda_toolkit
from tvm_stitch.runtime.linking import link

from .source import kernel_of, kernels_apart, translated

_HERE = Path(__file__).parent
_AXES = [f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz"]
_BARRIER = "__syncthreads();"
_OPTIONS = (
    *("-std=c++17", "-O1", "-w", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off"),
    *(f"-I{_HERE}", f"-I{_HERE / 'toolkit'}"),
)


class SimulationError(Exception):
    """Threads that never meet, or an access outside of an array; the message says where."""


class Counts(ctypes.Structure):
    """What warps asked of an array: requests, and the sectors of 32 bytes that they moved.

    Of shared memory the turns that its banks took. `least_*` are those of lanes side by side.
    """

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("loads", "stores", "loaded", "stored", "least_loaded", "least_stored")
    ]


@dataclass(frozen=True)
class Simulated:
    """One kernel of CUDA C++, how it is launched, and the buffers it takes by their names."""

    source: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    buffers: tuple[str, ...]

    def run(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        seed: int,
        counting: bool = False,
    ) -> None:
        """Write `outputs`, which begin as NaN, of a PrimFunc's parameters in their order.

        Raises: SimulationError.
        """
        for array in outputs:
            array.reshape(-1).view(np.uint8)[...] = 0xFF
        given = dict(zip(self.buffers, (*inputs, *outputs), strict=True))
        self.launch(given, seed, counting)

    def launch(self, given: Mapping[str, np.ndarray], seed: int, counting: bool) -> None:
        """Run the kernel on arrays by their names. Raises: SimulationError."""
        arrays = [given[name.removesuffix("_ptr")] for _, name in kernel_of(self.source)[1]]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        counts = (ctypes.c_size_t * len(arrays))(*(array.size for array in arrays))
        sizes = [(ctypes.c_uint * 3)(*size) for size in (self.grid, self.threads)]
        run = _built(self.source).simt_run
        failed = run(pointers, counts, *sizes, ctypes.c_uint(seed), ctypes.c_bool(counting))
        if failed is not None:
            raise SimulationError(failed.decode())

    def counts(self, name: str) -> Counts:
        """Return what the last run that was counting asked of an array. Raises: KeyError."""
        found = Counts()
        if not _built(self.source).simt_counts(name.encode(), ctypes.byref(found)):
            raise KeyError(name)
        return found

    def without_barrier(self, number: int) -> Simulated:
        """Return the kernel without one of its barriers. Raises: IndexError if it has fewer."""
        at = [found.start() for found in re.finditer(re.escape(_BARRIER), self.source)][number]
        rest = self.source[at + len(_BARRIER) :]
        return replace(self, source=self.source[:at] + rest)

    @property
    def barriers(self) -> int:
        return self.source.count(_BARRIER)


@functools.lru_cache(maxsize=64)
def _built(source: str) -> ctypes.CDLL:
    """Return the library of a kernel; its file is gone once it is loaded."""
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        library = Path(folder, "kernel.so")
        build(source, library)
        loaded = ctypes.CDLL(str(library))
    loaded.simt_run.restype = ctypes.c_char_p
    loaded.simt_counts.restype = ctypes.c_bool
    return loaded


def build(source: str, library: Path) -> None:
    """Write the library that runs the one kernel of some CUDA C++."""
    code = library.with_suffix(".cc")
    code.write_text(translated(source))
    objects = [str(each) for each in _scheduler().glob("*.o")]
    link.call_compiler(*_OPTIONS, "-shared", str(code), *objects, "-o", str(library))


@functools.cache
def _scheduler() -> Path:
    """Return the folder of what all kernels' libraries have, compiled once; it goes at the end."""
    folder = Path(tempfile.mkdtemp(prefix="tvm-stitch-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for source in sorted(_HERE.glob("*.cc")):
        made = folder / f"{source.stem}.o"
        link.call_compiler(*_OPTIONS, "-c", str(source), "-o", str(made))
    return folder


@dataclass(frozen=True)
class Launches:
    """The kernels of a PrimFunc in order, and the arrays between them: elements and dtypes."""

    kernels: tuple[Simulated, ...]
    buffers: tuple[str, ...]
    between: dict[str, tuple[int, str]]

    def run(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        seed: int,
        counting: bool = False,
    ) -> None:
        """Write `outputs` of a PrimFunc's parameters in their order. Raises: SimulationError."""
        arrays = dict(zip(self.buffers, (*inputs, *outputs), strict=True))
        fresh = {name: np.empty(n, dtype) for name, (n, dtype) in self.between.items()}
        for array in (*outputs, *fresh.values()):
            array.reshape(-1).view(np.uint8)[...] = 0xFF
        for number, kernel in enumerate(self.kernels):
            kernel.launch({**arrays, **fresh}, seed + number, counting)

    def without_barrier(self, number: int) -> Launches:
        """Return the same without one barrier of the only kernel. Raises: IndexError."""
        (kernel,) = self.kernels
        return replace(self, kernels=(kernel.without_barrier(number),))


def launches(func: tirx.PrimFunc, arch: str = "sm_90") -> Launches:
    """Return the kernels that a PrimFunc becomes, one for each loop over blocks."""
    made = _device_source(func, arch)
    grids = _launches_of(func)
    names = tuple(param.name for param in func.params)
    pairs = zip(kernels_apart(made), grids, strict=True)
    kernels = tuple(
        Simulated(source, tuple(sizes[:3]), tuple(sizes[3:]), names) for source, sizes in pairs
    )
    return Launches(kernels, names, _allocated(func))


def simulated(func: tirx.PrimFunc, arch: str = "sm_90") -> Simulated:
    """Return the one kernel that a PrimFunc, whose loops are bound to threads, becomes."""
    (kernel,) = launches(func, arch).kernels
    return kernel


def _device_source(func: tirx.PrimFunc, arch: str) -> str:
    target = Target({"kind": "cuda", "arch": arch}, host={"kind": "llvm"})
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    # Where TVM's CUDA runtime is loaded it asks for machine code, which nobody runs here.
    with target, cuda_toolkit.compiling(lambda source: b""):
        made = tvm.compile(mod, target=target)
    (device,) = made.mod.imports
    return device.inspect_source()


def _launches_of(func: tirx.PrimFunc) -> list[list[int]]:
    """Return the extents of the axes of blocks and threads, launch by launch."""
    loops = _bound(func.body)
    inner = [other for loop in loops for other in _bound(loop.body)]
    outermost = [loop for loop in loops if not any(loop.same_as(other) for other in inner)]
    found = []
    for loop in outermost:
        sizes = {str(each.thread_binding.thread_tag): int(each.extent) for each in _bound(loop)}
        found.append([sizes.get(axis, 1) for axis in _AXES])
    return found


def _bound(stmt: tirx.Stmt) -> list[tirx.For]:
    """Return the loops in a statement that are bound to axes of blocks or threads."""
    found: list[tirx.For] = []

    def visit(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            found.append(loop)

    tvm_ffi.structural_walk(stmt, (tirx.For, visit))
    return found


def _allocated(func: tirx.PrimFunc) -> dict[str, tuple[int, str]]:
    """Return the arrays of device memory that a PrimFunc allocates."""
    found: dict[str, tuple[int, str]] = {}

    def visit(stmt: tirx.AllocBuffer) -> None:
        kind = stmt.buffer.ty
        if str(tirx.buffer_data(stmt.buffer).ty.storage_scope) in ("", "global"):
            found[stmt.buffer.name] = int(kind.shape[0]), str(kind.dtype.dtype)

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, visit))
    return found

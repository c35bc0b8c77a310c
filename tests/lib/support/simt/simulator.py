"""Scheduled kernels as TVM writes them in CUDA C++, compiled for this CPU and run by fibers.

A missing barrier, a race through shared memory, or an element that nobody writes is a wrong number:
blocks and threads go in an order that the seed draws, shared memory and results begin as NaN.
"""

from __future__ import annotations

import ctypes
import functools
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from tvm_stitch.runtime import link

_HERE = Path(__file__).parent
_AXES = [f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz"]
_DYNAMIC = re.compile(r"extern __shared__\s+(?:alignas\(\d+\)\s+)?([\w ]+?)\s+(\w+)\[\];")
_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(")
_BARRIER = "__syncthreads();"
_MOST_SHARED = 227 << 10  # bytes of a block: sm_90


class SimulationError(Exception):
    """Threads that never meet; the message says where."""


@dataclass(frozen=True)
class Simulated:
    """One kernel of CUDA C++, how it is launched, and the buffers it takes by their names."""

    source: str
    name: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    buffers: tuple[str, ...]

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], seed: int) -> None:
        """Write `outputs`, which begin as NaN, of a PrimFunc's parameters in their order.

        Raises: SimulationError.
        """
        for array in outputs:
            array.view(np.uint8)[...] = 0xFF
        given = dict(zip(self.buffers, (*inputs, *outputs), strict=True))
        pointers = [given[name].ctypes.data for name in self._parameters()]
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        sizes = [(ctypes.c_uint * 3)(*size) for size in (self.grid, self.threads)]
        failed = _built(self.source, self.name).simt_run(arguments, *sizes, ctypes.c_uint(seed))
        if failed is not None:
            raise SimulationError(failed.decode())

    def without_barrier(self, number: int) -> Simulated:
        """Return the kernel without one of its barriers. Raises: IndexError if it has fewer."""
        at = [found.start() for found in re.finditer(re.escape(_BARRIER), self.source)][number]
        rest = self.source[at + len(_BARRIER) :]
        return replace(self, source=self.source[:at] + rest)

    @property
    def barriers(self) -> int:
        return self.source.count(_BARRIER)

    def _parameters(self) -> list[str]:
        """Return the names of the buffers that the kernel takes, in its order."""
        found = re.search(rf"\b{self.name}\(([^)]*)\)\s*\{{", self.source)
        return [each.split()[-1].removesuffix("_ptr") for each in found[1].split(",")]


@functools.lru_cache(maxsize=64)
def _built(source: str, name: str) -> ctypes.CDLL:
    """Return the library of a kernel; its file is gone once it is loaded."""
    text = re.sub(r"__shared__\s+(alignas\(\d+\))", r"\1 __shared__", source)
    dynamic = {name: kind for kind, name in _DYNAMIC.findall(text)}
    text = _DYNAMIC.sub("", text)
    arrays = [f"alignas(1024) static {k} {n}[{_MOST_SHARED}];" for n, k in dynamic.items()]
    poison = "".join(f"std::memset({n}, simt::kPoison, sizeof {n});" for n in dynamic)
    parameters = re.search(rf"\b{name}\(([^)]*)\)\s*\{{", text)[1].split(",")
    types = [each.replace("__restrict__", "").rsplit(maxsplit=1)[0] for each in parameters]
    call = ", ".join(f"({kind})args[{n}]" for n, kind in enumerate(types))
    lines = [
        '#include "simt.h"',
        *arrays,
        f"#line 1\n{text}",
        f"#define SIMT_CALL {name}({call});",
        f"#define SIMT_POISON_DYNAMIC {poison}",
        '#include "main.cc"',
    ]
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        path, library = Path(folder, "kernel.cc"), Path(folder, "kernel.so")
        path.write_text("\n".join(lines))
        options = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-fno-strict-aliasing"]
        folders = [f"-I{_HERE}", f"-I{_HERE / 'toolkit'}"]
        link.call_compiler(*options, *folders, str(path), "-o", str(library))
        loaded = ctypes.CDLL(str(library))
    loaded.simt_run.restype = ctypes.c_char_p
    return loaded


def simulated(func: tirx.PrimFunc, arch: str = "sm_90") -> Simulated:
    """Return the one kernel that a PrimFunc, whose loops are bound to threads, becomes."""
    target = Target({"kind": "cuda", "arch": arch}, host={"kind": "llvm"})
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    with target:
        made = tvm.compile(mod, target=target)
    (device,) = made.mod.imports
    source = device.inspect_source()
    (name,) = dict.fromkeys(
        re.findall(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(", source)
    )
    extents = _extents(func)
    sizes = [extents.get(axis, 1) for axis in _AXES]
    names = tuple(param.name for param in func.params)
    return Simulated(source, name, tuple(sizes[:3]), tuple(sizes[3:]), names)


def _extents(func: tirx.PrimFunc) -> dict[str, int]:
    """Return the extent of each thread axis that loops are bound to."""
    found: dict[str, int] = {}

    def visit(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            found[str(loop.thread_binding.thread_tag)] = int(loop.extent)

    tvm_ffi.structural_walk(func.body, (tirx.For, visit))
    return found

"""Objects of a model's kernels, built on all CPUs while TVM builds the rest.

TVM makes one LLVM module of all kernels, on one thread; what it calls gives Python's lock back.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext, module_pass
from tvm.target import Target

from .link import native_objects


@dataclass(frozen=True)
class LinkPolicy:
    """`objects`: of a CPU, so small that none waits long for one whose kernels take longest."""

    objects: int = 8


POLICY = LinkPolicy()


class KernelObjects:
    """What a model's library is linked with: the kernels that `taken` takes out of its module."""

    def __init__(self, target: Target, folder: Path, pool: ThreadPoolExecutor, cpus: int) -> None:
        self._target, self._folder, self._pool, self._cpus = target, folder, pool, cpus
        self._made: list[Future[Path]] = []
        self._native = pool.submit(native_objects)

        @module_pass(opt_level=0, name="BuildKernels")
        def taken(mod: IRModule, context: PassContext) -> IRModule:
            # An instrument may count on one thread.
            return mod if cpus == 1 or context.instruments else self._take(mod, context)

        self.taken = taken

    def paths(self) -> list[Path]:
        """Wait for what a library is linked with; return the objects of kernels."""
        self._native.result()
        return [each.result() for each in self._made]

    def _take(self, mod: IRModule, context: PassContext) -> IRModule:
        """Begin to build all kernels but one, and let the module name those as functions elsewhere.

        Of a module without kernels TVM makes no library, and its functions would be sought in none.
        """
        kernels = [(var, f) for var, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
        apart = kernels[1:]
        rest = IRModule(mod.functions, attrs=mod.attrs)
        for var, kernel in apart:
            rest[var] = relax.ExternFunc(str(kernel.attrs["global_symbol"]))
        count = min(len(apart), self._cpus * POLICY.objects)
        for number in range(count):  # neighbours, which are often alike, to different objects
            share = IRModule(dict(apart[number::count]), attrs=mod.attrs)
            path = self._folder / f"kernels_{number}.o"
            self._made.append(self._pool.submit(self._build, share, path, context))
        return rest

    def _build(self, share: IRModule, path: Path, context: PassContext) -> Path:
        with context:
            tvm.tirx.build(share, target=self._target).write_to_file(str(path))
        return path


@contextlib.contextmanager
def building_kernels(target: Target, cpus: int) -> Iterator[KernelObjects]:
    """Build a model's kernels on so many CPUs; the objects are gone behind the context."""
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        pool = ThreadPoolExecutor(cpus)
        try:
            yield KernelObjects(target, Path(folder), pool, cpus)
        finally:
            pool.shutdown(cancel_futures=True)

"""The operators of a model, one by one, built apart from everything that makes its kernels."""

from __future__ import annotations

import ctypes
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm.ir import IRModule

from tir_schedules.reference import reference_of
from tvm_stitch.runtime.buffers import view
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.runtime.linking.link import call_compiler
from tvm_stitch.verification.operators.cxx import (
    PRELUDE,
    Unwritable,
    array_dtype,
    write_function,
)

logger = logging.getLogger(__name__)

_FLAGS = ("-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fwrapv", "-fno-math-errno",
          "-fno-trapping-math", "-shared", "-fPIC", "-w")  # fmt: skip
Arrays = list[np.ndarray]


class Operators:
    """Runs the PrimFuncs of a module that `names` lists.

    Floats are computed in float64 (`wide`), or in the model's own dtype with each operator's result
    rounded to it, float16 and bfloat16 computed in float32 before.
    """

    def __init__(self, mod: IRModule, names: Sequence[str]) -> None:
        self._funcs = {name: reference_of(mod[name]) for name in names}
        self._libraries: dict[bool, dict[str, Callable[..., None]]] = {}
        self._unwritten: dict[str, Callable[..., None]] = {}

    def run(self, name: str, inputs: Sequence[np.ndarray], wide: bool) -> Arrays:
        """Return the results of an operator; a float input of another width is converted."""
        params = self._funcs[name].params
        dtypes = [str(param.ty.dtype.dtype) for param in params]
        shapes = [tuple(int(n) for n in param.ty.shape) for param in params]
        count = len(inputs)
        written = self._written(wide).get(name)
        if written is None:
            return self._run_unwritten(name, inputs, dtypes, shapes, wide)
        given = [
            np.ascontiguousarray(array, array_dtype(dtype, wide))
            for array, dtype in zip(inputs, dtypes[:count], strict=True)
        ]
        made = [
            np.zeros(shape, array_dtype(dtype, wide))
            for shape, dtype in zip(shapes[count:], dtypes[count:], strict=True)
        ]
        pointers = [array.ctypes.data for array in (*given, *made)]
        written((ctypes.c_void_p * len(pointers))(*pointers))
        if wide:
            return made
        return [_rounded(array, dtype) for array, dtype in zip(made, dtypes[count:], strict=True)]

    def _run_unwritten(
        self,
        name: str,
        inputs: Sequence[np.ndarray],
        dtypes: Sequence[str],
        shapes: Sequence[tuple[int, ...]],
        wide: bool,
    ) -> Arrays:
        """Run what is not written as C++ (sorts, above all) as TVM builds it, in its own dtype."""
        count = len(inputs)
        tensors = [tvm.runtime.empty(s, d) for s, d in zip(shapes, dtypes, strict=True)]
        arrays = [
            view(t, s, numpy_dtype(d)) for t, s, d in zip(tensors, shapes, dtypes, strict=True)
        ]
        for array, given in zip(arrays, inputs, strict=False):
            array[...] = given.astype(array.dtype)
        self._stock(name)(*tensors)
        made = zip(arrays[count:], dtypes[count:], strict=True)
        return [array.astype(array_dtype(dtype, wide)) for array, dtype in made]

    def _stock(self, name: str) -> Callable[..., None]:
        if name not in self._unwritten:
            func = self._funcs[name].with_attr("global_symbol", name)
            built = tvm.compile(IRModule({name: func}), tvm.target.Target("llvm"))
            self._unwritten[name] = built[name]
        return self._unwritten[name]

    def _written(self, wide: bool) -> dict[str, Callable[..., None]]:
        if wide not in self._libraries:
            self._libraries[wide] = self._compiled(wide)
        return self._libraries[wide]

    def _compiled(self, wide: bool) -> dict[str, Callable[..., None]]:
        """Return the functions that can be written as C++; their code stays in the process."""
        texts, symbols = [PRELUDE], {}
        for number, (name, func) in enumerate(self._funcs.items()):
            symbol = f"op_{number}"
            try:
                texts.append(write_function(func, symbol, wide))
            except Unwritable as reason:
                logger.info("verify: %s runs as TVM builds it: %s", name, reason)
            else:
                symbols[name] = symbol
        with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
            source, library = Path(folder) / "ops.cc", Path(folder) / "ops.so"
            source.write_text("\n".join(texts))
            call_compiler(*_FLAGS, "-o", str(library), str(source))
            loaded = ctypes.CDLL(str(library))
        return {name: getattr(loaded, symbol) for name, symbol in symbols.items()}


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    if array.dtype != np.float32 or dtype == "float32":
        return array
    with np.errstate(over="ignore"):
        return array.astype(numpy_dtype(dtype)).astype(np.float32)

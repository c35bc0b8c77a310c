"""Run each kernel of a compiled model on buffers between pages that none may touch."""

from __future__ import annotations

import faulthandler
import signal
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from support.kernels import memory
from tvm_stitch.runtime.artifact import Tensor, prepare_name
from tvm_stitch.runtime.buffers import InputSlot, as_array
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.runtime.model import Model


def out_of_bounds(model: Model, feeds: Mapping[str, np.ndarray]) -> str | None:
    """Return which kernel touches what is outside its buffers, and of which kind these were.

    Kernels run in a forked child, on what they are given in a run on `feeds`; those that prepare
    weights too. Buffers lie on multiples of their elements' size, as kernels are promised.
    """
    with tempfile.TemporaryFile("w+") as log:
        code = memory.in_child(lambda: _Guard(model, log).run(feeds))
        if code == 0:
            return None
        log.seek(0)
        last = (log.read().splitlines() or ["before any kernel"])[-1]
    if code in (-signal.SIGSEGV, -signal.SIGBUS):
        return f"{last}: touches memory outside them"
    return f"{last}: ends with {code}"


class _Guard:
    """Calls kernels on guarded copies; `log` gets a line before each call."""

    def __init__(self, model: Model, log: TextIO) -> None:
        self._model, self._log = model, log
        self._seen: set[str] = set()

    def run(self, feeds: Mapping[str, np.ndarray]) -> None:
        faulthandler.disable()  # a fault is told by the log
        self._prepare()
        self._model.watched(self._see).run(feeds)

    def _prepare(self) -> None:
        stored = self._model._library.stored
        if stored.prepared:
            arrays = [_array(weight) for weight in self._model.kernel("tvm_stitch_weights")()]
            for made, array in zip(stored.prepared, arrays[len(stored.weights) :], strict=True):
                self._call(prepare_name(made.kernel), [arrays[made.source], array])

    def _see(self, name: str, before: bool, _returned: Any, arguments: Sequence[Any]) -> None:
        if before and name not in self._seen and self._is_kernel(name):
            self._call(name, [_array(argument) for argument in arguments])

    def _is_kernel(self, name: str) -> bool:
        module = self._model._library.module
        ours = name.startswith("tvm_stitch_")
        return not ours and module.implements_function(name, query_imports=True)

    def _call(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        self._seen.add(name)
        kernel = self._model.kernel(name)
        for at_end in (True, False):
            where = "end" if at_end else "begin"
            self._log.write(f"{name}, whose buffers {where} at a guard page\n")
            self._log.flush()
            copies = [memory.guarded(array, at_end, writable=True) for array in arrays]
            slots = [InputSlot(Tensor("", copy.shape, str(copy.dtype)), None) for copy in copies]
            for slot, copy in zip(slots, copies, strict=True):
                slot.place(copy)
            kernel(*(slot.tensor for slot in slots))


def _array(tensor: Any) -> np.ndarray:
    shape = tuple(int(extent) for extent in tensor.shape)
    return np.empty(shape, numpy_dtype(str(tensor.dtype))) if 0 in shape else as_array(tensor)

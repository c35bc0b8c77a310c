"""A compiled model, ready to run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.runtime.vm import VirtualMachine

from tvm_stitch.errors import StitchError
from tvm_stitch.reports.report import Report
from tvm_stitch.runtime import artifact, cpu_features, onnx_segment
from tvm_stitch.runtime.artifact import Meta
from tvm_stitch.runtime.buffers import InputSlot, byte_offset, data_pointer, is_resident, view
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.runtime.forks import run_lock
from tvm_stitch.runtime.weights import WEIGHTS


class Model:
    """An executable; several Python threads may call it, one runs at a time.

    Inputs are passed in place where their layout allows and never written. Outputs belong to the
    caller and alias nothing. Names are the model file's own.
    """

    fetched = WEIGHTS  # what the library calls its weights

    def __init__(self, library: Any, meta: Meta, save: Callable[[Path], None]) -> None:
        """Wrap a library (`.module`, and what must live as long); `save` writes its file."""
        self.meta = meta
        self._library, self._save = library, save
        self._slots = {
            spec.name: InputSlot(spec, meta.index_bounds.get(spec.name)) for spec in meta.inputs
        }
        self._bounded = [
            (index, slot) for index, slot in enumerate(self._slots.values()) if slot.bounds
        ]
        self._tensors = [slot.tensor for slot in self._slots.values()]
        self._outputs = [(spec.name, spec.shape, numpy_dtype(spec.dtype)) for spec in meta.outputs]
        if meta.left:
            onnx_segment.register()
        self._narrow = {name: numpy_dtype(kind) for name, kind in meta.narrow.items()}
        # A VirtualMachine keeps its frames in itself: it cannot run twice at a time.
        self._lock = run_lock(self)
        self._lacking = cpu_features.missing(meta.cpu_features)
        self._home, self._weight_pointers = tvm.cpu(), frozenset()
        self._start()

    def _open(self) -> None:
        """Make ready what was not when the model was made."""

    def _start(self) -> None:
        self._machine = VirtualMachine(self._library.module, self._home)
        self._main = self._machine[self.meta.entry]
        # Some weights are made by the model's own code: now, unless this CPU cannot run it.
        if self.meta.weights and not self._lacking:
            fetch = self._library.module.get_function(self.fetched, query_imports=True)
            self._weight_pointers = frozenset(map(data_pointer, fetch()))

    @property
    def report(self) -> Report:
        """What the compiler did to the model."""
        return Report.from_json(json.dumps(self.meta.report))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on arrays by name; return fresh arrays by name.

        Raises: StitchError for a missing or unknown name, another shape or dtype, or an index out
        of range.
        """
        if inputs.keys() != self._slots.keys():
            raise self._wrong_names(inputs)
        with self._lock:
            results = self._on_arrays([self._widened(name, inputs[name]) for name in self._slots])
        found = {
            name: view(result, shape, dtype)
            for (name, shape, dtype), result in zip(self._outputs, results, strict=True)
        }
        for name in self._narrow.keys() & found.keys():
            found[name] = found[name].astype(self._narrow[name])
        return found

    def _widened(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return an input in the type of its tensor. Raises: StitchError for another type."""
        if name not in self._narrow:
            return array
        if array.dtype != self._narrow[name]:
            slot = self._slots[name]
            raise slot.refused(f"{array.dtype}{list(array.shape)}")
        return array.astype(numpy_dtype(self._slots[name].spec.dtype))

    def __call__(self, *tensors: Any) -> Any:
        """Run on CPU tensors with __dlpack__, in the inputs' order; return tensors that have it.

        A model with one output returns it alone, others return a tuple. Raises: as `run`.
        """
        if len(tensors) != len(self._slots):
            raise StitchError(
                f"{len(tensors)} tensors", "not one for each input", f"give {self._expected()}"
            )
        with self._lock:
            results = self._on_tensors(tensors)
        return results[0] if len(results) == 1 else tuple(results)

    def export(self, path: str | os.PathLike) -> None:
        """Write the model to one file; a file already there is replaced whole or not at all.

        Raises: StitchError if it cannot be written.
        """
        self._save(Path(path))

    def watched(self, see: Callable[[str, bool, Any, Sequence[Any]], None]) -> Model:
        """Return the model on another machine, which shows `see` each call before it and behind it.

        `see` takes the called function's name, whether it is yet to run, what it returned, and its
        arguments: a kernel's are what it reads, then what it writes and does not read.
        """

        def show(_called: Any, name: str, before: bool, returned: Any, *arguments: Any) -> int:
            see(str(name), bool(before), returned, arguments)
            return 0  # VMInstrumentReturnKind.NO_OP

        watched = type(self)(self._library, self.meta, self._save)
        watched._open()
        watched._machine.set_instrument(show)
        return watched

    def kernel(self, name: str) -> Callable[..., None]:
        """Return a kernel, to be called on tensors as the model's own machine does."""
        return self._library.module.get_function(name, query_imports=True)

    def run_on(self, threads: int) -> int:
        """Let each kernel run on so many threads from now on; return on how many it did.

        The number is the library's: other models of the same file change theirs too.
        """
        return self._library.module.get_function("tvm_stitch_threads", query_imports=True)(threads)

    def _on_arrays(self, arrays: Sequence[np.ndarray]) -> list[tvm_ffi.Tensor]:
        """Run on the inputs in their order; return tensors of this memory."""
        return self._invoke_placed(tuple(arrays))

    def _on_tensors(self, tensors: tuple[Any, ...]) -> list[tvm_ffi.Tensor]:
        """Run on tensors in the inputs' order; return tensors of the memory of the model."""
        if all(map(is_resident, tensors)):
            return self._invoke_resident(tensors)
        return self._invoke_placed(tensors)

    def _invoke_resident(self, tensors: tuple[tvm_ffi.Tensor, ...]) -> list[tvm_ffi.Tensor]:
        """Run on tensors as they are; the executable itself compares shapes and dtypes."""
        for index, slot in self._bounded:
            if slot.fits(tensors[index]):
                slot.check_bounds(np.from_dlpack(tensors[index]))
        try:
            return self._invoke(tensors)
        except (RuntimeError, ValueError):
            fits = all(map(InputSlot.fits, self._slots.values(), tensors))
            if fits and not any(map(byte_offset, tensors)):
                raise
            return self._invoke_placed(tensors)

    def _invoke_placed(self, tensors: tuple[Any, ...]) -> list[tvm_ffi.Tensor]:
        slots = zip(self._slots.values(), tensors, strict=True)
        # Held here, arrays outlive the kernels that read them.
        arrays = [slot.place(tensor) for slot, tensor in slots]
        results = self._invoke(self._tensors)
        del arrays
        return results

    def _invoke(self, tensors: Sequence[tvm_ffi.Tensor]) -> list[tvm_ffi.Tensor]:
        """Run on tensors of the inputs' layout; copy each output that is not new memory."""
        if self._lacking:
            artifact.check_cpu("this model", self.meta)
        returned = self._main(*tensors)
        results = [returned] if isinstance(returned, tvm_ffi.Tensor) else list(returned)
        if self.meta.new_outputs:
            return results
        taken = {data_pointer(tensor) for tensor in tensors}
        for index, result in enumerate(results):
            pointer = data_pointer(result)
            aliases = pointer in taken or pointer in self._weight_pointers
            if aliases or index in self.meta.copied_outputs:
                results[index] = result.copyto(self._home)
            taken.add(pointer)
        return results

    def _wrong_names(self, inputs: Mapping[str, np.ndarray]) -> StitchError:
        unknown = [name for name in inputs if name not in self._slots]
        absent = [name for name in self._slots if name not in inputs]
        given, rule = (
            (f"input {unknown[0]}", "the model has no such input")
            if unknown
            else (f"input {absent[0]}", "missing")
        )
        return StitchError(given, rule, f"give {self._expected()}")

    def _expected(self) -> str:
        return ", ".join(str(spec) for spec in self.meta.inputs) or "no inputs"

"""Run a compiled model and see each of its kernel calls, with what it reads and what it writes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_stitch.runtime.buffers import data_pointer, view
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.runtime.model import Model
from tvm_stitch.verification.program import Program, Step, Value
from tvm_stitch.verification.samples.poison import NAN, poison

_CONDITION = "vm.builtin.read_if_cond"


@dataclass
class Call:
    """One run of a kernel: copies of what it read, and its results, which are gone afterwards.

    `complaints` are what is wrong besides numbers.
    """

    step: Step
    inputs: list[np.ndarray]
    results: list[np.ndarray]
    complaints: list[str] = field(default_factory=list)


@dataclass
class _Written:
    """What a value held when it was made, or first read; `end` is behind its last byte."""

    checksum: int
    by: str
    start: int
    end: int


class Recorder:
    """Runs `model`, whose calls are those of `program`, and hands each call to `observe`.

    Memory that a kernel is to write is poisoned first, unless it is an operand.
    """

    def __init__(self, model: Model, program: Program, observe: Callable[[Call], None]) -> None:
        self._model, self._program, self._observe = model.watched(self._see), program, observe
        self._kernels = {step.name for step in program.walk() if step.kind == "kernel"}
        self._known: dict[Value, _Written] = {}
        self._writers: list[tuple[int, int, str]] = []
        self._walk: Generator[Step, Any, None] | None = None
        self._due: Step | None = None
        self._call: Call | None = None

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the model's outputs.

        Raises: StitchError as `Model.run`.
        """
        self._known, self._writers = {}, []
        self._walk = self._steps(self._program)
        self._due = next(self._walk, None)
        outputs = self._model.run(inputs)
        if self._due is not None:
            raise RuntimeError(f"{self._due.name} never ran")
        return outputs

    def _steps(self, program: Program) -> Generator[Step, Any, None]:
        """Yield kernels as they are due; sent which branch is taken where an "if" is yielded."""
        for step in program.steps:
            if step.kind == "kernel":
                yield step
            elif step.kind == "view":
                self._carry(step.inputs, step.results)
            elif step.kind == "if":
                taken = step.branches[0 if (yield step) else 1]
                yield from self._steps(taken)
                self._carry(taken.results, step.results)

    def _carry(self, sources: Sequence[Value], results: Sequence[Value]) -> None:
        for source, result in zip(sources, results, strict=True):
            if source in self._known:
                self._known[result] = self._known[source]

    def _advance(self, sent: Any = None) -> None:
        try:
            self._due = self._walk.send(sent)
        except StopIteration:
            self._due = None

    def _see(self, symbol: str, before: bool, returned: Any, arguments: Sequence[Any]) -> None:
        if symbol == _CONDITION and not before and self._due is not None:
            if self._due.kind == "if":
                self._advance(bool(returned))
        elif symbol in self._kernels:
            if self._due is None or self._due.name != symbol:
                due = "nothing" if self._due is None else self._due.name
                raise RuntimeError(f"{symbol} ran where {due} was due")
            if before:
                self._enter(self._due, [_array(argument) for argument in arguments])
            else:
                self._leave([_array(argument) for argument in arguments])

    def _enter(self, step: Step, arrays: list[np.ndarray]) -> None:
        count = len(step.inputs)
        self._call = Call(step, [array.copy() for array in arrays[:count]], [])
        for value, array in zip(step.inputs, arrays, strict=False):
            self._read(value, array)
            if any(np.may_share_memory(array, written) for written in arrays[count:]):
                self._call.complaints.append(f"argument {value.name} lies where it writes")
        for array in arrays[count:]:
            poison(array, NAN)

    def _read(self, value: Value, array: np.ndarray) -> None:
        """Complain if an argument is not what its maker wrote."""
        now, start = checksum(array), array.__array_interface__["data"][0]
        known = self._known.setdefault(value, _Written(now, "", start, start + array.nbytes))
        if known.checksum == now:
            return
        since = [
            name
            for low, high, name in self._writers
            if low < known.end and known.start < high and name != known.by
        ]
        by = f", {since[-1]} has written there" if since else ""
        made = f"as {known.by} left it" if known.by else "as it was"
        self._call.complaints.append(f"argument {value.name} is not {made}{by}")
        known.checksum = now

    def _leave(self, arrays: list[np.ndarray]) -> None:
        call, self._call = self._call, None
        step, count = call.step, len(call.step.inputs)
        places = step.places or (-1,) * len(step.results)
        fresh = iter(arrays[count:])
        call.results = [arrays[place] if place >= 0 else next(fresh) for place in places]
        for number, (array, before) in enumerate(zip(arrays, call.inputs, strict=False)):
            if number not in places and checksum(array) != checksum(before):
                call.complaints.append(f"argument {step.inputs[number].name} was written to")
        for value, array in zip(step.results, call.results, strict=True):
            start = array.__array_interface__["data"][0]
            self._known[value] = _Written(checksum(array), step.name, start, start + array.nbytes)
            self._writers.append((start, start + array.nbytes, step.name))
        self._advance()
        self._observe(call)


def checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor's memory, of the dtype that TVM calls it."""
    shape, dtype = tuple(int(n) for n in tensor.shape), numpy_dtype(str(tensor.dtype))
    if data_pointer(tensor) == 0:
        return np.empty(shape, dtype)
    return view(tensor, shape, dtype)

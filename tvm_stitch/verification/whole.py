"""What a model ought to return: its operators one by one, before any rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.runtime.vm import VirtualMachine
from tvm.target import Target

from tvm_stitch.runtime.buffers import view
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.verification.judge import worst_of
from tvm_stitch.verification.operators.ops import Arrays, Operators
from tvm_stitch.verification.program import (
    Program,
    Step,
    Value,
    kernel_names,
    read_function,
)
from tvm_stitch.verification.reference import perturbed


class CannotTell(Exception):
    """The model has a step that cannot be run by itself; says which."""


class WholeModel:
    """Runs `main` of a module of legalised operators; `weights` follow its inputs."""

    def __init__(self, mod: IRModule, weights: Sequence[np.ndarray]) -> None:
        self._mod, self._weights = mod, list(weights)
        self._program = read_function(mod, mod["main"])
        self._operators = Operators(mod, kernel_names(self._program))

    def run(self, inputs: Sequence[np.ndarray], wide: bool) -> Arrays:
        """Return the results in float64, or computed in the model's own dtype.

        Raises: CannotTell.
        """
        arrays = dict(zip(self._program.inputs, [*inputs, *self._weights], strict=True))
        self._steps(self._program, arrays, wide)
        return [_of(value, arrays) for value in self._program.results]

    def _steps(self, program: Program, arrays: dict[Value, np.ndarray], wide: bool) -> None:
        last = {value: step for step in program.steps for value in _read(step)}
        kept = {*program.inputs, *program.results, *self._program.results}
        for step in program.steps:
            made = self._step(step, arrays, wide)
            arrays |= dict(zip(step.results, made, strict=True))
            for value in step.inputs:
                # What a branch reads may be read again behind it.
                if program is self._program and last[value] is step and value not in kept:
                    arrays.pop(value, None)

    def _step(self, step: Step, arrays: dict[Value, np.ndarray], wide: bool) -> Arrays:
        given = [_of(value, arrays) for value in step.inputs]
        if step.kind == "kernel":
            return self._operators.run(step.name, given, wide)
        if step.kind == "view":
            return [given[0].reshape(step.results[0].shape)]
        if step.kind == "if":
            branch = step.branches[0 if given[0].any() else 1]
            self._steps(branch, arrays, wide)
            return [_of(value, arrays) for value in branch.results]
        return _run_other(step, given, wide) if step.results else []


def _read(step: Step) -> Iterator[Value]:
    """Yield what a step reads, its branches too."""
    yield from step.inputs
    for branch in step.branches:
        yield from branch.results
        for inner in branch.steps:
            yield from _read(inner)


def _of(value: Value, arrays: dict[Value, np.ndarray]) -> np.ndarray:
    return value.constant if value.is_constant else arrays[value]


def _run_other(step: Step, given: Arrays, wide: bool) -> Arrays:
    """Run a call that is no PrimFunc's, a sort or a sum along an axis, as TVM does, by itself."""
    if step.read is None:
        raise CannotTell(f"{step.name} reads what is no tensor")
    builder = relax.BlockBuilder()
    with builder.function("main", list(step.read)):
        with builder.dataflow():
            made = builder.emit_output(step.call)
        builder.emit_func_output(made)
    target = Target("llvm")
    executable = tvm.compile(builder.get(), target)
    machine = VirtualMachine(executable, tvm.cpu())
    tensors = [
        tvm.runtime.tensor(np.asarray(array, numpy_dtype(str(var.ty.dtype)), order="C"))
        for var, array in zip(step.read, given, strict=True)
    ]
    returned = machine["main"](*tensors)
    several = list(returned) if isinstance(step.call.ty, relax.TupleType) else [returned]
    results = []
    for tensor in several:
        dtype = numpy_dtype(str(tensor.dtype))
        array = np.array(view(tensor, tuple(tensor.shape), dtype))
        floating = dtype.kind in "fV"
        results.append(array.astype(np.float64) if wide and floating else array)
    return results


@dataclass
class Expected:
    """The results of a model on some inputs, and what they may be as well."""

    whole: WholeModel
    inputs: Sequence[np.ndarray]
    _wide: Arrays | None = None
    _others: list[Arrays] = field(default_factory=list)

    def problem(self, results: Sequence[np.ndarray]) -> str | None:
        """Return what is wrong with results, None if nothing is. Raises: CannotTell."""
        if self._wide is None:
            self._wide = self.whole.run(self.inputs, wide=True)
        dtypes = [str(array.dtype) for array in results]
        worst = worst_of(list(results), self._wide, dtypes, self._alternatives)
        return None if worst is None else str(worst)

    def _alternatives(self) -> Iterator[Arrays]:
        """Yield other results, each made once."""
        rng = np.random.default_rng(0)
        yield self._other(0, self.inputs, wide=False)
        for number in (1, 2):
            yield self._other(number, [perturbed(a, rng) for a in self.inputs], wide=True)

    def _other(self, number: int, inputs: Sequence[np.ndarray], wide: bool) -> Arrays:
        if number == len(self._others):
            self._others.append(self.whole.run(inputs, wide))
        return self._others[number]

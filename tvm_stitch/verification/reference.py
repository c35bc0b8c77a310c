"""What a kernel ought to compute: its operators one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import ml_dtypes
import numpy as np
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import IRModule

from tir_schedules.reference import reference_of
from tvm_stitch.verification.operators.ops import Arrays, Operators
from tvm_stitch.verification.program import (
    Program,
    Step,
    Value,
    kernel_names,
    read_function,
)

_PERTURBED = 3  # times that inputs are changed in their last digit


class References:
    """References for the kernels that `calls` run, in a module whose groups are not yet fused."""

    def __init__(self, mod: IRModule, calls: Iterable[Step]) -> None:
        self._mod = mod
        self._bodies = {call.name: body_of(mod, call) for call in calls}
        used = [op for body in self._bodies.values() for op in kernel_names(body)]
        self._operators = Operators(mod, list(dict.fromkeys(used)))

    def run(self, name: str, inputs: Sequence[np.ndarray], wide: bool = True) -> Arrays:
        """Return the results of a kernel, in float64 or computed in the model's own dtype."""
        return _run(self._bodies[name], inputs, self._operators, wide)

    def alternatives(self, name: str, inputs: Sequence[np.ndarray]) -> Iterator[Arrays]:
        """Yield what the kernel's results may as well be: see judge.py."""
        yield self.run(name, inputs, wide=False)
        rng = np.random.default_rng(0)
        for _ in range(_PERTURBED):
            yield self.run(name, [perturbed(array, rng) for array in inputs])

    def truncates(self, name: str) -> bool:
        """Return whether floats become integers in a kernel: of large ones that is anything."""
        funcs = [reference_of(self._mod[op]) for op in kernel_names(self._bodies[name])]
        return any(tvm_ffi.structural_walk(f.body, (tirx.Cast, _found)) is not None for f in funcs)


def _found(cast: tirx.Cast) -> tvm_ffi.VisitInterrupt | None:
    before, after = (str(node.ty.dtype) for node in (cast.value, cast))
    truncates = "float" in before and "int" in after
    return tvm_ffi.VisitInterrupt() if truncates else None


def body_of(mod: IRModule, call: Step) -> Program:
    """Return the operators of a group, or of a kernel that is one operator."""
    func = mod[call.name]
    if isinstance(func, relax.Function):
        return read_function(mod, func)
    inputs = [Value(param.name) for param in func.params[: len(call.inputs)]]
    step = Step("kernel", call.name, inputs)
    made = func.params[len(inputs) :]
    step.results = [Value(param.name, step, number) for number, param in enumerate(made)]
    return Program(inputs, [step], step.results)


def _run(
    program: Program, inputs: Sequence[np.ndarray], operators: Operators, wide: bool
) -> Arrays:
    """Return the results of a program of kernels; what is read no more is let go."""
    arrays: dict[Value, np.ndarray] = dict(zip(program.inputs, inputs, strict=True))
    last = {value: step for step in program.steps for value in step.inputs}
    kept = {*program.inputs, *program.results}
    for step in program.steps:
        given = [v.constant if v.is_constant else arrays[v] for v in step.inputs]
        arrays |= dict(zip(step.results, operators.run(step.name, given, wide), strict=True))
        for value in step.inputs:
            if last[value] is step and value not in kept:
                arrays.pop(value, None)
    return [arrays[value] for value in program.results]


def perturbed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return floats changed by up to a unit in their last place, in float64."""
    if array.dtype.kind not in "fV":
        return array
    unit = float(ml_dtypes.finfo(array.dtype).eps)
    return array.astype(np.float64) * (1.0 + unit * rng.uniform(-1.0, 1.0, array.shape))

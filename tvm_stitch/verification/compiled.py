"""A compiled model with the modules it came from: which operators each kernel call stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tvm.ir import IRModule

from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.origins import origin_of
from tvm_stitch.runtime.model import Model
from tvm_stitch.verification.direct import DirectKernel
from tvm_stitch.verification.program import Program, Step, Value, read_function
from tvm_stitch.verification.wiring import match


@dataclass(frozen=True)
class Operator:
    """An operator as it was legalised, and the node of the user's model it comes from."""

    name: str
    node: str | None

    def __str__(self) -> str:
        return f"{self.name} of {self.node}" if self.node else self.name


@dataclass
class Compiled:
    """A model and its module at three stages of lowering: operators, groups of them, kernels.

    Raises: Rewired, when it is made, if a stage does not compute what the one before does.
    """

    model: Model
    imported: ImportedModel
    operators: IRModule
    groups: IRModule
    kernels: IRModule
    program: Program = field(init=False)
    _calls: dict[Step, Step] = field(init=False)
    _operators: dict[Step, dict[Step, Step]] = field(init=False)
    _numbers: dict[Step, int] = field(init=False)
    _weights: set[Value] = field(init=False)

    def __post_init__(self) -> None:
        before, grouped, self.program = (
            read_function(mod, mod["main"]) for mod in (self.operators, self.groups, self.kernels)
        )
        bodies = {
            var.name_hint: func
            for var, func in self.groups.functions_items()
            if func.attrs and "Primitive" in func.attrs
        }

        def inside(step: Step) -> Program | None:
            body = bodies.get(step.name)
            return None if body is None else read_function(self.groups, body)

        self._numbers = {step: number for number, step in enumerate(before.walk())}
        self._operators = match(before, grouped, inside)
        pairs = match(grouped, self.program)
        self._calls = {call: steps[call] for call, steps in pairs.items()}
        self._weights = set(self.program.inputs[len(self.imported.inputs) :])

    def group(self, call: Step) -> Step:
        """Return the call, before groups became kernels, that a kernel call was."""
        return self._calls[call]

    def is_weight(self, value: Value) -> bool:
        """Return whether a value is the same in every run."""
        return value.is_constant or value in self._weights

    def kernel(self, call: Step, results: Sequence[np.ndarray]) -> DirectKernel:
        """Return the kernel of a call, whose results were such."""
        return DirectKernel(
            self.model.kernel(call.name),
            self.model.run_on,
            tuple((array.shape, str(array.dtype)) for array in results),
            call.places or (-1,) * len(results),
            self.kernels[call.name],
        )

    def operators_of(self, call: Step) -> list[Operator]:
        """Return the operators of a kernel call, in the model's order."""
        steps = self._operators[self._calls[call]].values()
        order = sorted(steps, key=self._numbers.__getitem__)
        return [Operator(step.name, self._node(step)) for step in order]

    def _node(self, step: Step) -> str | None:
        return origin_of(step.results[0].name, self.imported.origins)


def compiled_of(model: Model, imported: ImportedModel, stages: Mapping[str, IRModule]) -> Compiled:
    """Return a compiled model with what `pipeline.lower` made on its way, by the passes' names.

    Raises: Rewired as `Compiled`.
    """
    operators, kernels = stages["AnnotateTIROpPattern"], stages["OverwriteOperands"]
    return Compiled(model, imported, operators, stages.get("FuseOps", operators), kernels)

"""Loops in the ONNX graph: the nodes of one step between the markers of relay_passes.recurrence."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from relay_passes.recurrence.markers import Marker
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import OWN_DOMAIN, ValueType

MARKER = "Marker"


class StepBuilder:
    """Builds a loop of so many steps around nodes that `build` makes."""

    def __init__(self, build: Builder, steps: int) -> None:
        self._build, self._steps = build, steps
        self._name = build.graph.fresh(build.replaced.output[0])
        self._carries = 0

    def each(self, value: str, backwards: bool = False) -> str:
        """Return a step's part of a value whose first axis is time."""
        known = self._build.graph.type_of(value)
        part = ValueType(known.dtype, known.shape[1:])
        (out,) = self._mark(Marker("each", self._name, 0, (backwards,)), [value], [part])
        return out

    def carry(self, first: str) -> str:
        """Return a state before the step, which is `first` before the first one."""
        known = self._build.graph.type_of(first)
        marker = Marker("carry", self._name, self._carries)
        self._carries += 1
        (out,) = self._mark(marker, [first], [known])
        return out

    def end(
        self,
        states: Sequence[tuple[str, ValueType]],
        results: Sequence[tuple[str, ValueType]],
        backwards: Sequence[bool],
    ) -> list[str]:
        """Return the states behind all steps, and the results of all steps behind each other.

        What a step makes comes with its type, which nothing has inferred yet.
        """
        marker = Marker("end", self._name, self._steps, tuple(backwards))
        stacks = [ValueType(t.dtype, (self._steps, *t.shape)) for _, t in results]
        kinds = [*(t for _, t in states), *stacks]
        return self._mark(marker, [name for name, _ in (*states, *results)], kinds)

    def behind(self, build: Builder) -> StepBuilder:
        """Return the same loop, what follows to be built by another builder."""
        other = copy.copy(self)
        other._build = build
        return other

    def _mark(self, marker: Marker, inputs: Sequence[str], kinds: Sequence[ValueType]) -> list[str]:
        build = self._build
        outputs = [build.graph.fresh(build.replaced.output[0]) for _ in kinds]
        build.graph.types.update(zip(outputs, kinds, strict=True))
        types = [f"{t.dtype}:{','.join(map(str, t.shape))}" for t in kinds]
        build.add(MARKER, inputs, outputs, OWN_DOMAIN, function=marker.function, types=types)
        return outputs

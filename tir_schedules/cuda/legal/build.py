"""A plan of decisions: launches in order, each checked, and what they hand on."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.iteration_space import Space
from ...device.cuda import CudaDevice
from ..facts.reading import Reading
from ..plan.decisions import Decisions
from ..plan.kernel_plan import Phase, Plan
from .beside import refuse_beside
from .phase import Illegal, phase_of, picked, refuse_order


def build_plan(reading: Reading, decisions: Decisions, device: CudaDevice) -> Plan | str:
    """Return the plan that decisions make of a kernel, or the first reason why they make none."""
    try:
        space = _with_parts(reading, decisions)
        phases = tuple(phase_of(space, decided, device) for decided in decisions.phases)
        _refuse_order(space, phases)
        if phases and phases[0].beside:
            raise Illegal("the first phase is beside none")
        made = Plan(space, phases)
        for launch in made.launches():
            refuse_beside(space, launch, device)
    except Illegal as reason:
        return str(reason)
    return made


def _with_parts(reading: Reading, decisions: Decisions) -> Space:
    """Return the kernel in shared axes, its sums in parts."""
    for part in decisions.parts:
        stage = picked(reading.reduced.stages, part.stage, "stage")
        axis = picked(stage.reduced, part.axis, "axis")
        if not 2 <= part.count <= axis.extent:
            raise Illegal(f"{stage.name} in {part.count} parts of {axis.extent}")
    if len({part.stage for part in decisions.parts}) != len(decisions.parts):
        raise Illegal("a sum is in parts along one axis")
    return reading.space(decisions.parts)


def _refuse_order(space: Space, phases: Sequence[Phase]) -> None:
    """Check that each node is made once, and behind what it reads."""
    order = [node for phase in phases for nest in phase.nests for node in nest.nodes]
    if sorted(map(space.nodes.index, order)) != list(range(len(space.nodes))):
        raise Illegal("each stage is in one nest")
    refuse_order(space, order)

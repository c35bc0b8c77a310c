"""What a block may do in steps along a serial axis."""

from __future__ import annotations

from ..plan.axes import Axis
from ..plan.kernel_plan import Phase
from .illegal import Illegal


def refuse_steps(phase: Phase) -> None:
    """Check what is done in steps: nests one behind the other, that need no sum of all steps."""
    serial = [axis for axis in phase.axes if axis.serial]
    for nest in phase.nests:
        if sum(axis.meets(nest.nodes[0].atoms) for axis in serial) > 1:
            raise Illegal("a nest goes in steps along one axis")
    for axis in serial:
        _refuse_steps_along(axis, phase)


def _refuse_steps_along(axis: Axis, phase: Phase) -> None:
    """Check what is done in the steps along one axis."""
    stepped = [at for at, nest in enumerate(phase.nests) if phase.serial_axis(nest) is axis]
    if not stepped or stepped[-1] - stepped[0] != len(stepped) - 1:
        raise Illegal("nests in steps follow each other")
    for edge in phase.space.edges:
        made, reader = edge.producer, edge.consumer
        if axis.meets(made.reduced) and axis.meets(reader.atoms):
            raise Illegal(f"{reader.stage.name} needs the whole sum of {made.stage.name}")
        if axis.meets(made.spatial) and not axis.meets(reader.atoms):
            raise Illegal(f"{reader.stage.name} reads what is there for a step only")
        if any(axis.has(atom) for atom in edge.unaligned & set(made.atoms)):
            raise Illegal(f"{reader.stage.name} reads other steps of {made.stage.name}")


def refuse_ahead(phase: Phase) -> None:
    """Check that tiles can be filled before their step begins: of nothing that a step makes."""
    tiles = [node for nest in phase.nests if phase.fills_tiles(nest) for node in nest.nodes]
    if not tiles:
        raise Illegal("there are no tiles to load a step ahead")
    for edge in phase.space.edges:
        if edge.consumer in tiles and phase.in_steps(phase.nest_of(edge.producer)):
            raise Illegal(f"{edge.consumer.stage.name} reads what its own step makes")

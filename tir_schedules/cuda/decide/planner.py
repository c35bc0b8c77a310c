"""Default decisions: of some ways to lay a kernel over blocks, the one that costs least."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...analysis.iteration_space import Node, Space
from ...analysis.kernel_facts import is_large_contraction
from ...decisions import variant
from ...device.cuda import CudaDevice
from ..cost.assumed import ASSUMED
from ..cost.latency import launch_ns
from ..cost.occupancy import registers_of
from ..facts.parts import launches_of, space_of
from ..facts.reading import Reading
from ..facts.tiles import is_tiled
from ..legal.phase import build_phase
from ..plan.decisions import Decisions, PartDecisions, PhaseDecisions
from .candidates import candidates
from .counts import part_counts
from .numbered import Numbers
from .policy import BLOCKS


@dataclass(frozen=True)
class Choice:
    """Decisions, their ns, and the fewest blocks of a launch."""

    decisions: Decisions
    ns: float
    blocks: int


def default_decisions(reading: Reading, device: CudaDevice) -> Decisions | str:
    """Return what the cost model decides for a kernel on a GPU, or why it declines."""
    if reading.has_ways:
        return "a kernel of two ways is not planned on a GPU"
    if any(is_large_contraction(s) and not is_tiled(s) for s in reading.space().kernel.stages):
        return "a product whose operands are no tiles is not planned on a GPU"
    whole = cheapest(reading.space(), (), device)
    found = [] if isinstance(whole, str) else [whole]
    if not found or found[0].blocks < BLOCKS.few * device.sms:
        for parts in part_counts(reading, device):
            limit = min((choice.ns for choice in found), default=math.inf)
            made = cheapest(reading.space(parts), parts, device, limit)
            found += [] if isinstance(made, str) else [made]
    return min(found, key=lambda choice: choice.ns).decisions if found else whole


def cheapest(
    space: Space,
    parts: tuple[PartDecisions, ...],
    device: CudaDevice,
    limit: float = math.inf,
) -> Choice | str:
    """Return the best way of each launch, or why one has none or they take over `limit` ns."""
    total, fewest, phases = 0.0, math.inf, []
    for nodes in launches_of(space):
        ways, reason = _ways(space, nodes, device)
        if not ways:
            return reason
        best = min(ways, key=lambda way: way.ns)
        phases.append(best.decided)
        total, fewest = total + device.profile.launch_ns + best.ns, min(fewest, best.blocks)
        if total > limit:
            return f"{len(parts)} sums in parts take longer"
    return Choice(Decisions(tuple(phases), parts), total, int(fewest))


def ways_of(space: Space, device: CudaDevice) -> list[list[PhaseDecisions]]:
    """Return the best decisions of each structure of each launch."""
    found = []
    for nodes in launches_of(space):
        best: dict[str, _Way] = {}
        for way in _ways(space, nodes, device)[0]:
            text = variant(way.decided)
            if text not in best or way.ns < best[text].ns:
                best[text] = way
        found.append([way.decided for way in best.values()])
    return found


@dataclass(frozen=True)
class _Way:
    """One way to run a launch."""

    decided: PhaseDecisions
    ns: float
    blocks: int


def _ways(space: Space, nodes: list[Node], device: CudaDevice) -> tuple[list[_Way], str]:
    """Return the ways that a launch may run, and why the last of the others can't."""
    found, reason = [], "it has no points"
    for decided in candidates(space_of(space, nodes), Numbers(space)):
        phase = build_phase(space, decided, device)
        if isinstance(phase, str):
            reason = phase
        elif registers_of(phase) > BLOCKS.words + ASSUMED.addresses:
            reason = f"a thread would need about {registers_of(phase)} registers"
        else:
            found.append(_Way(decided, launch_ns(phase, device), phase.blocks))
    return found, reason

"""Default decisions: of some ways to lay a kernel over blocks, the one that costs least."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...analysis.iteration_space import Space
from ...analysis.kernel_facts import is_large_contraction
from ...decisions import variant
from ...device.cuda import CudaDevice
from ..cost.latency import LAUNCH_NS, launch_ns
from ..facts.parts import launches_of, space_of
from ..facts.reading import Counts, Reading
from ..facts.tiles import is_tiled
from ..legal.phase import build_phase
from ..plan.decisions import Decisions, PhaseDecisions
from .candidates import candidates
from .counts import part_counts
from .numbered import Numbers

_FEW = 2  # blocks a multiprocessor: with more than these sums need not be in parts


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
    if not found or found[0].blocks < _FEW * device.sms:
        for parts in part_counts(reading, device):
            limit = min((choice.ns for choice in found), default=math.inf)
            made = cheapest(reading.space(parts), parts, device, limit)
            found += [] if isinstance(made, str) else [made]
    return min(found, key=lambda choice: choice.ns).decisions if found else whole


def cheapest(
    space: Space, parts: Counts, device: CudaDevice, limit: float = math.inf
) -> Choice | str:
    """Return the best way of each launch, or why one has none or they take over `limit` ns."""
    numbers, total, fewest, phases = Numbers(space), 0.0, math.inf, []
    for nodes in launches_of(space):
        best: tuple[float, int, PhaseDecisions] | None = None
        reason = "it has no points"
        for decided in candidates(space_of(space, nodes), numbers):
            phase = build_phase(space, decided, device)
            if isinstance(phase, str):
                reason = phase
                continue
            ns = launch_ns(phase, device)
            if best is None or ns < best[0]:
                best = ns, phase.blocks, decided
        if best is None:
            return reason
        phases.append(best[2])
        total, fewest = total + LAUNCH_NS + best[0], min(fewest, best[1])
        if total > limit:
            return f"{parts} parts take longer"
    return Choice(Decisions(tuple(phases), parts), total, int(fewest))


def ways_of(space: Space, device: CudaDevice) -> list[list[PhaseDecisions]]:
    """Return the best decisions of each structure of each launch."""
    numbers, found = Numbers(space), []
    for nodes in launches_of(space):
        best: dict[str, tuple[float, PhaseDecisions]] = {}
        for decided in candidates(space_of(space, nodes), numbers):
            phase = build_phase(space, decided, device)
            if isinstance(phase, str):
                continue
            ns, text = launch_ns(phase, device), variant(decided)
            if text not in best or ns < best[text][0]:
                best[text] = ns, decided
        found.append([decided for _, decided in best.values()])
    return found

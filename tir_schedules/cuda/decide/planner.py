"""Default decisions: of some ways to lay a kernel over blocks, the one that costs least."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...analysis.iteration_space import Node, Space
from ...analysis.kernel_facts import is_large_contraction
from ...decisions import variant
from ...device.cuda import CudaDevice
from ..cost.assumed import ASSUMED
from ..cost.latency import launch_ns
from ..cost.occupancy import registers_of
from ..facts.parts import launches_of, separate, space_of
from ..facts.reading import Reading
from ..facts.tiles import is_tiled
from ..legal.beside import why_not_beside
from ..legal.phase import build_phase
from ..plan.decisions import Decisions, PartDecisions, PhaseDecisions
from ..plan.kernel_plan import Phase
from .candidates import candidates, families
from .counts import centred_counts, part_counts, row_counts
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
    if (reason := _unread(reading)) is not None:
        return reason
    whole = cheapest(reading.space(), (), device)
    found = [] if isinstance(whole, str) else [whole]
    counts = itertools.chain(row_counts(reading), centred_counts(reading))
    if not found or found[0].blocks < BLOCKS.few * device.sms:
        counts = itertools.chain(counts, part_counts(reading, device))
    for parts in counts:
        limit = min((choice.ns for choice in found), default=math.inf)
        made = cheapest(reading.space(parts), parts, device, limit)
        found += [] if isinstance(made, str) else [made]
    return min(found, key=lambda choice: choice.ns).decisions if found else whole


def refuse(reading: Reading, device: CudaDevice) -> str | None:
    """Return why `default_decisions` declines, or None: the first way will do.

    Where parts may have blocks beside each other it is not asked if those are of one size.
    """
    if (reason := _unread(reading)) is not None:
        return reason
    reason = _without_way(reading.space(), device)
    if reason is None:
        return None
    parts = itertools.chain(row_counts(reading), part_counts(reading, device))
    able = any(_without_way(reading.space(each), device) is None for each in parts)
    return None if able else reason


def _unread(reading: Reading) -> str | None:
    """Return what of a kernel no way is known for."""
    if reading.has_ways:
        return "a kernel of two ways is not planned on a GPU"
    if any(is_large_contraction(s) and not is_tiled(s) for s in reading.space().kernel.stages):
        return "a product whose operands are no tiles is not planned on a GPU"
    return None


def _without_way(space: Space, device: CudaDevice) -> str | None:
    """Return why a launch has no way to run, or None if all have one."""
    for nodes in launches_of(space):
        reason = _never(space, nodes, device)
        if reason is None:
            continue
        apart = separate(space, nodes)
        if len(apart) == 1 or any(_never(space, part, device) for part in apart):
            return reason
    return None


def _never(space: Space, nodes: Sequence[Node], device: CudaDevice) -> str | None:
    """Return why a launch is never one phase, or None if it may be."""
    reason = "it has no points"
    for decided in candidates(space_of(space, nodes), Numbers(space)):
        built = _built(space, decided, device)
        if not isinstance(built, str):
            return None
        reason = built
    return reason


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
        ways += ways_beside(space, nodes, device)
        if not ways:
            return reason
        best = min(ways, key=lambda way: way.ns)
        phases += best.decided
        total, fewest = total + device.profile.launch_ns + best.ns, min(fewest, best.blocks)
        if total > limit:
            return f"{len(parts)} sums in parts take longer"
    return Choice(Decisions(tuple(phases), parts), total, int(fewest))


def ways_of(space: Space, device: CudaDevice) -> list[list[tuple[PhaseDecisions, ...]]]:
    """Return the best decisions of each structure of each launch."""
    found = []
    for nodes in launches_of(space):
        best: dict[str, _Way] = {}
        for way in [*_ways(space, nodes, device)[0], *ways_beside(space, nodes, device)]:
            text = "".join(map(variant, way.decided))
            if text not in best or way.ns < best[text].ns:
                best[text] = way
        found.append([way.decided for way in best.values()])
    return found


@dataclass(frozen=True)
class _Way:
    """One way to run a launch."""

    decided: tuple[PhaseDecisions, ...]
    phases: tuple[Phase, ...]
    ns: float

    @property
    def blocks(self) -> int:
        return sum(phase.blocks for phase in self.phases)

    @property
    def threads(self) -> int:
        return self.phases[0].threads


def _ways(space: Space, nodes: Sequence[Node], device: CudaDevice) -> tuple[list[_Way], str]:
    """Return the ways that a launch may run as one phase, and why the last of the others can't."""
    reason, begun = "it has no points", []
    for family in families(space_of(space, nodes), Numbers(space)):
        rest = iter(family)
        for decided in rest:
            way = _way(space, decided, device)
            if not isinstance(way, str):
                begun.append((way, rest))
                break
            reason = way
    begun.sort(key=lambda pair: pair[0].ns)
    near = (decided for _, rest in begun[: BLOCKS.refined] for decided in rest)
    others = (_way(space, decided, device) for decided in near)
    return [*(way for way, _ in begun), *(w for w in others if not isinstance(w, str))], reason


def _way(space: Space, decided: PhaseDecisions, device: CudaDevice) -> _Way | str:
    """Return a launch of decisions with its ns, or why it can't run."""
    built = _built(space, decided, device)
    if isinstance(built, str):
        return built
    return _Way((decided,), (built,), launch_ns((built,), device))


def ways_beside(space: Space, nodes: Sequence[Node], device: CudaDevice) -> list[_Way]:
    """Return ways of a launch whose parts, of which none reads another, have blocks of their own.

    One for each count of threads that all may have, of the best phases with it.
    """
    apart = separate(space, nodes)
    if len(apart) == 1:
        return []
    ways = [_ways(space, part, device)[0] for part in apart]
    found = []
    for threads in sorted(set.intersection(*({way.threads for way in each} for each in ways))):
        chosen = [min((w for w in each if w.threads == threads), key=_ns) for each in ways]
        phases = tuple(
            replace(way.phases[0], beside=number > 0) for number, way in enumerate(chosen)
        )
        if why_not_beside(space, phases, device) is None:
            decided = tuple(
                replace(way.decided[0], beside=number > 0) for number, way in enumerate(chosen)
            )
            found.append(_Way(decided, phases, launch_ns(phases, device)))
    return found


def _ns(way: _Way) -> float:
    return way.ns


def _built(space: Space, decided: PhaseDecisions, device: CudaDevice) -> Phase | str:
    """Return a launch of decisions, or why it can't run or does not fit into registers."""
    phase = build_phase(space, decided, device)
    if isinstance(phase, str):
        return phase
    words = BLOCKS.fragment_words if phase.has_fragments() else BLOCKS.words
    if registers_of(phase) <= words + ASSUMED.addresses:
        return phase
    return f"a thread would need about {registers_of(phase)} registers"

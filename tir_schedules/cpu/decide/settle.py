"""Settle what a plan needs to be emitted, and judging it does not ask for.

Lines fetched ahead, tile buffers over others, lines in parts, divisions by reciprocals.
"""

from __future__ import annotations

from dataclasses import replace

from ..facts.deinterleave import deinterleave_of
from ..facts.division import by_reciprocal
from ..facts.next_tile import sweeper
from ..plan.kernel_plan import Guard, LoopGroup, Phase, Plan
from ..plan.memory import NextTilePrefetch
from .next_tile_prefetch import next_tile_prefetches
from .prefetch import fetches
from .tile_sharing import shared_tiles


def settled(plan: Plan) -> Plan:
    """Return a plan with what `emit` needs beyond what judging it does."""
    phases = tuple(p if p.combine else _phase(p, plan) for p in plan.phases)
    guards = (replace(g, check=settled(g.check), other=_other(g)) for g in plan.guards)
    return replace(plan, phases=phases, guards=tuple(guards))


def _other(guard: Guard) -> Plan | None:
    return None if guard.other is None else settled(guard.other)


def _phase(phase: Phase, plan: Plan) -> Phase:
    ahead = tuple(next_tile_prefetches(phase, plan))
    groups = tuple(_nest(group, phase, plan, ahead) for group in phase.groups)
    kept = phase.buffered(plan.space, plan.crossing)
    parts = {node: deinterleave_of(node, phase, plan.space) for node in kept}
    return replace(
        phase,
        groups=groups,
        shared=shared_tiles(phase, plan.space, plan.crossing),
        deinterleaved={node: part for node, part in parts.items() if part is not None},
    )


def _nest(
    group: LoopGroup, phase: Phase, plan: Plan, ahead: tuple[NextTilePrefetch, ...]
) -> LoopGroup:
    spread = {id(each.access.tensor) for each in ahead}
    others = [t for t in plan.fetched if id(t) not in spread]
    reciprocals = by_reciprocal(plan.vector_bytes)
    behind = group.epilogue
    if behind is not None:
        ask = tuple(fetches(behind, phase, plan, others))
        behind = replace(behind, fetches=ask, reciprocals=reciprocals)
    return replace(
        group,
        epilogue=behind,
        fetches=tuple(fetches(group, phase, plan, others)),
        next_tile=ahead if group is sweeper(phase) else (),
        reciprocals=reciprocals,
    )

"""Settle what a plan needs to be emitted, and judging it does not ask for.

Lines fetched ahead, tile buffers over others, lines in parts, divisions by reciprocals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...device import CpuDevice
from ...kernel_ir.expr import Tensor
from ..cost.beyond_cache import streaming_inputs
from ..cost.division import by_reciprocal
from ..facts.memory.deinterleave import deinterleave_of
from ..facts.memory.next_tile import sweeper
from ..plan.kernel_plan import Guard, LoopNest, Phase, Plan
from ..plan.memory import Fetch, NextTilePrefetch
from .tiles.tile_sharing import shared_tiles
from .traffic.next_tile_prefetch import next_tile_prefetches
from .traffic.prefetch import awaited, fetches


def settled(plan: Plan, device: CpuDevice, cold: Sequence[Tensor] = ()) -> Plan:
    """Return a plan with what `emit` needs beyond what judging it does.

    Inputs that are `cold` lie elsewhere in each run, so that no cache has them.
    """
    phases = tuple(p if p.combine else _phase(p, plan, device, cold) for p in plan.phases)
    guards = tuple(_guard(guard, device) for guard in plan.guards)
    return replace(plan, phases=phases, guards=guards)


def _guard(guard: Guard, device: CpuDevice) -> Guard:
    other = None if guard.other is None else settled(guard.other, device)
    return replace(guard, check=settled(guard.check, device), other=other)


def _phase(phase: Phase, plan: Plan, device: CpuDevice, cold: Sequence[Tensor]) -> Phase:
    ahead = tuple(next_tile_prefetches(phase, plan, device))
    spread = {each.access.tensor for each in ahead}
    streaming = streaming_inputs(plan.space.kernel, device)
    others = [t for t in streaming if t not in spread]

    def asked(group: LoopNest) -> tuple[Fetch, ...]:
        found = fetches(group, phase, plan.space.kernel.inputs, others, device)
        behind = any(group is g.epilogue for g in phase.groups)
        return (*found, *(awaited(group, cold, found) if behind else ()))

    groups = tuple(_nest(g, asked, g is sweeper(phase), ahead, device) for g in phase.groups)
    kept = phase.buffered(plan.space, plan.crossing)
    parts = {node: deinterleave_of(node, phase, plan.space) for node in kept}
    return replace(
        phase,
        groups=groups,
        shared=shared_tiles(phase, plan.space, plan.crossing),
        deinterleaved={node: part for node, part in parts.items() if part is not None},
    )


def _nest(
    group: LoopNest,
    asked: Callable[[LoopNest], tuple[Fetch, ...]],
    sweeps: bool,
    ahead: tuple[NextTilePrefetch, ...],
    device: CpuDevice,
) -> LoopNest:
    reciprocals = by_reciprocal(device.profile)
    behind = group.epilogue
    if behind is not None:
        behind = replace(behind, fetches=asked(behind), reciprocals=reciprocals)
    return replace(
        group,
        epilogue=behind,
        fetches=asked(group),
        next_tile=ahead if sweeps else (),
        reciprocals=reciprocals,
    )

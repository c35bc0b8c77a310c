"""What nests may fetch ahead, and which results may be stored past the caches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ...analysis.iteration_space import Access, Space
from ...kernel_ir.expr import Tensor, dtype_bytes
from ..facts.memory.next_tile import is_ahead, is_awaited, sweeper
from ..facts.memory.streamed_stores import MOST_REGISTERS, may_stream
from ..plan.kernel_plan import LoopNest, Phase
from ..plan.memory import TO_L1, TO_L2, Fetch


def refuse_memory(phase: Phase, space: Space) -> str | None:
    """Return why nests of a phase may not fetch what they do, or None."""
    params = set(space.kernel.params)
    epilogues = [g.epilogue for g in phase.groups if g.epilogue is not None]
    for group in phase.nests():
        awaits = any(group is each for each in epilogues)
        for fetch in group.fetches:
            if reason := _refuse_fetch(fetch, group, phase, params, awaits):
                return reason
        if group.next_tile and group is not sweeper(phase):
            return "the last product of a tile alone fetches for the next one"
        if any(each.access.tensor not in params for each in group.next_tile):
            return "of the next tile parameters alone are fetched"
        pairs = itertools.combinations(group.next_tile, 2)
        if any(one.access is other.access for one, other in pairs):
            return "an access is fetched twice"
    return None


def refuse_streamed(
    tensor: Tensor, phases: Sequence[Phase], space: Space, vector_bytes: int
) -> str | None:
    """Return why a result may not be stored past the caches, or None."""
    if not may_stream(tensor, space, vector_bytes):
        return f"{tensor.name} can't be stored past the caches"
    most = MOST_REGISTERS * vector_bytes // dtype_bytes(tensor.dtype)
    for group in (g for phase in phases for g in phase.groups):
        if group.lanes > most and any(n.stage.out is tensor for n in group.all_nodes()):
            return f"{group.lanes} lanes of {tensor.name} are more than one call streams"
    return None


def _refuse_fetch(
    fetch: Fetch, group: LoopNest, phase: Phase, params: set[Tensor], awaits: bool
) -> str | None:
    access = fetch.access
    if fetch.cache not in (TO_L1, TO_L2):
        return f"lines are fetched into L1 or L2, not cache {fetch.cache}"
    known = is_ahead(access, fetch.ahead)
    if not fetch.ahead and awaits:
        known = is_awaited(access, group)
    if access.tensor not in params or not known:
        return f"{fetch.ahead} elements ahead {access.tensor.name} is not known"
    return None if _is_placed(access, group, phase) else "a nest does not walk what it fetches"


def _is_placed(access: Access, group: LoopNest, phase: Phase) -> bool:
    """Return whether a nest has a position of each axis of an access."""
    loops = (
        *group.dims,
        *phase.tile,
        *(() if group.flattened_outer is None else (group.flattened_outer,)),
    )
    return all(a in loops for a in access.strides)

"""What a nest may fetch ahead: where the next tile's part of a tensor is, and who walks it."""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.iteration_space import Access
from ....device import LINE_BYTES
from ....kernel_ir.expr import Tensor, dtype_bytes
from ...plan.kernel_plan import LoopNest, Phase
from ...plan.memory import NextTilePrefetch

_FARTHEST = 1 << 24  # elements: positions are 32-bit


def is_ahead(access: Access, elements: int) -> bool:
    """Return whether so many elements ahead of an access is a place that a nest may fetch."""
    return not access.opaque and 0 < abs(elements) <= _FARTHEST


def is_awaited(access: Access, behind: LoopNest) -> bool:
    """Return whether an epilogue reads this in lanes, so that it may be fetched before the sums."""
    return not access.opaque and behind.lanes > 1 and access.stride(behind.dims[-1]) == 1


def sweeper(phase: Phase) -> LoopNest | None:
    """Return the nest that fetches for the next tile: the last product, if its sums are one loop.

    That is over the whole depth, and not one of packed rows.
    """
    products = phase.products()
    if not products or products[-1].strip_level != 1 or products[-1].flattened_outer is not None:
        return None
    inside = products[-1].dims[1:-1]
    whole = len(inside) == 1 and inside[0] not in phase.chunks
    return products[-1] if whole and products[-1].packed is None else None


def next_tile_of(access: Access, group: LoopNest, phase: Phase) -> NextTilePrefetch | None:
    ahead = tile_step(access, phase)
    rows = any(a is access for n in group.nodes for a in n.reads.values())
    if not ahead or (rows and access.stride(group.dims[0])):
        return None  # rows follow each other, as the hardware sees
    inside = phase.inside(tuple(a for a in access.strides if access.stride(a)))
    runs = sorted(inside, key=lambda a: -abs(access.stride(a)))
    elements = 1
    while runs and access.stride(runs[-1]) == elements:
        elements *= phase.inner_extent(runs.pop())
    if elements * dtype_bytes(access.tensor.dtype) < LINE_BYTES:
        return None  # a line would be asked for several times
    last = max(at for at, a in enumerate(phase.tile) if access.stride(a))
    return NextTilePrefetch(access, tuple(runs), elements, ahead, phase.tile[last + 1 :])


def tile_step(access: Access, phase: Phase) -> int:
    """Return the distance in elements to the same place of the next tile, 0 if there is none."""
    moving = [a for a in phase.tile if access.stride(a)]
    if not moving or access.opaque:
        return 0
    return access.stride(moving[-1]) * phase.chunks.get(moving[-1], 1)


def first_read(groups: Sequence[LoopNest], tensor: Tensor) -> Access | None:
    """Return how the first of some nests that reads a tensor does."""
    return next((a for g in groups for a in reads_of(g) if a.tensor is tensor), None)


def reads_of(group: LoopNest) -> list[Access]:
    return [a for n in group.nodes for a in n.reads.values()]


def walks(access: Access, group: LoopNest, phase: Phase) -> bool:
    """Return whether a nest's innermost loop, if it has any, walks an access in order."""
    moving = {a for a in access.strides if access.stride(a) and a not in phase.tile}
    if access.opaque or not moving <= set(group.dims):
        return False
    return bool(group.dims) and access.stride(group.dims[-1]) == 1

"""What a product fetches for the next tile, each step of its sums a few lines of it.

A product reads what its lanes walk in the first block of rows and then has it in the cache, rows
and what is transposed before it are read once: memory is busy at the head of a tile and idle behind
it. The last product of a tile spreads the next tile's part over all of its steps. At the head of
each block of rows instead, attention gained 5 % where this gains 12 (Zen 4, from memory). Lines of
results are asked for alike: stores that waited for theirs filled the store queue, 3 % of attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...analysis.iteration_space import Access, Atom
from ...device import LINE_BYTES
from ...kernel_ir.expr import dtype_bytes
from ..plan.kernel_plan import LoopGroup, Phase, Plan
from . import prefetch

# Of a register tile, per line that it writes: with fewer, asking takes longer than waiting. 1x1
# convolutions of 16 channels (half a step) took 8 % longer, of 64 (2 steps) up to 7; attention
# (8 steps) gained 3 to 5 %, 256 channels 4 to 8 (Zen 4).
_STEPS_PER_LINE = 4


@dataclass(frozen=True)
class Sweep:
    """What a tile reads or writes of a tensor: `elements` at each position of the atoms `runs`.

    It is `ahead` elements of where this tile does. The tiles along the atoms `repeats` read the
    same, so that each of them fetches a part.
    """

    access: Access
    runs: tuple[Atom, ...]
    elements: int
    ahead: int
    repeats: tuple[Atom, ...]
    writes: bool = False

    def lines(self) -> int:
        """Return how many lines a run is."""
        return -(-self.elements * dtype_bytes(self.access.tensor.dtype) // LINE_BYTES)

    def count(self, phase: Phase) -> int:
        """Return how many runs there are."""
        return math.prod(phase.inner_extent(a) for a in self.runs)

    def bytes(self, phase: Phase) -> int:
        return self.lines() * self.count(phase) * LINE_BYTES


def sweeper(phase: Phase) -> LoopGroup | None:
    """Return the nest that fetches for the next tile: the last product, if its sums are one loop.

    That is over the whole depth, and not one of packed rows.
    """
    products = [g for g in phase.groups if g.is_product]
    if not products or products[-1].strip_level != 1 or products[-1].beside is not None:
        return None
    inside = products[-1].dims[1:-1]
    whole = len(inside) == 1 and inside[0] not in phase.chunks
    return products[-1] if whole and products[-1].packed is None else None


def sweeps(phase: Phase, plan: Plan) -> list[Sweep]:
    """Return what a phase's `sweeper` fetches of inputs and outputs beyond a core's cache.

    The smaller parts first, while two tiles' and the buffers fit that.
    """
    group = sweeper(phase)
    if group is None:
        return []
    nests = phase.nests()
    reads = (prefetch.first_read(nests, tensor) for tensor in plan.fetched)
    found = [s for a in reads if a is not None and (s := _sweep(a, group, phase)) is not None]
    claimed = plan.claimed if _has_steps_to_spare(group) else ()
    stores = (n.store for g in nests for n in g.nodes if n.stage.out in claimed)
    found += [replace(s, writes=True) for a in stores if (s := _sweep(a, group, phase)) is not None]
    out, taken = [], plan.tile_bytes
    for sweep in sorted(found, key=lambda s: s.bytes(phase)):
        taken += 2 * sweep.bytes(phase)
        if taken <= 2 * plan.cache_bytes:
            out.append(sweep)
    return out


def _has_steps_to_spare(group: LoopGroup) -> bool:
    """Return whether a register tile takes several steps for each line that it writes."""
    dtype = group.nodes[0].stage.out.dtype
    lines = group.rows * group.lanes * dtype_bytes(dtype) // LINE_BYTES
    return group.dims[-2].extent >= _STEPS_PER_LINE * lines


def _sweep(access: Access, group: LoopGroup, phase: Phase) -> Sweep | None:
    ahead = prefetch.tile_step(access, phase)
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
    return Sweep(access, tuple(runs), elements, ahead, phase.tile[last + 1 :])

"""Inputs of the next tile that a product fetches, each step of its sums a few lines of them.

A product reads what its lanes walk in the first block of rows and then has it in the cache, rows
and what is transposed before it are read once: memory is busy at the head of a tile and idle behind
it. The last product of a tile spreads the next tile's part over all of its steps. At the head of
each block of rows instead, attention gained 5 % where this gains 12 (Zen 4, from memory).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..analysis.atoms import Access, Atom
from ..analysis.expr import Tensor, dtype_bytes
from ..device import LINE_BYTES
from . import prefetch
from .plan import LoopGroup, Phase, Plan


@dataclass(frozen=True)
class Sweep:
    """What a tile reads of an input: a run of `elements` at each position of the atoms `runs`.

    It is `ahead` elements of where this tile reads. The tiles along the atoms `repeats` read the
    same, so that each of them fetches a part.
    """

    access: Access
    runs: tuple[Atom, ...]
    elements: int
    ahead: int
    repeats: tuple[Atom, ...]

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
    """Return what a phase's `sweeper` fetches of inputs that are larger than a core's cache.

    The smaller parts first, while two tiles' and the buffers fit that.
    """
    group = sweeper(phase)
    if group is None:
        return []
    found = [s for tensor in plan.fetched if (s := _sweep(tensor, group, phase)) is not None]
    out, taken = [], plan.tile_bytes
    for sweep in sorted(found, key=lambda s: s.bytes(phase)):
        taken += 2 * sweep.bytes(phase)
        if taken <= 2 * plan.cache_bytes:
            out.append(sweep)
    return out


def _sweep(tensor: Tensor, group: LoopGroup, phase: Phase) -> Sweep | None:
    access = prefetch.first_read(phase.nests(), tensor)
    ahead = prefetch.tile_step(access, phase) if access is not None else 0
    rows = any(a is access for n in group.nodes for a in n.reads.values())
    if not ahead or (rows and access.stride(group.dims[0])):
        return None  # rows follow each other, as the hardware sees
    inside = phase.inside(tuple(a for a in access.strides if access.stride(a)))
    runs = sorted(inside, key=lambda a: -abs(access.stride(a)))
    elements = 1
    while runs and access.stride(runs[-1]) == elements:
        elements *= phase.inner_extent(runs.pop())
    if elements * dtype_bytes(tensor.dtype) < LINE_BYTES:
        return None  # a line would be asked for several times
    last = max(at for at, a in enumerate(phase.tile) if access.stride(a))
    return Sweep(access, tuple(runs), elements, ahead, phase.tile[last + 1 :])

"""Inputs of the next tile that the row blocks of a product fetch, each block a part of them.

`prefetch` lets a later nest that walks an input's elements in lanes ask for the next tile's. Of
what is transposed first, or read scalar by scalar, there is none: attention waited for its queries
and keys at the head of each tile. Behind the last product's arithmetic memory is idle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..analysis.atoms import Access, Atom
from ..analysis.expr import dtype_bytes
from . import prefetch
from .plan import LoopGroup, Phase, Plan


@dataclass(frozen=True)
class Sweep:
    """What tiles read of an input: a run of `elements` at each position of the atoms `runs`.

    It is `ahead` elements of where this tile reads.
    """

    access: Access
    runs: tuple[Atom, ...]
    elements: int
    ahead: int


def sweeps(group: LoopGroup, phase: Phase, plan: Plan) -> list[Sweep]:
    """Return what the row blocks of a nest fetch for the next tile: nothing but a last product's.

    Nothing either if two tiles' inputs and buffers are more than a core's cache.
    """
    products = [g for g in phase.groups if g.is_product]
    if not products or products[-1] is not group or group.strip_level != 1 or group.beside:
        return []
    before = phase.groups[: phase.groups.index(group)]
    asked = {id(f.access.tensor) for g in phase.nests() for f in prefetch.fetches(g, phase, plan)}
    found = [
        sweep
        for tensor in plan.fetched
        if id(tensor) not in asked
        if (access := prefetch.first_read(before, tensor)) is not None
        if (sweep := _sweep(access, phase)) is not None
    ]
    taken = sum(_bytes(s, phase) for s in found)
    return found if plan.tile_bytes + 2 * taken <= 2 * plan.cache_bytes else []


def _sweep(access: Access, phase: Phase) -> Sweep | None:
    ahead = prefetch.tile_step(access, phase)
    if not ahead or not access.stride(phase.tile[-1]):
        return None  # the next tile reads the same, which is in the cache
    inside = phase.inside(tuple(a for a in access.strides if access.stride(a)))
    runs = sorted(inside, key=lambda a: -abs(access.stride(a)))
    elements = 1
    while runs and access.stride(runs[-1]) == elements:
        elements *= phase.inner_extent(runs.pop())
    if elements * dtype_bytes(access.tensor.dtype) < prefetch.LINE_BYTES:
        return None  # a line would be asked for several times
    return Sweep(access, tuple(runs), elements, ahead)


def _bytes(sweep: Sweep, phase: Phase) -> int:
    lines = sweep.elements * dtype_bytes(sweep.access.tensor.dtype)
    return lines * math.prod(phase.inner_extent(a) for a in sweep.runs)

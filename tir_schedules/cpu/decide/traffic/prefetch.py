"""Fetch an input ahead of the loop that will need it.

A kernel of several passes reads memory in the first one only; in the others the hardware
prefetchers fall idle. The next nest that walks an input's elements asks for the next tile's part of
it. A tile that fills the cache would be pushed out of it by the next one, and a kernel of one pass
has no such nest: the nest that reads first then asks a few KiB ahead, for arithmetic fills the
reorder buffer and loads behind it start too late. `scripts/bench_memory.py --sizes memory` shows
what each gains once `LoopNest.fetches` is left empty. A product asks for what its lanes read some
steps later, wherever that is, or for the next panel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....analysis.iteration_space import Access
from ....device import CpuDevice
from ....device.profile.thresholds import Thresholds
from ....kernel_ir.expr import Tensor, dtype_bytes
from ...cost.limits import tile_limit
from ...facts.memory.next_tile import (
    first_read,
    is_ahead,
    is_awaited,
    reads_of,
    tile_step,
    walks,
)
from ...facts.shapes import SHAPES
from ...plan.kernel_plan import LoopNest, Phase
from ...plan.memory import TO_L1, Fetch


def fetches(
    group: LoopNest,
    phase: Phase,
    inputs: tuple[Tensor, ...],
    tensors: Sequence[Tensor],
    device: CpuDevice,
) -> list[Fetch]:
    """Return what a nest of a phase fetches: `tensors` for the next tile, and its own steps'.

    Nothing with each of its taps if it walks windows.
    """
    if group.window is not None:
        return []
    turns = device.profile.thresholds
    out, nests = steps_ahead(group, inputs, turns), phase.nests()
    near = [fetch.access for fetch in out]
    for tensor in tensors:
        access = first_read(nests, tensor)
        if access is None or access in near:
            continue
        position = next(n for n, g in enumerate(nests) if access in reads_of(g))
        distance, width = tile_step(access, phase), dtype_bytes(tensor.dtype)
        later = nests[position + 1 :]
        if group.is_product and nests[position] is group:
            distance, later = _panel_step(access, group) or distance, (group,)
        elif len(nests) == 1 or abs(distance) * width > tile_limit(device):
            distance = min(distance, turns.fetch_bytes // width)
            later = nests[position : position + 1]
        walking = (g for g in later if walks(access, g, phase))
        if is_ahead(access, distance) and next(walking, None) is group:
            out.append(Fetch(access, distance))
    return out


def awaited(behind: LoopNest, tensors: Sequence[Tensor], found: Sequence[Fetch]) -> list[Fetch]:
    """Return what an epilogue reads of `tensors`, to be fetched while its sums are made.

    But for what is `found` to be fetched already. The gates of an LSTM of 256 x 32 waited for what
    its inputs add to them: 9.4 ms, 8.5 to 9.0 so (50 steps, 2 threads of Zen 4).
    """
    reads = [a for a in reads_of(behind) if any(a.tensor is t for t in tensors)]
    known = [fetch.access for fetch in found]
    return [Fetch(a, 0, TO_L1) for a in reads if a not in known and is_awaited(a, behind)]


def _panel_step(access: Access, group: LoopNest) -> int:
    """Return the distance to the next panel that a register tile walks, 0 if it has but one."""
    outside = [d for d in group.dims[: group.strip_level] if access.stride(d)]
    return access.stride(outside[-1]) if outside else 0


def steps_ahead(group: LoopNest, inputs: tuple[Tensor, ...], turns: Thresholds) -> list[Fetch]:
    """Return what a product fetches along its lanes: at the end of a panel, of the next.

    A product of a single row fetches panels alone: other sums may be of anything. Steps are 14
    cycles each in a register tile: 16 to 24 were best of 12 to 96 on Zen 4, products with weights
    from memory 4 to 10 % faster than with the next panel fetched into L2, ResNet-50 4 %, ViT 2 %.
    In one row they are 4 cycles: 48 were best of 16 to 96 on Zen 4 when tasks were short; of tasks
    as long as they are now, 1 x 3072 x 768 takes 61 us there with none and 77 with 48.
    """
    inside = group.dims[group.strip_level : -1]
    if not inside or math.prod(a.extent for a in inside) < SHAPES.panel_fetches * turns.fetch_steps:
        return []
    depth, lane = group.dims[-2:]
    if not all(depth in n.reduced for n in group.nodes):
        return []
    if not group.is_product and not turns.row_fetch_steps:
        return []
    steps = turns.fetch_steps if group.is_product else turns.row_fetch_steps

    def in_order(access: Access) -> bool:
        return access.stride(depth) == group.lanes

    reads = [a for a in reads_of(group) if any(a.tensor is t for t in inputs)]
    walked = [a for a in reads if a.stride(lane) == 1 and (group.is_product or in_order(a))]
    ahead = [(a, steps * (a.stride(depth) or 0)) for a in walked]
    return [Fetch(a, elements, TO_L1) for a, elements in ahead if is_ahead(a, elements)]

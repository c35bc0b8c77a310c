"""What a product fetches for the next tile, each step of its sums a few lines of it.

A product reads what its lanes walk in the first block of rows and then has it in the cache, rows
and what is transposed before it are read once: memory is busy at the head of a tile and idle behind
it. The last product of a tile spreads the next tile's part over all of its steps. At the head of
each block of rows instead, attention gained 5 % where this gains 12 (Zen 4, from memory). Lines of
results are asked for alike: stores that waited for theirs filled the store queue, 3 % of attention.
A weight that another product asks for some steps ahead is left to that: the gates of an LSTM of
1024 x 8, 16 MiB of weights, took 660 us a step with all of them asked for by the last, 590 so (2
threads of Emerald Rapids).
"""

from __future__ import annotations

from dataclasses import replace

from ....device import LINE_BYTES, CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...cost.beyond_cache import streaming_inputs, write_allocated
from ...cost.limits import tile_limit
from ...facts.memory.next_tile import first_read, next_tile_of, sweeper
from ...facts.shapes import SHAPES
from ...plan.kernel_plan import LoopNest, Phase, Plan
from ...plan.memory import NextTilePrefetch
from .prefetch import steps_ahead


def next_tile_prefetches(phase: Phase, plan: Plan, device: CpuDevice) -> list[NextTilePrefetch]:
    """Return what a phase's `sweeper` fetches of inputs and outputs beyond a core's cache.

    The smaller parts first, while two tiles' and the buffers fit that.
    """
    group = sweeper(phase)
    if group is None:
        return []
    nests, kernel = phase.nests(), plan.space.kernel
    turns = device.profile.thresholds
    others = (g for g in phase.products() if g is not group)
    left = {f.access.tensor for g in others for f in steps_ahead(g, kernel.inputs, turns)}
    inputs = (tensor for tensor in streaming_inputs(kernel, device) if tensor not in left)
    reads = (first_read(nests, tensor) for tensor in inputs)
    found = [s for a in reads if a is not None and (s := next_tile_of(a, group, phase)) is not None]
    written = write_allocated(kernel, plan.streamed, device) if _has_steps_to_spare(group) else ()
    stores = (n.store for g in nests for n in g.nodes if n.stage.out in written)
    found += [
        replace(s, writes=True) for a in stores if (s := next_tile_of(a, group, phase)) is not None
    ]
    out, taken = [], plan.tile_bytes
    for sweep in sorted(found, key=lambda s: s.bytes(phase)):
        taken += 2 * sweep.bytes(phase)
        if taken <= 2 * tile_limit(device):
            out.append(sweep)
    return out


def _has_steps_to_spare(group: LoopNest) -> bool:
    """Return whether a register tile takes several steps for each line that it writes."""
    dtype = group.nodes[0].stage.out.dtype
    lines = group.rows * group.lanes * dtype_bytes(dtype) // LINE_BYTES
    return group.dims[-2].extent >= SHAPES.next_tile_steps * lines

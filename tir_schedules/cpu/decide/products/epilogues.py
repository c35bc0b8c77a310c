"""Epilogues: nests that take the accumulators of the register tile before them from registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....analysis.iteration_space import Space
from ....device import CpuDevice
from ...facts.products.epilogues import may_follow, values_of_rows
from ...plan.kernel_plan import LoopNest, Phase
from .row_blocks import rows_of


def with_epilogues(
    groups: Sequence[LoopNest], space: Space, phase: Phase, device: CpuDevice
) -> tuple[LoopNest, ...]:
    """Return loop nests in order, what may stand behind a register tile's sum behind it."""
    out: list[LoopNest] = []
    for group in groups:
        if out and may_follow(group, out[-1], space, device.vector_bytes):
            out[-1] = _with_epilogue(out[-1], group, phase, device)
        else:
            out.append(group)
    return tuple(out)


def _with_epilogue(tile: LoopNest, epilogue: LoopNest, phase: Phase, device: CpuDevice) -> LoopNest:
    """Return a register tile with an epilogue; what that reads of a row takes registers too."""
    row, lane = tile.dims[tile.strip_level - 1], tile.dims[-1]
    if epilogue.dims[-1] is not lane:
        dims = tuple(d for d in tile.dims if d in epilogue.dims)
        epilogue = LoopNest(epilogue.nodes, dims, tile.lanes, len(dims) - 1)
    reads = values_of_rows(epilogue, row, lane)
    if reads and tile.is_product:
        rows = rows_of(phase.inner_extent(row), device, reads)
        tile = replace(tile, rows=min(tile.rows, rows))
    return replace(tile, epilogue=epilogue)

"""What of a core's caches each thing may take: one place for the shares that tiles are made by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheBudget:
    """Parts of a cache: n is 1 / n of it. Chosen by `bench_memory.py`, `bench_gemm.py` and kin.

    Of L1: `scores` of a block of rows of attention, `taps` of a window.

    Of L2: `tile`, the buffers of a tile, for the rest is for what streams by; `chunk_eighths`, what
    the longest part of a tile takes, which leaves a quarter of the tile's half to smaller buffers;
    `operand`, one that stays while the other streams past it. `panel`, all of a depth, so that the
    next one has room; `panel_block`, a part of the depth of larger ones. `strips` of an operand
    that comes in lines, `lines` of whole rows in a tile (one may take a third of the tile's half);
    `serial_rows`, the widest result for the rows at hand of those a tile walks; `chain`, the widest
    result of products that follow each other: two are alive, and a panel of a weight.
    """

    scores: int = 2
    taps: int = 3
    tile: int = 2
    chunk_eighths: int = 3
    operand: int = 2
    panel: int = 4
    panel_block: int = 16
    strips: int = 8
    lines: int = 6
    serial_rows: int = 8
    chain: int = 6


BUDGET = CacheBudget()

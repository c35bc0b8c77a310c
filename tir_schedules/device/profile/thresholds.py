"""Where the template's defaults turn over: chosen for a CPU by benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """A CPU's turning points, in tiles, bytes and parallel regions of two threads.

    A kernel is cut until it has `tiles`, and nodes may share a phase that has `least_tiles`; both
    are numbers of the CPU model, never of threads, so that results do not depend on these.
    `crossing_bytes` may live across a barrier. A strip of a row out of L3 or memory takes as long
    as if it were `strip_bytes` wider. Work of `spread_regions` is spread over threads, of
    `cut_regions` is cut so that it has tiles; a tile of `tile_regions` is not worth splitting at
    the price of a barrier. Attention over `online_keys` takes them in blocks, not whole rows
    (`streaming_planner` has a share of it for masks).
    """

    tiles: int
    least_tiles: int
    crossing_bytes: int
    strip_bytes: int
    spread_regions: int
    cut_regions: int
    tile_regions: int
    online_keys: int

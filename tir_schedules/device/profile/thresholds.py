"""Where the template's defaults turn over: chosen for a CPU by benchmark."""

from __future__ import annotations

from dataclasses import dataclass

MAY_BE_NONE = ("row_fetch_steps",)  # the other figures are all positive


@dataclass(frozen=True)
class Thresholds:
    """A CPU's turning points, in the units of their names: results never depend on them.

    Tiles. A kernel is cut until it has `tiles`, and nodes may share a phase that has `least_tiles`;
    both are numbers of the CPU model, never of threads. `crossing_bytes` may live across a barrier.
    Work of `spread_regions` (of two threads) is spread over threads, of `cut_regions` is cut so
    that it has tiles; a tile of `tile_regions` is not worth splitting at the price of a barrier.
    Tiles whose buffers are below `queued_bytes` are made several at once: loads would wait for
    their stores. Tiles that cut sums are run in `summing_tasks`. Positions of a window share what
    they read where a line serves `window_serves`.

    Products. A tile has `row_blocks` blocks of rows (the operand along the lanes comes from L2 that
    often), `few_row_blocks` where tiles are few. A thread may have `uneven` times the rows that it
    must have, `even` times where tiles follow each other along the rows. Sums of up to
    `short_steps` whose results leave L2 have register tiles of at most `short_rows`.

    An image is turned around a pointwise convolution that is a product if the lanes which a line of
    pixels leaves idle take more than `turning_ns` and its bytes: 192 to 64 channels of 14 x 14
    pixels take 43 us as a convolution and 31 as a product, 576 to 160 of 7 x 7 78 and 45 (2 threads
    of a Xeon with AVX-512). The turns alone take a few us.

    Attention. Over `online_keys` keys they are taken in blocks, not whole rows, over `causal_keys`
    if a mask may leave some out. Keys are packed for up to `key_blocks` blocks of rows, at the
    price of `packing_rows` rows.

    Divisions. Lanes are multiplied by a reciprocal where a division takes more than
    `division_worth` times what stands for it.

    Fetches ahead. A register tile asks for `fetch_steps` steps of its depth, a single row for
    `row_fetch_steps` (0: for none), and a kernel of one pass for `fetch_bytes`.

    Streamed stores. A result of `streamed_share` of L3 is stored past the caches if the kernel
    moves `streamed_moved` of L3, in up to `streamed_steps` steps a byte.
    """

    tiles: int
    least_tiles: int
    crossing_bytes: int
    spread_regions: int
    cut_regions: int
    tile_regions: int
    queued_bytes: int
    window_serves: float
    row_blocks: int
    few_row_blocks: int
    uneven: float
    even: float
    short_steps: int
    short_rows: int
    summing_tasks: int
    division_worth: float
    turning_ns: float
    online_keys: int
    causal_keys: int
    key_blocks: int
    packing_rows: float
    fetch_steps: int
    row_fetch_steps: int
    fetch_bytes: int
    streamed_share: float
    streamed_moved: float
    streamed_steps: int

"""Sizes that the template's defaults are made of: counts of lanes, registers, lines and rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShapePolicy:
    """What suits every x86 CPU that was measured, so that it is in no profile.

    With any other sizes results are as right; the tuner's are in the decisions.

    Vectors. Loops have `registers` independent vectors, which hide the latency of an add (4 cycles,
    1 or 2 a cycle) and of the polynomials' chains: one or two are slower on every subgraph of the
    zoo (`scripts/bench_memory.py --sizes cache`, Zen 5). Twice as many where chains are long and
    the axis has `long_strips` of them. A contiguous axis below `narrow` fills too little of a
    register to be preferred; below `scalar` it may stay scalar. Elements up to `picked_apart` apart
    are picked out of whole vectors, of `picked_lanes` at least: 15 instructions for 16 lanes, where
    inserting them takes 31. A vector of fewer than `turned_rows` rows is not worth the shuffles
    that turn it.

    Nests. Outputs are often as far apart as a page is wide, so their lines meet in one set of L1:
    `streams` share a nest. A transposed read is blocked from an extent of `blocked` on. Up to
    `guarded` positions that a condition tells apart have code of their own.

    Tiles. Their lines are whole `lane_chunk`s, or `line_chunk`s, a cache line, where that leaves a
    single tile or too many bytes. A transposed tile has `transposed_blocks` of each side: what it
    reads and writes stays in L1.

    Register tiles. A row has `lane_strips` of lanes in a tile. It is `wide_registers` wide where
    rows collide in L1: six rows of AVX-512, with all but four as many accumulators (Zen 4, 1024 x
    1024 x 1024: 9.6 ms instead of 10.4 with packed rows, 2048 cubed 78 for 83). Fewer than
    `waiting_rows` wait for the multiply-adds of the step before: 4 cycles, two a cycle. A block
    costs `starting_rows` before its first step. Chains of products have `chain_rows` in a tile, for
    each weight passes all of them. A window shares what its positions read from `window_lanes` on.
    Of more than `uneven_blocks` or `uneven_chunks` any shares are even, and to try them all takes
    long.

    Fetches ahead. A register tile fetches for the next tile if it has `next_tile_steps` for each
    line that it writes, or asking takes longer than waiting: 1x1 convolutions of 16 channels (half
    a step) took 8 % longer, of 64 (2 steps) up to 7; attention (8 steps) gained 3 to 5 %, 256
    channels 4 to 8 (Zen 4). Panels shorter than `panel_fetches` of what is asked for ahead stay in
    L1, and the next is fetched into L2 if it comes from memory: with 128 steps attention was 2 %
    slower otherwise, and 4 % without the next one.

    A point of a loop that is not planned takes `point_ns` at least.

    Kernels have up to `stages`: planning takes longer than more of them gain.
    """

    registers: int = 4
    long_strips: int = 4
    narrow: int = 8
    scalar: int = 16
    picked_apart: int = 8
    picked_lanes: int = 4
    turned_rows: int = 4
    streams: int = 2
    blocked: int = 8
    guarded: int = 8
    lane_chunk: int = 64
    line_chunk: int = 16
    transposed_blocks: int = 4
    lane_strips: int = 2
    wide_registers: int = 4
    waiting_rows: int = 4
    starting_rows: float = 0.5
    chain_rows: int = 8
    window_lanes: int = 4
    uneven_blocks: int = 256
    uneven_chunks: int = 4096
    next_tile_steps: int = 4
    panel_fetches: int = 8
    point_ns: float = 1.0
    stages: int = 96


SHAPES = ShapePolicy()

"""The rows of a register tile, and how many such blocks of rows a tile of a product has."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from ....device import PAGE_BYTES, CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...facts.products.register_file import LANE_REGISTERS, MOST_ROWS, most_rows
from ...facts.shapes import SHAPES


def rows_of(
    extent: int,
    device: CpuDevice,
    beside: int = 0,
    spans: Sequence[range] | None = None,
    registers: int = LANE_REGISTERS,
    most: int = MOST_ROWS,
) -> int:
    """Return the rows of a register tile: as many as registers hold, or what leaves no small rest.

    197 rows are 16 blocks of 12 and one of 5 rather than 14 of 14 and one of 1, and 32 are two of
    11 and one of 10: as many blocks that cost the same are even, for a small one waits for the
    other operand where that streams. `beside` is what is known of a row when the sum begins and is
    used behind it. The sums go over each of `spans` of the rows; without, once over all of them.
    Lanes are `registers` of each row. Never more than `most`.
    """
    most = min(most_rows(device, beside, registers), extent, most)
    summed = (range(extent),) if spans is None else spans

    def cost(rows: int) -> tuple[float, int]:
        return sum(_span_cost(span, rows) for span in summed), -(-extent // rows)

    return min(range(1, most + 1), key=cost)


@functools.lru_cache(maxsize=1 << 16)
def _blocks_cost(extent: int, rows: int) -> float:
    whole, rest = divmod(extent, rows)
    return whole * block_cost(rows) + (block_cost(rest) if rest else 0.0)


def _span_cost(span: range, rows: int) -> float:
    """Return what blocks of so many rows, from row 0 on, take of those of a span."""
    first = min(-span.start % rows, len(span))
    return (block_cost(first) if first else 0.0) + _blocks_cost(len(span) - first, rows)


def block_cost(rows: int) -> float:
    """Return what a register tile takes, in rows of a full one."""
    return max(rows, SHAPES.waiting_rows) + SHAPES.starting_rows


def collide(rows: int, apart: int, device: CpuDevice) -> bool:
    """Return whether a line of each row does not fit in L1, and costs: rows `apart` bytes."""
    if apart == 0 or device.profile.aliasing_ns <= 0:
        return False
    places = PAGE_BYTES // math.gcd(apart, PAGE_BYTES)
    return -(-rows // places) > device.l1_bytes // PAGE_BYTES


def wide_lanes(dtype: str, device: CpuDevice) -> int:
    """Return the lanes of a register tile of few and wide rows."""
    return SHAPES.wide_registers * device.vector_bytes // dtype_bytes(dtype)


def registers_across(rows: int, apart: int, columns: int, dtype: str, device: CpuDevice) -> int:
    """Return how many registers a row of a register tile should be wide.

    More than usual if rows `apart` elements collide, fewer do not, and the columns fill them.
    """
    narrow, wide = (
        rows_of(rows, device, registers=n) for n in (LANE_REGISTERS, SHAPES.wide_registers)
    )
    step = apart * dtype_bytes(dtype)
    if columns % wide_lanes(dtype, device) or not collide(narrow, step, device):
        return LANE_REGISTERS
    return LANE_REGISTERS if collide(wide, step, device) else SHAPES.wide_registers


def row_chunk(extent: int, rows: int, others: int, few: bool, device: CpuDevice) -> int:
    """Return the rows of a tile: some blocks, of `few` tiles as many as leave no thread idle.

    Threads get the tiles in order, `others` of each chunk, so that the larger ones are one
    thread's: chunks are even.
    """
    turns = device.profile.thresholds
    blocks = -(-extent // rows)
    chunks = -(-blocks // (turns.few_row_blocks if few else turns.row_blocks))

    def most(count: int) -> int:
        """Return the rows of the thread that has most."""
        return _largest_share(sizes_of(extent, -(-blocks // count) * rows) * others, device)

    if few and chunks <= SHAPES.uneven_chunks:
        counts = range(1, 2 * chunks + 1)
        best = min(map(most, counts))
        # A thread that is idle for less costs no more than another pass of the other operand.
        near = [n for n in counts if most(n) <= turns.uneven * best]
        chunks = min(near, key=lambda n: (abs(n - chunks), n))
    return -(-blocks // chunks) * rows


def even_chunk(extent: int, chunk: int, others: int, device: CpuDevice) -> int:
    """Return about so many rows of a tile, but so that threads have even shares.

    `others` tiles of each chunk follow each other: threads get chunks, and parts of one.
    """

    def most(size: int) -> float:
        """Return what the thread takes that has most, in rows of full register tiles."""
        costs = (_blocks_cost(n, rows_of(n, device)) for n in sizes_of(extent, size))
        return _largest_share([cost for cost in costs for _ in range(others)], device)

    chunks, even = -(-extent // chunk), device.profile.thresholds.even
    if device.threads <= (even - 1) * chunks:
        return chunk  # one more is no more than that
    sizes = [chunk, *(-(-extent // count) for count in range(chunks, 2 * chunks + 1))]
    best = min(map(most, sizes))
    return next(size for size in sizes if most(size) <= even * best)


def evenest(
    extent: int, chunk: int, rows: int, lanes: Sequence[int], device: CpuDevice
) -> tuple[bool, int]:
    """Return whether chunks of rows go outside those of `lanes`, and their size.

    By lanes of unlike sizes threads get unlike shares: of 131 columns 96 and 35. Then rows are
    shared out, in whole blocks of `rows`.
    """

    def most(outside: bool, size: int) -> int:
        sizes = sizes_of(extent, size)
        pairs = itertools.product(sizes, lanes) if outside else itertools.product(lanes, sizes)
        return _largest_share([one * other for one, other in pairs], device)

    blocks = -(-extent // rows)
    if blocks * len(lanes) > SHAPES.uneven_blocks:
        return False, chunk
    usual = most(False, chunk)
    even = device.profile.thresholds.even
    shares = {n: most(True, n) for n in (-(-blocks // k) * rows for k in range(2, blocks + 1))}
    best = min(shares.values(), default=usual)
    if best * even > usual:
        return False, chunk
    near = [n for n, share in shares.items() if share <= even * best]
    return True, min(near, key=lambda n: (abs(n - chunk), n))


def sizes_of(extent: int, chunk: int) -> list[int]:
    return [min(chunk, extent - start) for start in range(0, extent, chunk)]


def _largest_share(costs: Sequence[float], device: CpuDevice) -> float:
    """Return the largest sum of a thread's: they get equal counts of tiles, in order."""
    share = -(-len(costs) // device.threads)
    return max(sum(costs[at : at + share]) for at in range(0, len(costs), share))

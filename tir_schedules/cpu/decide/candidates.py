"""Values of knobs that may be worth a trial on any x86 CPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CandidatePolicy:
    """What a space has beside the defaults; legality and the tuner choose among it.

    `lanes` are powers of two, as registers are wide; sums are combined in `few_lanes` of them at
    most, and a tile that is cut has chunks of those from a line's half on, `wide_lanes`. `rows` are
    those of register tiles that leave registers for the weights, `blocks` register tiles of a tile
    of attention, `key_strips` the registers that its blocks of keys are wide. `tasks` are of a
    thread. Up to `orders` of a nest's loops, and as many of a tile's axes, are tried. Fetches are
    `fetched` times as far ahead, or a part.
    """

    lanes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    few_lanes: int = 16
    wide_lanes: int = 8
    rows: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 14)
    tasks: tuple[int, ...] = (1, 2, 8, 64)
    blocks: tuple[int, ...] = (1, 2, 4, 8)
    key_strips: tuple[int, ...] = (1, 2, 4, 8)
    orders: int = 6
    fetched: tuple[int, ...] = (2, 4)


CANDIDATES = CandidatePolicy()

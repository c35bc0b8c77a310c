"""How attention runs in one pass over blocks of keys: the sizes of its tiles. No TensorIR here.

Each block of scores lives for a moment: rows keep the largest score and the sum of exponentials so
far, and what they have summed of the values is scaled down when a larger score comes (Milakov &
Gimelshein, arXiv 1805.02867; in tiles: FlashAttention, arXiv 2205.14135).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...kernel_ir.expr import dtype_bytes
from ...patterns.match_attention import Attention

LOOKED_REGISTERS = 4  # of scores that are looked at together


@dataclass(frozen=True)
class StreamingAttention:
    """Attention in tiles of `blocks` register tiles of `rows`, over `block_keys` keys at a time.

    Keys are packed in panels of `lanes`; they are `turned` if they come contiguous along the depth.
    A register tile takes `column_lanes` of the values; `wide` are the lanes of one register. Of
    `masked` attention, blocks are left out where a mask hides all their keys.
    """

    attention: Attention
    rows: int
    blocks: int
    block_keys: int
    lanes: int
    column_lanes: int
    wide: int
    turned: bool
    masked: bool

    def __str__(self) -> str:
        at = self.attention
        kept = [f"{a.extent} {name}" for a, name in ((at.depth, "deep"), (at.column, "columns"))]
        skips = ", blocks that a mask hides left out" if self.masked else ""
        return (
            f"attention in one pass: {self.all_tiles} tiles of {self.blocks} x {self.rows} rows of "
            f"{at.row}, {self.block_keys} of {at.key} keys at a time in panels of {self.lanes}, "
            f"{', '.join(kept)}{skips}"
        )

    @property
    def looked_lanes(self) -> int:
        """The scores of a row that are looked at together."""
        return LOOKED_REGISTERS * self.wide

    @property
    def tile_rows(self) -> int:
        return self.rows * self.blocks

    @property
    def tiles(self) -> int:
        """How many tiles the rows of one batch are; the last one overlaps the one before."""
        return -(-self.attention.row.extent // self.tile_rows)

    @property
    def all_tiles(self) -> int:
        return self.tiles * math.prod(a.extent for a in self.attention.batch)

    @property
    def whole_blocks(self) -> int:
        return self.attention.key.extent // self.block_keys - self._has_long_end

    @property
    def last_keys(self) -> int:
        """The keys of a block behind the whole ones, 0 or no fewer than `lanes`."""
        return self.attention.key.extent - self.whole_blocks * self.block_keys

    @property
    def most_keys(self) -> int:
        return max(self.block_keys, self.last_keys)

    @property
    def _has_long_end(self) -> bool:
        return 0 < self.attention.key.extent % self.block_keys < self.lanes

    @property
    def tile_bytes(self) -> int:
        at = self.attention
        panels = -(-self.most_keys // self.lanes) * self.lanes * at.depth.extent
        rows = self.tile_rows * (at.depth.extent + at.column.extent + 3)
        return (panels + rows + self.rows * self.most_keys) * dtype_bytes(at.dtype)

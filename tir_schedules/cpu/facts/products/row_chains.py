"""Products of a phase that follow each other along the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.iteration_space import Atom, Node
from ....analysis.kernel_facts import is_large_contraction
from ..shapes import SHAPES
from .register_tile import RegisterTile, register_tile


def row_chain(
    nodes: Sequence[Node], tile: Sequence[Atom], chunks: dict[Atom, int]
) -> list[RegisterTile]:
    """Return the products of a phase if they are a chain along the rows of its tiles, else none."""
    products = [register_tile(n) for n in nodes if is_large_contraction(n.stage)]
    if len(products) < 2 or None in products:
        return []
    row = products[0].row
    if row not in tile or chunks.get(row, row.extent) < SHAPES.chain_rows:
        return []
    still = all(p.row is row and all(p.weight.stride(a) == 0 for a in tile) for p in products)
    return products if still else []

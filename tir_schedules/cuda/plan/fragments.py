"""How the fragments of a product lie over warps: what of its tiles and its result each has."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.iteration_space import Node
from .axes import FRAGMENT
from .kernel_plan import Phase
from .nest import Nest
from .tile import Tile


@dataclass(frozen=True)
class Fragments:
    """A product of `left`, a tile of its rows, and `right`, a tile of its columns.

    Each warp has `down` by `across` fragments of the result, the last perhaps of no elements.
    """

    product: Node
    left: Node
    right: Node
    down: int
    across: int


def fragments_of(nest: Nest, phase: Phase) -> Fragments | str:
    """Return the fragments of a nest, or why there are none."""
    (product,) = nest.nodes
    axes = [axis for axis in dict.fromkeys(map(phase.axis_of, product.spatial)) if axis.block > 1]
    tiles = [e.producer for e in phase.space.incoming.get(product, ())]
    tiles = [tile for tile in tiles if isinstance(tile.stage.out, Tile)]
    if len(axes) != 2 or len(tiles) != 2:
        return f"{product.stage.name} is no product of two tiles, of rows and columns"
    rows, columns = axes
    left = [tile for tile in tiles if rows.meets(tile.atoms) and not columns.meets(tile.atoms)]
    right = [tile for tile in tiles if columns.meets(tile.atoms) and not rows.meets(tile.atoms)]
    if len(left) != 1 or len(right) != 1:
        return f"{product.stage.name} has no tile of rows and one of columns"
    if min(nest.warps) < 1:
        return f"{nest.warps} warps of {rows} by {columns}"
    down, across = (
        -(-axis.block // (warps * FRAGMENT)) for axis, warps in zip(axes, nest.warps, strict=True)
    )
    return Fragments(product, left[0], right[0], down, across)

"""Blocks for products: operands in tiles of shared memory, results in registers of the threads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...analysis.iteration_space import Node, Space
from ...device.cuda import WARP
from ..facts.accesses import vector_width
from ..facts.tiles import HALVES, is_tiled
from ..plan.decisions import PhaseDecisions, SpreadDecisions
from ..plan.tile import Tile
from .axes import Views
from .layouts import next_power
from .numbered import Numbers
from .policy import BLOCKS


@dataclass(frozen=True)
class _Sides:
    """The axes of a product by their numbers: summed over, of its rows, of its columns, others.

    Of several that are summed over the longest goes in steps, of others each step has the whole.
    """

    sums: int
    rows: int
    columns: int
    others: tuple[int, ...]


def product_of(space: Space) -> Node | None:
    """Return the one product of tiles of a launch, None if there is none or are several."""
    found = [node for node in space.nodes if is_tiled(node.stage)]
    return found[0] if len(found) == 1 else None


def products(
    space: Space,
    numbers: Numbers,
    axes: Sequence[Views],
    cuttable: Sequence[bool],
    nests: Sequence[Sequence[Node]],
) -> Iterator[Iterable[PhaseDecisions]]:
    """Yield decisions of a launch with a product, tile by tile."""
    product = product_of(space)
    tiles = [e.producer for e in space.incoming.get(product, ()) if _is_operand(e.producer)]
    sides = _sides(product, tiles, axes)
    if sides is None:
        return
    fed = [e.producer for tile in tiles for e in space.incoming.get(tile, ())]
    ordered = _ordered(nests, product, space)
    made = _Ways(space, numbers, axes, cuttable, ordered, tiles, fed, sides)
    yield from made.by_points()
    if all(tile.stage.out.dtype in HALVES for tile in tiles):
        yield from made.by_fragments(product)


@dataclass(frozen=True)
class _Ways:
    """A product's kernel, and the ways it may be laid over blocks and threads."""

    space: Space
    numbers: Numbers
    axes: Sequence[Views]
    cuttable: Sequence[bool]
    nests: Sequence[Sequence[Node]]
    tiles: Sequence[Node]
    fed: Sequence[Node]  # what is made in the kernel, and tiles are filled with
    sides: _Sides

    def by_points(self) -> Iterator[Iterable[PhaseDecisions]]:
        for shape, blocks in self._blocks(BLOCKS.tiles):
            yield self._steps(blocks, BLOCKS.steps, shape[2], shape[3])

    def by_fragments(self, product: Node) -> Iterator[Iterable[PhaseDecisions]]:
        """Yield ways of tensor cores, whose result goes through shared memory."""
        for shape, blocks in self._blocks(BLOCKS.fragments):
            threads = WARP * shape[2] * shape[3]
            across, warps = min(BLOCKS.across, threads), (product, shape[2:])
            yield self._steps(blocks, BLOCKS.fragment_steps, threads // across, across, warps)

    def _steps(
        self,
        blocks: Sequence[int],
        steps: Sequence[int],
        down: int,
        across: int,
        warps: tuple[Node, tuple[int, int]] | None = None,
    ) -> Iterator[PhaseDecisions]:
        """Yield ways of one tile: first with steps of the size in the middle."""
        for step in sorted(steps, key=lambda step: step != steps[len(steps) // 2]):
            yield from self._phases(self._stepped(blocks, step), down, across, warps)

    def _blocks(self, shapes: Sequence[tuple]) -> Iterator[tuple[tuple, list[int]]]:
        extents = [math.prod(a.extent for a in axis[0]) for axis in self.axes]
        for shape in shapes:
            pairs = list(zip((self.sides.rows, self.sides.columns), shape[:2], strict=True))
            if any(self.cuttable[n] and size > 2 * next_power(extents[n]) for n, size in pairs):
                continue
            blocks = [1 if cut else n for cut, n in zip(self.cuttable, extents, strict=True)]
            for n, size in pairs:
                blocks[n] = min(size, extents[n]) if self.cuttable[n] else extents[n]
            yield shape, blocks

    def _stepped(self, blocks: Sequence[int], step: int) -> list[int]:
        extent = math.prod(a.extent for a in self.axes[self.sides.sums][0])
        return [min(step, extent) if n == self.sides.sums else b for n, b in enumerate(blocks)]

    def _phases(
        self,
        blocks: Sequence[int],
        down: int,
        across: int,
        warps: tuple[Node, tuple[int, int]] | None = None,
    ) -> Iterator[PhaseDecisions]:
        """Yield a way whose tiles are loaded a step ahead, and one of which they are not."""
        sides, axes = self.sides, self.axes
        last = [view[-1].extent for view in axes[sides.columns]]
        width = next(w for w in (4, 2, 1) if not any(n % w for n in (*last, blocks[sides.columns])))
        spreads = [SpreadDecisions(sides.sums, 1)]
        spreads += [SpreadDecisions(n, 1) for n in sides.others]
        spreads += [SpreadDecisions(sides.rows, down)]
        spreads += [SpreadDecisions(sides.columns, across, width)]
        own = {t: _filling(t, axes, blocks, sides, down * across) for t in self.tiles}
        shared = dict.fromkeys((*self.fed, *self.tiles, *(() if warps is None else warps[:1])))
        made = self.numbers.phase(
            axes, blocks, spreads, self.nests, list(shared), own=own, serial=sides.sums, warps=warps
        )
        yield replace(made, ahead=True)
        yield made


def _is_operand(node: Node) -> bool:
    return isinstance(node.stage.out, Tile)


def _sides(product: Node, tiles: Sequence[Node], axes: Sequence[Views]) -> _Sides | None:
    """Return which axis is which, None if some are none of these."""

    def has(node: Node, axis: Views) -> bool:
        return any(a in view for view in axis for a in node.atoms)

    if len(tiles) != 2:
        return None
    sums, left, right, others = [], [], [], []
    for number, axis in enumerate(axes):
        if any(a in view for view in axis for a in product.reduced):
            sums.append(number)
        elif has(tiles[0], axis) and not has(tiles[1], axis):
            left.append(number)
        elif has(tiles[1], axis) and not has(tiles[0], axis):
            right.append(number)
        else:
            others.append(number)
    if not sums or not left or not right:
        return None
    sums.sort(key=lambda n: -math.prod(a.extent for a in axes[n][0]))
    last = {
        n: min((product.store.strides.get(v[-1], 0) or math.inf) for v in axes[n])
        for n in (*left, *right)
    }
    rows, columns = (min(side, key=lambda n: last[n]) for side in (left, right))
    if last[rows] < last[columns]:
        rows, columns = columns, rows
    rest = (n for n in (*left, *right, *others) if n not in (rows, columns))
    return _Sides(sums[0], rows, columns, (*sums[1:], *sorted(rest)))


def _ordered(nests: Sequence[Sequence[Node]], product: Node, space: Space) -> list[Sequence[Node]]:
    """Return the nests, those of the product's sum side by side."""
    behind: set[Node] = set()
    for node in space.nodes:
        if any(e.producer is product or e.producer in behind for e in space.incoming.get(node, ())):
            behind.add(node)
    summed = set(product.reduced)

    def rank(nest: Sequence[Node]) -> int:
        if nest[0] in behind:
            return 2
        return 1 if summed & set(nest[0].atoms) else 0

    return sorted(nests, key=rank)


def _filling(
    tile: Node,
    axes: Sequence[Views],
    blocks: Sequence[int],
    sides: _Sides,
    threads: int,
) -> tuple[SpreadDecisions, ...]:
    """Return how threads fill a tile: neighbours along the lines of what it is read from."""
    has = [n for n, axis in enumerate(axes) if any(a in view for view in axis for a in tile.atoms)]
    cut = [n for n in has if n in (sides.sums, sides.rows, sides.columns)]
    steps = {
        n: min(
            (abs(access.strides.get(view[-1], 0)) or math.inf)
            for access in tile.reads.values()
            for view in axes[n]
            if view[-1] in tile.atoms
        )
        if tile.reads
        else math.inf
        for n in cut
    }
    run = {
        n: min(blocks[n], max(v[-1].extent for v in axes[n] if v[-1] in tile.atoms)) for n in cut
    }
    along = min(cut, key=lambda n: (steps[n], -run[n]))
    width = 1
    for access in tile.reads.values():
        for view in axes[along]:
            if view[-1] in tile.atoms and access.strides.get(view[-1]) == 1:
                width = max(width, vector_width(access, view[-1]))
    whole = math.gcd(blocks[along], *(v[-1].extent for v in axes[along] if v[-1] in tile.atoms))
    width = next(w for w in (8, 4, 2, 1) if w <= width and whole % w == 0)
    first = min(threads, next_power(-(-blocks[along] // width)))
    (other,) = [n for n in cut if n != along]
    rest = [SpreadDecisions(n, 1) for n in has if n not in cut]
    return (*rest, SpreadDecisions(other, threads // first), SpreadDecisions(along, first, width))

"""Blocks for products: operands in tiles of shared memory, results in registers of the threads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...analysis.iteration_space import Atom, Node, Space
from ...device.cuda import WARP
from ..facts.accesses import vector_width
from ..facts.halves import HALVES
from ..facts.tiles import is_tiled
from ..plan.decisions import PhaseDecisions, SpreadDecisions
from ..plan.tile import Tile
from .axes import Views
from .layouts import next_power
from .numbered import Numbers, shared_nodes
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


@dataclass(frozen=True)
class _Product:
    """A product with its tiles, its axes, and how many products are upstream of each other."""

    node: Node
    tiles: tuple[Node, ...]
    sides: _Sides
    level: int


def has_product(space: Space) -> bool:
    """Return whether a launch has a product of tiles."""
    return any(is_tiled(node.stage) for node in space.nodes)


def products(
    space: Space,
    numbers: Numbers,
    axes: Sequence[Views],
    cuttable: Sequence[bool],
    nests: Sequence[Sequence[Node]],
) -> Iterator[Iterable[PhaseDecisions]]:
    """Yield decisions of a launch with products, tile by tile.

    Of several each goes in steps of its own, one behind the other, over rows that all have.
    """
    levels, found = _levels(space), []
    for node in (n for n in space.nodes if is_tiled(n.stage)):
        tiles = tuple(e.producer for e in space.incoming.get(node, ()) if _is_operand(e.producer))
        sides = _sides(node, tiles, axes)
        if sides is None:
            return
        found.append(_Product(node, tiles, sides, levels[node]))
    if len({product.sides.rows for product in found}) > 1:
        return
    alike = {product.level: product.sides for product in found}
    if any(alike[product.level] != product.sides for product in found):
        return
    made = _Ways(space, numbers, axes, cuttable, _ordered(nests, found, levels), found)
    yield from made.by_points()
    if all(t.stage.out.dtype in HALVES for product in found for t in product.tiles):
        yield from made.by_fragments()


def _levels(space: Space) -> dict[Node, int]:
    """Return how many products are upstream of each node, one behind the other."""
    found: dict[Node, int] = {}
    for node in space.nodes:
        edges = space.incoming.get(node, ())
        before = (found[e.producer] + is_tiled(e.producer.stage) for e in edges)
        found[node] = max(before, default=0)
    return found


@dataclass(frozen=True)
class _Ways:
    """The kernel of products, and the ways it may be laid over blocks and threads."""

    space: Space
    numbers: Numbers
    axes: Sequence[Views]
    cuttable: Sequence[bool]
    nests: Sequence[Sequence[Node]]
    products: Sequence[_Product]

    @property
    def last(self) -> _Product:
        return self.products[-1]

    def by_points(self) -> Iterator[Iterable[PhaseDecisions]]:
        for shape, blocks in self._blocks(BLOCKS.tiles):
            yield self._steps(blocks, BLOCKS.steps, shape[2], shape[3])

    def by_fragments(self) -> Iterator[Iterable[PhaseDecisions]]:
        """Yield ways of tensor cores, whose results go through shared memory."""
        for shape, blocks in self._blocks(BLOCKS.fragments):
            threads = WARP * shape[2] * shape[3]
            across = min(BLOCKS.across, threads)
            warps = {product.node: shape[2:] for product in self.products}
            yield self._steps(blocks, BLOCKS.fragment_steps, threads // across, across, warps)

    def _steps(
        self,
        blocks: Sequence[int],
        steps: Sequence[int],
        down: int,
        across: int,
        warps: Mapping[Node, tuple[int, int]] = MappingProxyType({}),
    ) -> Iterator[PhaseDecisions]:
        """Yield ways of one tile: first with steps of the size in the middle."""
        for step in sorted(steps, key=lambda step: step != steps[len(steps) // 2]):
            yield from self._phases(self._stepped(blocks, step), down, across, warps)

    def _blocks(self, shapes: Sequence[tuple]) -> Iterator[tuple[tuple, list[int]]]:
        sides = self.last.sides
        extents = [math.prod(a.extent for a in axis[0]) for axis in self.axes]
        for shape in shapes:
            pairs = list(zip((sides.rows, sides.columns), shape[:2], strict=True))
            if any(self.cuttable[n] and size > 2 * next_power(extents[n]) for n, size in pairs):
                continue
            blocks = [1 if cut else n for cut, n in zip(self.cuttable, extents, strict=True)]
            for n, size in pairs:
                blocks[n] = min(size, extents[n]) if self.cuttable[n] else extents[n]
            yield shape, blocks

    def _stepped(self, blocks: Sequence[int], step: int) -> list[int]:
        found = list(blocks)
        for n in {product.sides.sums for product in self.products}:
            found[n] = min(step, math.prod(a.extent for a in self.axes[n][0]))
        return found

    def _phases(
        self, blocks: Sequence[int], down: int, across: int, warps: Mapping[Node, tuple[int, int]]
    ) -> Iterator[PhaseDecisions]:
        """Yield a way whose tiles are loaded a step ahead, and one of which they are not."""
        ways = {
            product.level: self._spreads(product.sides, blocks, down, across)
            for product in self.products
        }
        own: dict[Node, tuple[SpreadDecisions, ...]] = {}
        for nest in self.nests:
            way = self._way(nest, ways)
            if way is None:
                return
            if way is not ways[self.last.level]:
                own[nest[0]] = way
        fed: dict[Node, None] = {}
        for product in self.products:
            for tile in product.tiles:
                own[tile] = _filling(tile, self.axes, blocks, product.sides, down * across)
                fed.update((e.producer, None) for e in self.space.incoming.get(tile, ()))
        tiles = (tile for product in self.products for tile in product.tiles)
        shared = dict.fromkeys((*fed, *tiles, *warps, *shared_nodes(self.space)))
        made = self.numbers.phase(
            self.axes,
            blocks,
            ways[self.last.level],
            self.nests,
            list(shared),
            own=own,
            serial={product.sides.sums for product in self.products},
            warps=warps,
        )
        yield replace(made, ahead=True)
        yield made

    def _spreads(
        self, sides: _Sides, blocks: Sequence[int], down: int, across: int
    ) -> tuple[SpreadDecisions, ...]:
        """Return how the points of one product, and of what is around it, go over threads."""
        last = [view[-1].extent for view in self.axes[sides.columns]]
        width = next(w for w in (4, 2, 1) if not any(n % w for n in (*last, blocks[sides.columns])))
        elsewhere = {n for p in self.products for n in (p.sides.sums, p.sides.columns)}
        rest = (n for n in sides.others if n not in elsewhere - {sides.sums, sides.columns})
        return (
            SpreadDecisions(sides.sums, 1),
            *(SpreadDecisions(n, 1) for n in rest),
            SpreadDecisions(sides.rows, down),
            SpreadDecisions(sides.columns, across, width),
        )

    def _way(
        self, nest: Sequence[Node], ways: Mapping[int, tuple[SpreadDecisions, ...]]
    ) -> tuple[SpreadDecisions, ...] | None:
        """Return the first of the ways that has all axes of a nest."""
        atoms = set(nest[0].atoms)
        needed = {
            n for n, axis in enumerate(self.axes) if any(a in atoms for view in axis for a in view)
        }
        fitting = (way for way in ways.values() if needed <= {s.axis for s in way})
        return next(fitting, None)


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


def _ordered(
    nests: Sequence[Sequence[Node]], found: Sequence[_Product], levels: Mapping[Node, int]
) -> list[Sequence[Node]]:
    """Return the nests, those of each level's sums side by side, others before or behind them."""
    summed: dict[int, set[Atom]] = {}
    for product in found:
        summed.setdefault(product.level, set()).update(product.node.reduced)

    def rank(nest: Sequence[Node]) -> int:
        atoms, level = set(nest[0].atoms), max(levels[node] for node in nest)
        within = [at for at, sums in summed.items() if sums & atoms]
        return 2 * within[0] + 1 if within else 2 * level

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

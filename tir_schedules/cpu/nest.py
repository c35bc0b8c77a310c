"""What the parts of a loop nest's emission share: its group, where it stands, its reductions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import ir, tirx

from ..analysis.atoms import Atom, Node, Space
from .emit_expr import INDEX
from .plan import LoopGroup, Phase
from .storage import Position, Storage


@dataclass
class Reduce:
    """A reduction in a nest: `level` is where its accumulator is initialised and stored.

    `lanes` accumulate in registers, one result a level; a stream accumulates into its own storage,
    element by element of `after`, the spatial loops inside the first reduced one. `width` is the
    lanes of each row's accumulator. `outer` are accumulators that `acc` will be added to.
    """

    node: Node
    level: int
    after: tuple[Atom, ...]
    in_lanes: bool
    acc: ir.Var | None = None
    width: int = 1
    outer: list[ir.Var] = field(default_factory=list)


class Nest:
    """A `LoopGroup` at one tile position. `rows` are emitted together, `row` is the one at hand."""

    def __init__(
        self,
        space: Space,
        phase: Phase,
        group: LoopGroup,
        storage: Storage,
        outer: dict[Atom, ir.Expr],
    ) -> None:
        self.phase, self.group, self.storage = phase, group, storage
        loose = {(id(e.producer), id(e.consumer)): e.loose for e in space.edges}
        self.position = Position(phase, outer, loose)
        self.dims = group.dims
        self.vector = group.dims[-1] if group.dims else None
        self.strip_at = group.strip_level if group.dims else 0
        self.reduces = [self._reduce(n) for n in group.nodes if self.is_reduced(n)]
        self.rows, self.row = 1, 0

    def is_reduced(self, node: Node) -> bool:
        return any(d in node.reduced for d in self.dims)

    def reduce_of(self, node: Node) -> Reduce | None:
        return next((r for r in self.reduces if r.node is node), None)

    def in_strip(self, reduce: Reduce) -> bool:
        """Return whether the accumulators stay in the registers of one strip."""
        stripped = self.strip_at < len(self.dims) - 1
        return reduce.in_lanes and self.vector not in reduce.node.reduced and stripped

    def nested(self, level: int) -> list[Reduce]:
        """Return the scalar sums that go on inside `level` loops, at the next of them."""
        if self.group.lanes > 1 or level >= len(self.dims):
            return []
        return [r for r in self.reduces if r.level < level and self._sums_over(r, level)]

    def blocked(self) -> list[Reduce]:
        """Return the scalar sums over the innermost loop."""
        return [r for r in self.reduces if self._sums_over(r, len(self.dims) - 1)]

    def _sums_over(self, reduce: Reduce, level: int) -> bool:
        if not reduce.in_lanes or self.dims[level] not in reduce.node.reduced:
            return False
        dtype = reduce.node.stage.value.dtype
        return reduce.node.stage.reduction.kind == "sum" and dtype.startswith("float")

    def _reduce(self, node: Node) -> Reduce:
        level = next(i for i, d in enumerate(self.dims) if d in node.reduced)
        after = tuple(d for d in self.dims[level:] if d not in node.reduced)
        strip = self.strip_at < len(self.dims) - 1
        if strip and after == (self.vector,):
            return Reduce(node, level, (), True)
        return Reduce(node, level, after, not after)

    def extent(self, atom: Atom) -> ir.Expr:
        """Return the loop extent, shorter in the last chunk of a ragged split."""
        chunk = self.phase.inner_extent(atom)
        if atom not in self.phase.chunks or atom.extent % chunk == 0:
            return tirx.IntImm(INDEX, chunk)
        left = tirx.IntImm(INDEX, atom.extent) - self.position.outer[atom] * chunk
        return tirx.Min(tirx.IntImm(INDEX, chunk), left)

    def store(self, node: Node, value: ir.Expr) -> tirx.Stmt:
        if node in self.phase.partial:
            piece = self.position.outer[self.phase.tile[0]]
            return self.storage.store_partial(node, value, piece, self.position)
        return self.storage.store(node, value, self.position)


def halves(extent: int) -> list[int]:
    """Return powers of two, largest first, that add up to `extent`."""
    bits = range(extent.bit_length() - 1, -1, -1)
    return [1 << bit for bit in bits if extent >> bit & 1]


def sequence(stmts: list[tirx.Stmt]) -> tirx.Stmt:
    return stmts[0] if len(stmts) == 1 else tirx.SeqStmt(stmts)

"""What the parts of a loop nest's emission share: its group, where it stands, its reductions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import ir, tirx

from ...analysis.iteration_space import Atom, Node, Space
from ...kernel_ir.expr import Expr
from ...tensor_ir.numbers import INDEX, total
from ..facts import guards
from ..facts.nest_order import accumulation
from ..facts.padding import padding_of
from ..plan.kernel_plan import LoopNest, Phase
from .access.storage import Position, Storage

_TERMS = 256  # of one running float sum: of 16,000 equal float32 terms it is off by 1.5e-4


@dataclass
class Reduce:
    """A reduction in a nest: `level` is where its accumulator is initialised and stored.

    `lanes` accumulate in registers, one result a level; a stream accumulates into its own storage,
    element by element of `after`, the spatial loops inside the first reduced one. `accs` are the
    accumulators, one a row, `outer` those that they will be added to: a loop in `blocks` is split
    into blocks of that many trips, each with accumulators of its own.
    """

    node: Node
    level: int
    after: tuple[Atom, ...]
    in_lanes: bool
    accs: list[ir.Var] = field(default_factory=list)
    outer: list[list[ir.Var]] = field(default_factory=list)
    blocks: dict[Atom, int] = field(default_factory=dict)


class Nest:
    """A `LoopNest` at one tile position.

    `rows` are emitted together, those of them that are `active`; `row` is the one at hand. On a
    padded line the first of them is at `line_start`, or some blocks behind where the same taps
    count.
    """

    def __init__(
        self,
        space: Space,
        phase: Phase,
        group: LoopNest,
        storage: Storage,
        outer: dict[Atom, ir.Expr],
    ) -> None:
        self.phase, self.group, self.storage = phase, group, storage
        self._space, self._outer = space, outer
        unaligned = {(e.producer, e.consumer): e.unaligned for e in space.edges}
        self.position = Position(phase, outer, unaligned)
        if group.flattened_outer is not None:
            self.position.loops[group.flattened_outer] = tirx.IntImm(INDEX, 0)
        self.dims = group.dims
        self.vector = group.dims[-1] if group.dims else None
        self.strip_at = group.strip_level if group.dims else 0
        self.reduces = [self._reduce(n) for n in group.nodes if self.is_reduced(n)]
        for reduce in self.reduces:
            reduce.blocks = self._blocks(reduce)
        self.rows, self.row, self.line_start = 1, 0, 0
        self.active: tuple[int, ...] = (0,)
        self.padding = padding_of(group, phase)
        self.select_unrolled = set(
            phase.whole(a for n in group.nodes for a in guards.select_unrolled(n))
        )

    def behind(self) -> Nest | None:
        """Return the nest of the group's epilogue, if it has one."""
        if self.group.epilogue is None:
            return None
        return Nest(self._space, self.phase, self.group.epilogue, self.storage, self._outer)

    @property
    def by_rows(self) -> bool:
        """Whether the loop just outside the strip is emitted in blocks of rows."""
        padded = self.padding is not None and self.padding.line is not None
        return self.group.rows > 1 or self.group.transposed or padded

    def value(self, node: Node) -> Expr:
        """Return what a node adds or stores at a point, padding left to the loops."""
        return node.stage.value if self.padding is None else self.padding.value

    def is_reduced(self, node: Node) -> bool:
        return any(d in node.reduced for d in self.dims)

    def reduce_of(self, node: Node) -> Reduce | None:
        return next((r for r in self.reduces if r.node is node), None)

    def in_strip(self, reduce: Reduce) -> bool:
        """Return whether the accumulators stay in the registers of one strip."""
        stripped = self.strip_at < len(self.dims) - 1
        return reduce.in_lanes and self.vector not in reduce.node.reduced and stripped

    def blocked(self, atom: Atom, trips: int) -> tuple[list[Reduce], int]:
        """Return the sums for which the loop over `atom` goes in blocks, and the trips of one."""
        sums = [r for r in self.reduces if r.blocks.get(atom, trips) < trips]
        return sums, min((r.blocks[atom] for r in sums), default=trips)

    def _blocks(self, reduce: Reduce) -> dict[Atom, int]:
        """Return the trips of a block of each loop over which a running sum would be too long."""
        rule, dtype = reduce.node.stage.reduction, reduce.node.stage.value.dtype
        if not reduce.in_lanes or rule.kind != "sum" or not dtype.startswith("float"):
            return {}
        if self.group.rows > 1:
            return {}
        loops = list(reversed(self.dims[self.strip_at : -1]))
        if not self.in_strip(reduce):
            loops += [self.vector, *reversed(self.dims[: self.strip_at])]
        terms, blocks = 1, {}
        for atom in loops:
            if atom not in reduce.node.reduced:
                continue
            trips = self.phase.inner_extent(atom)
            if atom is self.vector:
                trips = -(-trips // self.group.lanes)
            block = max(1, _TERMS // terms)
            if trips >= 2 * block:
                blocks[atom] = _even(block, trips)
                terms = -(-trips // blocks[atom])
            else:
                terms *= trips
        return blocks

    def _reduce(self, node: Node) -> Reduce:
        level, streamed = accumulation(node, self.dims, self.strip_at)
        return Reduce(node, level, streamed, not streamed)

    def extent(self, atom: Atom) -> ir.Expr:
        """Return the loop extent, shorter in the last chunk of a ragged split."""
        chunk = self.phase.inner_extent(atom)
        if atom not in self.phase.chunks or atom.extent % chunk == 0:
            return tirx.IntImm(INDEX, chunk)
        left = tirx.IntImm(INDEX, atom.extent) - self.position.outer[atom] * chunk
        return tirx.Min(tirx.IntImm(INDEX, chunk), left)

    def row_blocks(self, row: Atom) -> tuple[ir.Expr, list[tuple[int, int, ir.Expr | None]]]:
        """Return the whole blocks of a tile's rows, and the rests behind them.

        A rest is its first row, its rows, and in which tiles it is: None for all.
        """
        beside, rows = self.group.flattened_outer, self.group.rows
        along, step = (row, 1) if beside is None else (beside, row.extent)
        extent, chunk = self.extent(along), self.phase.inner_extent(along)
        last = along.extent // chunk
        ends: list[tuple[int, ir.Expr | None]] = [(chunk, None)]
        if along in self.phase.chunks and along.extent % chunk:
            is_last = tirx.EQ(self.position.outer[along], tirx.IntImm(INDEX, last))
            ends = [(along.extent % chunk, is_last), (chunk, tirx.Not(is_last))]
        rests = [(n * step // rows * rows, n * step % rows, where) for n, where in ends]
        if isinstance(extent, tirx.IntImm):
            whole = tirx.IntImm(INDEX, int(extent) * step // rows)
        else:
            whole = tirx.FloorDiv(total([(step, extent)]), tirx.IntImm(INDEX, rows))
        return whole, [rest for rest in rests if rest[1]]

    def store(self, node: Node, value: ir.Expr) -> tirx.Stmt:
        if node in self.phase.partial:
            piece = self.position.outer[self.phase.tile[0]]
            return self.storage.store_partial(node, value, piece, self.position)
        return self.storage.store(node, value, self.position)


def _even(block: int, trips: int) -> int:
    """Return the largest divisor of `trips` from half a block to a block, else the block."""
    return next((b for b in range(block, block // 2, -1) if trips % b == 0), block)


def sequence(stmts: list[tirx.Stmt]) -> tirx.Stmt:
    """Return the statements as one; of none, where no tap meets a piece of the image, a no-op."""
    if not stmts:
        return tirx.Evaluate(0)
    return stmts[0] if len(stmts) == 1 else tirx.SeqStmt(stmts)

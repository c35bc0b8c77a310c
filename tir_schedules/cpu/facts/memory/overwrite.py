"""Whether a kernel may write a result over an operand: each element only once all have read it.

Threads run tiles in any order, so what a tile reads of the operand must be what it writes itself,
and nothing of it may be read, in the nest that writes or behind it, once it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ....analysis.iteration_space import Access, Atom, Node
from ....kernel_ir.expr import Tensor
from ...plan.kernel_plan import LoopNest, Phase, Plan


@dataclass(frozen=True, order=True)
class _Place:
    """When a node runs: its phase, the nest in the tile, its turn in the body of the nest."""

    phase: int
    nest: int
    turn: int


def refuse_overwrite(plan: Plan, operand: Tensor, result: Tensor) -> str | None:
    """Return why the kernel may not write `result` to the memory of `operand`, or None."""
    if (operand.shape, operand.dtype) != (result.shape, result.dtype):
        return f"{operand} and {result} are of different types"
    if plan.streaming is not None:
        return "streaming attention is not in loop nests"
    if any(t is result for t in plan.streamed):
        return "it is stored past the caches"
    writers = [n for n in plan.space.nodes if n.stage.out is result]
    places = [p for n in writers for p in _places(plan, n)]
    if len(places) != 1 or writers[0] in plan.phases[places[0].phase].combine:
        return "it is written in several parts"
    others = (g.other for g in plan.guards if g.other is not None)
    if any(refuse_overwrite(other, operand, result) is not None for other in others):
        return "the other way of the kernel may not"
    (writer,), (written,) = writers, places
    for reader in plan.space.nodes:
        for access in (a for a in reader.reads.values() if a.tensor is operand):
            for read in _places(plan, reader):
                reason = _refuse_read(plan, (reader, access, read), (writer, written))
                if reason is not None:
                    return reason
    return None


def _places(plan: Plan, node: Node) -> Iterator[_Place]:
    for number, phase in enumerate(plan.phases):
        yield from (_Place(number, nest, turn) for nest, turn in places_in(phase, node))


def places_in(phase: Phase, node: Node) -> list[tuple[int, int]]:
    """Return the nests of a phase that a node runs in, and its turn in the body of each."""
    found = []
    for nest, group in enumerate(phase.groups):
        if node in (nodes := group.all_nodes()):
            found.append((nest, nodes.index(node)))
    return found


def _refuse_read(
    plan: Plan, reads: tuple[Node, Access, _Place], writes: tuple[Node, _Place]
) -> str | None:
    """Return why one read of the operand may come after the write, or None."""
    (reader, access, read), (writer, written) = reads, writes
    if read.phase < written.phase:
        apart = plan.barriers or not plan.parallel
        return None if apart else "no barrier stands between the read and the write"
    if read > written:
        return f"{reader.stage.name} reads it once it is written"
    phase = plan.phases[written.phase]
    if not is_same_element(access, writer.store):
        return f"{reader.stage.name} reads other elements than it writes"
    if not all(_moves(writer.store, atom) for atom in phase.tile):
        return "several tiles write one element"
    if read.nest < written.nest:
        return None
    if any(_is_reduced(node, phase) for node in (reader, writer)):
        return "a reduction reads it several times"
    return refuse_nest(phase.groups[written.nest], writer, phase)


def is_same_element(read: Access, write: Access) -> bool:
    """Return whether two accesses are of one element wherever their atoms are the same."""
    if read.opaque or write.opaque or read.const != write.const:
        return False
    return all(read.stride(a) == write.stride(a) for a in {*read.strides, *write.strides}
               if a.extent > 1)  # fmt: skip


def _moves(access: Access, atom: Atom) -> bool:
    return atom.extent == 1 or access.stride(atom) not in (0, None)


def _is_reduced(node: Node, phase: Phase) -> bool:
    return any(a.extent > 1 for a in phase.inside(node.reduced))


def refuse_nest(group: LoopNest, writer: Node, phase: Phase) -> str | None:
    """Return why a nest may come to a point that it has written again, or None."""
    if group.transposed:
        return "blocks of a transpose overlap"
    loops = group if group.epilogue is None else group.epilogue
    if not all(_moves(writer.store, atom) for atom in loops.dims):
        return "a loop writes one element several times"
    if group.rows > 1 and any(_overlaps(n, group.lanes) for n in _extents(group.dims[-1], phase)):
        return "the last lanes of a register tile are done twice"
    return None


def reads_where_it_writes(group: LoopNest, params: Collection[Tensor]) -> bool:
    """Return whether a point of a nest reads a buffer where it writes another.

    TVM's StorageRewrite then lets the two be one, if the read is the last: what is done twice would
    read what it has made. It never does so with parameters.
    """
    kept = (n for n in group.nodes if n.stage.out not in params)
    return any(
        access.tensor not in params and is_same_element(access, node.store)
        for node in kept
        for access in node.reads.values()
    )


def _extents(atom: Atom, phase: Phase) -> set[int]:
    """Return how far a loop goes: less in the last chunk of a ragged split."""
    chunk = phase.inner_extent(atom)
    return {chunk, atom.extent % chunk or chunk}


def _overlaps(extent: int, lanes: int) -> bool:
    """Return whether what strips leave is no power of two, so that some lanes are done again."""
    left = extent % lanes
    return left & (left - 1) != 0

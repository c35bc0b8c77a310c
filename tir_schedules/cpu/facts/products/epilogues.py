"""What may stand behind a register tile's sums and take them from registers."""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.iteration_space import Atom, Node, Space
from ....kernel_ir.expr import dtype_bytes
from ...plan.kernel_plan import LoopNest
from .. import guards
from .register_tile import register_tile


def values_of_rows(epilogue: LoopNest, row: Atom, lane: Atom) -> int:
    """Return how many values an epilogue reads that are one for all lanes of a row."""
    reads = {
        (a.tensor, a.index)
        for n in epilogue.nodes
        for a in n.reads.values()
        if a.stride(row) and a.stride(lane) == 0
    }
    return len(reads)


def may_follow(group: LoopNest, tile: LoopNest, space: Space, vector_bytes: int) -> bool:
    """Return whether a nest may take the accumulators of the register tile before it."""
    if tile.rows == 1 or tile.epilogue is not None or group.lanes == 1:
        return False
    (product,) = tile.nodes
    made, lane = product.stage.out, tile.dims[-1]
    if made.dtype != product.stage.value.dtype or any(t is made for t in space.kernel.outputs):
        return False
    if set(group.dims) != {d for d in tile.dims if d in product.spatial}:
        return False
    row = tile.dims[tile.strip_level - 1]
    if group.dims[-1] is not lane and not turns(group.nodes, row, lane, vector_bytes):
        return False
    if any(guards.cuts(n, lane) != [] or set(n.reduced) & set(group.dims) for n in group.nodes):
        return False
    return _read_alone(product, group.nodes, space)


def is_of_product(nodes: Sequence[Node], space: Space) -> bool:
    """Return whether element-wise nodes alone read a product: they may be its epilogue."""
    if any(n.reduced for n in nodes):
        return False
    made = (e.producer for n in nodes for e in space.incoming.get(n, ()))
    products = [n for n in made if register_tile(n) is not None]
    return bool(products) and all(_read_alone(n, nodes, space) for n in products)


def turns(nodes: Sequence[Node], row: Atom, lane: Atom, vector_bytes: int) -> bool:
    """Return whether an epilogue's one result lies along the rows, and lanes are whole registers.

    Such results are turned in registers: stored lane by lane, 14 rows of 32 lanes were 448 stores.
    Nothing is read so: what lies along the rows would be gathered lane by lane.
    """
    node, *more = nodes
    if any(a.stride(lane) not in (0, 1) for a in node.reads.values()):
        return False
    if more or node.store.stride(row) != 1 or node.store.stride(lane) in (None, 0, 1):
        return False
    side = vector_bytes // dtype_bytes(node.stage.out.dtype)
    return node.stage.out.dtype in ("float32", "float64") and lane.extent % side == 0


def _read_alone(product: Node, nodes: Sequence[Node], space: Space) -> bool:
    """Return whether nodes are all that reads a product, each point of it at its place."""
    edges = [e for e in space.edges if e.producer is product]
    return all(any(e.consumer is n for n in nodes) and not e.unaligned for e in edges)

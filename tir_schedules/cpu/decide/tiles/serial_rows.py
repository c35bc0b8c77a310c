"""Rows that a tile walks: what is the same for all of them is made once, the rest a few at a time.

Attention transposes the keys of a head once, then makes scores, weights and context of some queries
at a time, which stay in L2 however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.iteration_space import Atom, Node, Space
from ....analysis.kernel_facts import is_large_contraction
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...cost.budget import BUDGET
from ...facts.products.register_tile import register_tile
from ..products.row_blocks import rows_of


def serial_rows(
    nodes: Sequence[Node], tile: Sequence[Atom], space: Space, device: CpuDevice
) -> tuple[Atom, int] | None:
    """Return the atom that tiles of these nodes walk and how much of it at a time, None if none.

    It is the row of several products, with nodes in front of them that do not depend on it.
    """
    products = [register_tile(n) for n in nodes if is_large_contraction(n.stage)]
    if len(products) < 2 or None in products:
        return None
    row = products[0].row
    if row in tile or any(p.row is not row for p in products):
        return None
    along = {n for n in nodes if row in n.spatial}
    once = set(nodes) - along
    if not once or any(row in n.reduced for n in nodes):
        return None
    edges = [e for n in nodes for e in space.incoming.get(n, ())]
    if any(row in e.unaligned for e in edges if e.producer in along):
        return None
    if any(e.producer in along and e.consumer in once for e in edges):
        return None
    line = max(p.lane.extent * dtype_bytes(p.moving.tensor.dtype) for p in products)
    rows, most = rows_of(row.extent, device), device.l2_bytes // BUDGET.serial_rows // line
    if row.extent <= most:
        return None
    blocks = -(-row.extent // rows)
    steps = -(-blocks // max(1, most // rows))
    return row, -(-blocks // steps) * rows

"""Tiles of products that follow each other along the same rows: a few even blocks a thread.

The layers of an MLP are the case: each weight streams past some rows, which stay in L2 from the
first layer to the last (oneDNN Graph Compiler, arXiv 2301.01333, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....analysis.iteration_space import Atom, Node
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...cost.budget import BUDGET
from ...facts.products.row_chains import row_chain
from ...facts.shapes import SHAPES


def even_rows(
    nodes: Sequence[Node], common: Sequence[Atom], device: CpuDevice
) -> tuple[tuple[Atom, ...], dict[Atom, int]] | None:
    """Return the tiles of a chain: as large as the cache allows, as many for each thread.

    None if the nodes are no chain along rows that all have in common, or if these are too few, or
    are a line of a padded image that would be cut.
    """
    products = row_chain(nodes, common, {})
    if not products or any(p.lane in common for p in products):
        return None
    row = products[0].row
    others = [a for a in common if a is not row]
    count = math.prod(a.extent for a in others)
    widest = max(p.lane.extent * math.prod(a.extent for a in p.panels) for p in products)
    line = widest * dtype_bytes(products[0].moving.tensor.dtype)
    turns = device.threads // math.gcd(count, device.threads)
    tiles = -(-row.extent * line * BUDGET.chain // (device.l2_bytes * turns)) * turns
    rows = -(-row.extent // tiles)
    if rows < SHAPES.chain_rows or (rows < row.extent and any(p.whole_row for p in products)):
        return None
    return ((*others, row), {row: rows}) if rows < row.extent else (tuple(others), {})

"""Tiles of a product whose operand is made in the tile, some lines of pixels at a time.

The weight streams past each tile, so a tile is as many lines as its buffers allow. Or threads share
out the columns of the weight: then each makes the operand for itself, but reads a part of the
weight only.
"""

from __future__ import annotations

import itertools
import math

from ....analysis.iteration_space import Atom, Node, Space
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...cost.budget import BUDGET
from ...cost.latency import arithmetic_ns, overlapped_ns
from ...cost.levels import level_of, read_ns_per_byte
from ...facts.products.register_tile import RegisterTile
from ...plan.kernel_plan import most_alive


def whole_rows(
    lead: Node,
    product: RegisterTile,
    common: list[Atom],
    nodes: list[Node],
    space: Space,
    device: CpuDevice,
) -> tuple[tuple[Atom, ...], dict[Atom, int]] | None:
    """Return the tile atoms and chunks that are predicted to take the least time.

    `lead` is the product's node. None if its operand is not made here, or if what the nodes have in
    common is more than pixels.
    """
    made = any(n.stage.out is product.moving.tensor for n in nodes)
    if not made or not common or not set(common) <= set(product.pixels):
        return None
    line, panel = common[-1], _panels(lead, product, nodes, space)
    cost = _Cost(product, nodes, space, device)
    atoms = (*([] if panel is None else [panel]), *common)
    tilings = [
        {line: lines} | ({} if panel is None else {panel: panels})
        for panels in _parts(panel, device)
        for lines in range(1, line.extent + 1)
    ]
    chunks = min(tilings, key=lambda sizes: cost.ns(atoms, line, sizes))
    tile = tuple(a for a in atoms if chunks.get(a, 1) < a.extent)
    return tile, {a: n for a, n in chunks.items() if 1 < n < a.extent}


def _parts(panel: Atom | None, device: CpuDevice) -> list[int]:
    """Return how many panels a tile may have: all, or a thread's share."""
    if panel is None:
        return [1]
    share, rest = divmod(panel.extent, device.threads)
    return [panel.extent] if rest else sorted({share, panel.extent})


def _panels(lead: Node, product: RegisterTile, nodes: list[Node], space: Space) -> Atom | None:
    """Return the atom of the weight's panels if all that reads the product keeps to its own.

    So must what else has the atom. What has it not is made for each part of the panels anew: no
    result may be, and nothing that another phase reads.
    """
    if len(product.panels) != 1:
        return None
    (panel,) = product.panels
    mine, behind = set(nodes), {lead}
    outputs = set(space.kernel.outputs)
    read_later = {e.producer for e in space.edges if e.consumer not in mine}
    for node in nodes:
        edges = [e for e in space.incoming.get(node, ()) if e.producer in mine]
        if panel in node.reduced or any(panel in e.unaligned for e in edges):
            return None
        reads = any(e.producer in behind for e in edges)
        if reads:
            behind.add(node)
        kept = node in read_later or node.stage.out in outputs
        if panel not in node.spatial and (reads or kept):
            return None
    return panel


class _Cost:
    """What tilings take the thread that has most: arithmetic, and reading the weight.

    That comes from memory first, for other kernels have run since it was read last.
    """

    def __init__(
        self, product: RegisterTile, nodes: list[Node], space: Space, device: CpuDevice
    ) -> None:
        self._weight, self._nodes, self._device = product.weight, nodes, device
        self._arithmetic = [arithmetic_ns((n.stage,), device) for n in nodes]
        outputs = set(space.kernel.outputs)
        self._kept = [n for n in nodes if n.stage.out not in outputs]
        place = {n: number for number, n in enumerate(nodes)}
        self._ends = dict(place)
        for edge in (e for e in space.edges if e.producer in place):
            producer, reader = edge.producer, place.get(edge.consumer, 0)
            self._ends[producer] = max(self._ends[producer], reader)
        self._place = place

    def ns(self, atoms: tuple[Atom, ...], line: Atom, chunks: dict[Atom, int]) -> float:
        """Return the time of a tiling by `atoms`, infinite if buffers are beyond half of L2."""
        device, profile = self._device, self._device.profile
        if self._buffers(atoms, chunks) > device.l2_bytes // BUDGET.tile:
            return math.inf
        turns = -(-_tiles(atoms, chunks) // device.threads)
        each = sum(
            spent / math.prod(a.extent / chunks.get(a, 1) for a in atoms if a in node.atoms)
            for node, spent in zip(self._nodes, self._arithmetic, strict=True)
        )
        whole, left = divmod(line.extent, chunks[line])
        sizes = [1.0] * whole + [left / chunks[line]] * bool(left)
        most = sum(itertools.islice(itertools.cycle(sizes), turns))
        cut = tuple(a for a in atoms if self._weight.stride(a) != 0)
        part = self._weight.tensor.bytes / _tiles(cut, chunks)
        fresh = -(-turns * _tiles(cut, chunks) // _tiles(atoms, chunks))
        # Half of a cache counts: between two tiles there are the buffers of one.
        again = read_ns_per_byte(level_of(2 * int(part), device), device.threads, profile)
        memory = read_ns_per_byte("memory", device.threads, profile)
        traffic = part * (fresh * memory + (turns - fresh) * again)
        return overlapped_ns(most * each, traffic)

    def _buffers(self, atoms: tuple[Atom, ...], chunks: dict[Atom, int]) -> int:
        def elements(node: Node) -> int:
            sizes = (chunks.get(a, 1) if a in atoms else a.extent for a in node.spatial)
            return math.prod(sizes)

        spans = []
        for node in self._kept:
            taken = elements(node) * dtype_bytes(node.stage.out.dtype)
            spans.append((self._place[node], self._ends[node], taken))
        return most_alive(spans)


def _tiles(atoms: tuple[Atom, ...], chunks: dict[Atom, int]) -> int:
    return math.prod(-(-a.extent // chunks.get(a, 1)) for a in atoms)

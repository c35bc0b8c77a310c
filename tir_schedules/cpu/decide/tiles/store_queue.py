"""Tiles so small that what they store is still in the store queue when they read it.

A load finds a queued store only if that has all of its bytes. Taps of a padded line lie across the
stores which made it: such a load waits until they are in L1. Several tiles at once keep it from
that: 8 x 960 padded images of 9 x 9 took 212 us one by one, 113 four by four, 105 eight by eight
(Zen 4, whose queue has 64 entries: 2 KiB of half vectors, the ends of a line being stored apart).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.iteration_space import Atom, Edge, Node
from ....kernel_ir.expr import dtype_bytes
from ...facts.vectors import own_vector


def tiles_at_once(edges: Sequence[Edge], tile: Sequence[Atom], most: int, queued_bytes: int) -> int:
    """Return how many positions of the last tile atom to make together; 1 if none waits for stores.

    `edges` are those inside the tile, `most` leaves tiles enough; a queue holds `queued_bytes`. A
    divisor of the extent if there is one of about that size, so that no tile is a smaller one.
    """
    queued = [_buffer_bytes(e.producer, tile) for e in edges if _is_across_stores(e)]
    if not queued:
        return 1
    wanted = min(-(-queued_bytes // min(queued)), most, tile[-1].extent)
    even = (n for n in range(wanted, min(2 * wanted, most) + 1) if tile[-1].extent % n == 0)
    return next(even, wanted)


def _buffer_bytes(node: Node, tile: Sequence[Atom]) -> int:
    count = dtype_bytes(node.stage.out.dtype)
    for atom in (a for a in node.spatial if a not in tile):
        count *= atom.extent
    return count


def _is_across_stores(edge: Edge) -> bool:
    """Return whether vectors are read at other positions than they were stored at."""
    lane = own_vector(edge.consumer)
    for access in edge.consumer.reads.values():
        if access.tensor is not edge.producer.stage.out or lane is None:
            continue
        step = access.stride(lane)
        taps = (access.stride(a) for a in edge.consumer.reduced if a is not lane)
        if step and any(tap and abs(tap) <= abs(step) for tap in taps):
            return True
    return False

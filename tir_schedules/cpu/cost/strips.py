"""What it costs to walk rows in strips: tiles that cut a contiguous axis and run down the others.

Each piece of a row is in another page, so neither the hardware's streams nor the prefetches of the
kernel reach the next one: out of L3 or memory, a strip takes about as long as if it were a few
lines wider.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...analysis.iteration_space import Access, Atom, Node
from ...device import LINE_BYTES, CpuDevice
from ...kernel_ir.expr import Tensor, dtype_bytes
from .levels import level_of, read_ns_per_byte


def slowdown(
    access: Access, node: Node, tile: Collection[Atom], chunks: dict[Atom, int], device: CpuDevice
) -> float:
    """Return by what a tile's piece of an access takes longer than whole rows; 1 if it has them."""
    cut = next((a for a in tile if access.stride(a) == 1), None)
    if cut is None or access.tensor.bytes <= device.l2_bytes:
        return 1.0
    inside = (a for a in node.atoms if a not in tile or a in chunks)
    if not any(access.stride(a) not in (0, 1) for a in inside):
        return 1.0
    strip = chunks.get(cut, 1) * dtype_bytes(access.tensor.dtype)
    return 1.0 + device.profile.strip_bytes / max(strip, LINE_BYTES)


def extra_ns(
    nodes: list[Node],
    tile: Collection[Atom],
    chunks: dict[Atom, int],
    outputs: set[Tensor],
    device: CpuDevice,
) -> float:
    """Return what the strips of a phase take one thread longer than whole rows would."""
    made = {n.stage.out for n in nodes} - outputs
    seen: set[Tensor] = set()
    total = 0.0
    for tensor, access, node in _accesses(nodes):
        if tensor in made or tensor in seen:
            continue
        seen.add(tensor)
        each = read_ns_per_byte(level_of(tensor.bytes, device), 1, device.profile)
        total += tensor.bytes * each * (slowdown(access, node, tile, chunks, device) - 1.0)
    return total


def _accesses(nodes: list[Node]) -> Iterator[tuple[Tensor, Access, Node]]:
    for node in nodes:
        for access in node.reads.values():
            yield access.tensor, access, node
        yield node.stage.out, node.store, node

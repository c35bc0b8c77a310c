"""Which atom of a node runs in vector lanes, and how many lanes."""

from __future__ import annotations

import functools
import math

from ...analysis.iteration_space import Access, Atom, Node
from ...device import CpuDevice
from ...kernel_ir.expr import dtype_bytes
from .shapes import SHAPES


def vector_atom(node: Node, atoms: tuple[Atom, ...]) -> Atom | None:
    """Return the atom of `atoms` along which most accesses are contiguous, None if none is.

    An access counts by the share of the node's points at which it moves on. A store weighs two
    loads: a scattered store costs a line each, a gathered load is prefetched.
    """
    accesses = [(access, 1.0) for access in node.reads.values()] + [(node.store, 2.0)]
    weights = [(a, w * _footprint(a, node.atoms) / max(1, node.stage.domain)) for a, w in accesses]
    best: tuple[float, int] | None = None
    chosen: Atom | None = None
    for atom in atoms:
        strides = [(access.stride(atom), weight) for access, weight in weights]
        if not any(stride == 1 for stride, _ in strides):
            continue
        score = sum(weight * _preference(stride) for stride, weight in strides)
        if atom.extent < SHAPES.narrow:
            score -= 4.0
        key = (score, atom.extent)
        if best is None or key > best:
            best, chosen = key, atom
    return chosen


@functools.lru_cache(maxsize=1 << 12)
def own_vector(node: Node) -> Atom | None:
    """Return `vector_atom` of all atoms of a node, found once: tilings ask again and again."""
    return vector_atom(node, node.atoms)


def _footprint(access: Access, atoms: tuple[Atom, ...]) -> int:
    """Return the elements an access touches; where windows overlap, no more than there are."""
    places = math.prod(a.extent for a in atoms if access.stride(a) != 0)
    return min(places, access.tensor.elements)


def _preference(stride: int | None) -> float:
    if stride is None:
        return -1.0
    if stride == 1:
        return 1.0
    return 0.1 if stride == 0 else -0.7


def lanes_for(nodes: list[Node], extent: int, device: CpuDevice) -> int:
    """Return a power of two of lanes: some registers' worth, fewer on a short axis."""
    widest = max(
        dtype_bytes(t)
        for n in nodes
        for t in (n.stage.out.dtype, *(ld.tensor.dtype for ld in n.reads), "float32")
        if t != "bool"
    )
    lanes = device.vector_bytes // min(widest, 8) * SHAPES.registers
    if extent >= SHAPES.long_strips * lanes and _long_chains(nodes, device):
        return lanes * 2
    while lanes > 1 and lanes > extent:
        lanes //= 2
    return lanes


def halves(extent: int) -> list[int]:
    """Return powers of two, largest first, that add up to `extent`."""
    bits = range(extent.bit_length() - 1, -1, -1)
    return [1 << bit for bit in bits if extent >> bit & 1]


def _long_chains(nodes: list[Node], device: CpuDevice) -> bool:
    """Return whether the nest is polynomials out of cache, which more registers overlap better.

    Reductions pay for more lanes in folding them, and from main memory eight registers a strip were
    slower (`scripts/bench_memory.py --names bias_gelu,bias_gelu_tanh`, Zen 5).
    """
    tensors = [t for n in nodes for t in (n.stage.out, *(ld.tensor for ld in n.reads))]
    return (
        not any(n.reduced for n in nodes)
        and any(n.stage.expensive for n in nodes)
        and all(t.bytes <= device.l2_bytes for t in tensors)
    )

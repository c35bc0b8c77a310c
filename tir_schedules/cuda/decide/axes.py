"""The axes of a kernel's blocks: atoms that are walked as one, and which go fastest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...analysis.iteration_space import Access, Atom, Space
from ...kernel_ir.expr import dtype_bytes
from ..facts.views import joined_views

Views = tuple[tuple[Atom, ...], ...]  # of an axis


def axes_of(space: Space) -> list[Views]:
    """Return the atoms that all nodes have alike as one axis, in the order of memory."""
    roles: dict[Atom, tuple] = {}
    for atom in space.atoms:
        role = tuple(
            "s" if atom in n.spatial else "r" if atom in n.reduced else "" for n in space.nodes
        )
        loose = tuple(atom in e.unaligned and atom in e.producer.atoms for e in space.edges)
        roles[atom] = role, loose, _dims(atom, space)
    groups: dict[tuple, list[Atom]] = {}
    for atom in sorted(space.atoms, key=lambda a: -_step(a, space)):
        groups.setdefault(roles[atom], []).append(atom)
    apart = [part for group in groups.values() for part in _apart(tuple(group), space)]
    return joined_views(apart, space)


def _apart(group: tuple[Atom, ...], space: Space) -> list[tuple[Atom, ...]]:
    """Return the atoms of an axis one by one if some access goes along another than the last."""
    params = set(space.kernel.params)
    for access in accesses(space):
        along = next((a for a in group if access.strides.get(a) == 1), group[-1])
        if access.tensor in params and along is not group[-1] and access.strides.get(group[-1]):
            return [(atom,) for atom in group]
    return [group]


def _dims(atom: Atom, space: Space) -> tuple:
    """Return what keeps atoms apart that are dimensions in shared memory."""
    loose = {e.producer for e in space.edges if e.unaligned}
    return () if not any(atom in n.spatial for n in loose) else (atom,)


def _step(atom: Atom, space: Space) -> float:
    """Return how far apart in memory neighbours along an atom are, in the largest tensor."""
    largest, step = 0, math.inf
    for access in accesses(space):
        stride = abs(access.strides.get(atom, 0))
        if stride and access.tensor.elements > largest:
            largest, step = access.tensor.elements, stride
    return step


def may_cut(atom: Atom, space: Space) -> bool:
    """Return whether blocks may have parts of an atom: none needs what another makes."""
    if any(atom in node.reduced for node in space.nodes):
        return False
    return not any(
        atom in edge.producer.spatial
        and (atom in edge.unaligned or atom not in edge.consumer.atoms)
        for edge in space.edges
    )


def fastest_axis(axes: Sequence[Views], space: Space) -> int:
    """Return the axis along which most bytes lie side by side."""
    return max(
        range(len(axes)),
        key=lambda n: (sum(_bytes_along(v[-1], space) for v in axes[n]), n),
        default=0,
    )


def _bytes_along(atom: Atom, space: Space) -> int:
    params = set(space.kernel.params)
    total = 0
    for node in space.nodes:
        for access in (node.store, *node.reads.values()):
            if access.tensor in params and access.strides.get(atom, 0) == 1:
                atoms = node.spatial if access is node.store else node.atoms
                total += math.prod(a.extent for a in atoms) * dtype_bytes(access.tensor.dtype)
    return total


def accesses(space: Space) -> Iterator[Access]:
    for node in space.nodes:
        yield node.store
        yield from node.reads.values()

"""Nests of a launch: stages of the same points, what registers keep for them, what is staged."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from dataclasses import dataclass

from ...analysis.iteration_space import Access, Atom, Node
from ...kernel_ir.expr import Load, Tensor, dtype_bytes
from .axes import Spread


@dataclass(frozen=True)
class Nest:
    """Nodes of the same axes, computed point by point; the last spread's threads are neighbours."""

    nodes: tuple[Node, ...]
    spreads: tuple[Spread, ...]
    warps: tuple[int, int] | None = None  # of a product by tensor cores, along rows and columns

    def walked(self) -> tuple[Spread, ...]:
        """Return the spreads that are loops: those of axes that the nodes have."""
        return self.of(self.nodes[0].atoms)

    def of(self, atoms: Collection[Atom]) -> tuple[Spread, ...]:
        """Return the spreads of axes that have any of the atoms."""
        key = tuple(atoms)
        if key not in self._found:
            self._found[key] = tuple(s for s in self.spreads if s.axis.meets(key))
        return self._found[key]

    @functools.cached_property
    def _found(self) -> dict[tuple[Atom, ...], tuple[Spread, ...]]:
        return {}

    def vector(self) -> Spread | None:
        """Return the spread of which a thread has positions side by side."""
        return next((s for s in self.walked() if s.width > 1), None)

    def vector_atom(self) -> Atom | None:
        """Return the atom along which a thread has positions side by side."""
        spread = self.vector()
        return None if spread is None else spread.axis.view(self.nodes[0].atoms)[-1]

    def __str__(self) -> str:
        made = ", ".join(n.stage.name for n in self.nodes)
        if self.warps is not None:
            return f"{made}: fragments of {self.warps[0]} by {self.warps[1]} warps"
        return f"{made}: {'; '.join(map(str, self.walked())) or 'one point'}"


@dataclass(frozen=True)
class Staged:
    """A read of a node that goes through shared memory: loaded along its lines, read across them.

    The last of `spreads` is along the lines, which are a word longer than they need be: elements
    below each other are in other banks.
    """

    node: Node
    load: Load
    spreads: tuple[Spread, ...]

    @property
    def pitch(self) -> int:
        """How many elements apart lines are."""
        return self.spreads[-1].axis.block + max(1, 4 // dtype_bytes(self.load.dtype))

    @property
    def elements(self) -> int:
        return math.prod(s.axis.block for s in self.spreads[:-1]) * self.pitch

    @property
    def bytes(self) -> int:
        return self.elements * dtype_bytes(self.load.dtype)

    def nest(self) -> Nest:
        """Return the nest that loads it."""
        return Nest((self.node,), self.spreads)


@dataclass(frozen=True)
class HeldKey:
    """Elements of a tensor: one for each position of some spreads, so many elements apart."""

    tensor: Tensor
    const: int
    steps: tuple[tuple[Spread, int], ...]

    @property
    def spreads(self) -> tuple[Spread, ...]:
        return tuple(spread for spread, _ in self.steps)

    @property
    def elements(self) -> int:
        return math.prod(s.trips * s.width for s in self.spreads)

    @property
    def words(self) -> int:
        """How many 32-bit registers of a thread keep them: nvcc has halves widened once."""
        return self.elements * -(-dtype_bytes(self.tensor.dtype) // 4)


def held_key(access: Access, nest: Nest) -> HeldKey | None:
    """Return what tells an access from others: threads read the same by equal ones.

    None if its element does not go in steps with the positions of each axis.
    """
    if access.opaque:
        return None
    steps: dict[Spread, int] = {}
    moving = [a for a, s in access.strides.items() if s]
    for spread in nest.of(moving):
        view = spread.axis.view(moving)
        step = inner = access.strides.get(view[-1], 0)
        for atom in reversed(view):
            if access.strides.get(atom, 0) != inner:
                return None
            inner *= atom.extent
        steps[spread] = step
    return HeldKey(access.tensor, access.const, tuple(steps.items()))


def register_words(node: Node, nest: Nest) -> int:
    """Return how many 32-bit registers of a thread keep a node's values."""
    return values_of(node.spatial, nest) * -(-dtype_bytes(node.stage.out.dtype) // 4)


def values_of(atoms: tuple[Atom, ...], nest: Nest) -> int:
    """Return how many positions of some atoms a thread has."""
    return math.prod(s.trips * s.width for s in nest.of(atoms))

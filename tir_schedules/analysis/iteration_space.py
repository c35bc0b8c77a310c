"""Iteration atoms: the finest pieces of axes that the stages of a kernel share.

A reshape (N, C) -> (N, G, C/G) between two stages makes C of the one the pair (G, C/G) of the
other. Cutting every axis where some access cuts it, and identifying the pieces that run together,
gives one set of coordinates for the whole kernel: an axis is a mixed-radix number of atoms, and
every affine access is a dot product of atoms and strides.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from ..kernel_ir.expr import Axis, Expr, Load, Tensor
from ..kernel_ir.stage import Kernel, Stage


@dataclass(eq=False)
class Atom:
    """A shared piece of iteration space; compared by identity. `extent` in elements."""

    name: str
    extent: int

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}"


@dataclass(frozen=True)
class Access:
    """A load or store as `const + sum(stride * atom) + sum(scale * opaque)` in elements.

    `opaque_atoms` are atoms that the opaque part depends on. `whole` are atoms of the *producer*
    that this read may touch at any position, so they can't be split among tiles.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    const: int
    strides: dict[Atom, int]
    opaque: tuple[tuple[int, Expr], ...] = ()
    opaque_atoms: frozenset[Atom] = frozenset()

    def stride(self, atom: Atom) -> int | None:
        """Return the stride along `atom`, or None if it is not constant."""
        return None if atom in self.opaque_atoms else self.strides.get(atom, 0)


@dataclass(eq=False)
class Node:
    """A stage in atom coordinates."""

    stage: Stage
    digits: dict[Axis, tuple[tuple[Atom, int], ...]]  # axis -> its atoms with their weights
    spatial: tuple[Atom, ...]
    reduced: tuple[Atom, ...]
    store: Access
    reads: dict[Load, Access] = field(default_factory=dict)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return self.spatial + self.reduced

    def stays_inside(self, access: Access) -> bool:
        """Return whether an access of this node is an element of its tensor at all positions."""
        if access.opaque:
            return False
        ends = [(a.extent - 1) * access.strides.get(a, 0) for a in self.atoms]
        low, high = (access.const + sum(f(0, end) for end in ends) for f in (min, max))
        return low >= 0 and high < access.tensor.elements

    def __repr__(self) -> str:
        return f"{self.stage.out.name}: {list(self.spatial)} / {list(self.reduced)}"


@dataclass(frozen=True)
class Edge:
    """`consumer` reads what `producer` makes, whose `unaligned` atoms it reads at any position."""

    producer: Node
    consumer: Node
    unaligned: frozenset[Atom]


@dataclass(frozen=True)
class Space:
    """A kernel in atom coordinates: nodes in program order and the edges between them."""

    kernel: Kernel
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @functools.cached_property
    def incoming(self) -> dict[Node, list[Edge]]:
        """The edges to each consumer."""
        found: dict[Node, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.consumer, []).append(edge)
        return found

    @functools.cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """All atoms, in the order in which nodes first have them."""
        return tuple(dict.fromkeys(a for n in self.nodes for a in n.atoms))

    def producer(self, tensor: Tensor) -> Node | None:
        return next((n for n in self.nodes if n.stage.out is tensor), None)

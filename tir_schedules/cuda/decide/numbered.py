"""Decisions put together of nodes and atoms: by their numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ...analysis.iteration_space import Node, Space
from ..plan.decisions import (
    AxisDecisions,
    NestDecisions,
    PhaseDecisions,
    SpreadDecisions,
    StagedDecisions,
)
from .axes import Views


class Numbers:
    """The numbers of a kernel's stages and axes."""

    def __init__(self, space: Space) -> None:
        self._atoms = {a: n for n, a in enumerate(space.atoms)}
        self._nodes = {n: at for at, n in enumerate(space.nodes)}

    def node(self, node: Node) -> int:
        return self._nodes[node]

    def phase(
        self,
        axes: Sequence[Views],
        blocks: Sequence[int],
        spreads: Sequence[SpreadDecisions],
        nests: Sequence[Sequence[Node]],
        shared: Sequence[Node],
        staged: Sequence[StagedDecisions] = (),
        own: Mapping[Node, tuple[SpreadDecisions, ...]] = MappingProxyType({}),
        serial: Collection[int] = (),
        warps: Mapping[Node, tuple[int, int]] = MappingProxyType({}),
    ) -> PhaseDecisions:
        """Return the decisions of a launch whose nests are all spread alike but for some.

        `serial` are the numbers of the axes along which a block goes in steps, `warps` those of
        products by tensor cores.
        """
        made = tuple(
            AxisDecisions(
                tuple(tuple(self._atoms[a] for a in view) for view in axis), block, n in serial
            )
            for n, (axis, block) in enumerate(zip(axes, blocks, strict=True))
        )
        return PhaseDecisions(
            made,
            tuple(spreads),
            tuple(
                NestDecisions(
                    tuple(map(self.node, nest)),
                    own.get(nest[0]),
                    warps.get(nest[0]),
                )
                for nest in nests
            ),
            tuple(map(self.node, shared)),
            tuple(staged),
        )


def nests_of(space: Space) -> list[list[Node]]:
    """Return nodes that are computed together, in order."""
    nests: list[list[Node]] = []
    home: dict[Node, int] = {}
    for node in space.nodes:
        first = 0
        for edge in space.incoming.get(node, ()):
            alone = bool(edge.producer.reduced) or bool(edge.unaligned)
            first = max(first, home[edge.producer] + alone)
        for at in range(first, len(nests)):
            if set(nests[at][0].atoms) == set(node.atoms):
                nests[at].append(node)
                break
        else:
            at = len(nests)
            nests.append([node])
        home[node] = at
    return nests


def shared_nodes(space: Space) -> list[Node]:
    """Return the nodes that are read elsewhere than where they are made."""
    loose: dict[Node, None] = {e.producer: None for e in space.edges if e.unaligned}
    return list(loose)

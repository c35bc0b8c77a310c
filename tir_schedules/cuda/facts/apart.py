"""Terms of a product apart from the positions at which its operand is made.

Where an operand is made behind other sums, of scores behind their largest and their total, it is
whole before the first step over it: the steps go along an axis of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...analysis.iteration_space import Access, Atom, Edge, Node, Space
from ..plan.tile import Tile
from .tiles import is_tiled


def with_terms_apart(space: Space) -> Space:
    """Return the space with fresh atoms for the sums of products whose operands wait for sums."""
    behind = _behind_sums(space)
    renamed: dict[Node, dict[Atom, Atom]] = {}
    for product in (node for node in space.nodes if is_tiled(node.stage)):
        tiles = [e.producer for e in space.incoming[product] if _is_tile(e.producer)]
        made = (e.producer for tile in tiles for e in space.incoming.get(tile, ()))
        if any(node in behind for node in made):
            fresh = {a: Atom(f"{a.name}s", a.extent) for a in product.reduced}
            renamed.update(dict.fromkeys((product, *tiles), fresh))
    if not renamed:
        return space
    nodes = {node: _with_atoms(node, renamed.get(node, {})) for node in space.nodes}
    edges = tuple(_edge(edge, nodes, renamed) for edge in space.edges)
    return Space(space.kernel, tuple(nodes.values()), edges)


def _behind_sums(space: Space) -> set[Node]:
    """Return the nodes that are sums, or read what waits for some."""
    found: set[Node] = set()
    for node in space.nodes:
        if node.reduced or any(e.producer in found for e in space.incoming.get(node, ())):
            found.add(node)
    return found


def _is_tile(node: Node) -> bool:
    return isinstance(node.stage.out, Tile)


def _with_atoms(node: Node, fresh: Mapping[Atom, Atom]) -> Node:
    if not fresh:
        return node

    def names(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(fresh.get(atom, atom) for atom in atoms)

    def access(old: Access) -> Access:
        strides = {fresh.get(atom, atom): stride for atom, stride in old.strides.items()}
        return replace(old, strides=strides, opaque_atoms=frozenset(names(tuple(old.opaque_atoms))))

    return Node(
        node.stage,
        {
            axis: tuple((fresh.get(atom, atom), weight) for atom, weight in digits)
            for axis, digits in node.digits.items()
        },
        names(node.spatial),
        names(node.reduced),
        access(node.store),
        {load: access(read) for load, read in node.reads.items()},
    )


def _edge(edge: Edge, nodes: Mapping[Node, Node], renamed: Mapping[Node, Mapping]) -> Edge:
    fresh, unaligned = renamed.get(edge.consumer, {}), set(edge.unaligned)
    if edge.producer not in renamed:
        unaligned |= {atom for atom in edge.producer.atoms if atom in fresh}
    else:
        unaligned = {renamed[edge.producer].get(atom, atom) for atom in unaligned}
    return Edge(nodes[edge.producer], nodes[edge.consumer], frozenset(unaligned))

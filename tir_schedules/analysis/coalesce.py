"""Merge atoms that always stand side by side, so that (56, 56) becomes one loop of 3136."""

from __future__ import annotations

from dataclasses import replace

from ..kernel_ir.expr import AxisRef, Load, Op, walk
from .iteration_space import Access, Atom, Edge, Node, Space


def coalesce(space: Space) -> Space:
    """Return the space with every mergeable pair of atoms merged, repeatedly.

    Two atoms merge if every stage has both, in the same role, and every access advances along the
    outer one by exactly the extent of the inner one (both strides 0 counts). Atoms that some reader
    takes at any position stay apart: their tile buffer is addressed dimension by dimension.
    """
    while True:
        pair = _find_pair(space)
        if pair is None:
            return space
        space = _merge(space, *pair)


def _find_pair(space: Space) -> tuple[Atom, Atom] | None:
    candidates: dict[tuple[Atom, Atom], None] = {}
    for node in space.nodes:
        for role in (node.spatial, node.reduced):
            for outer in role:
                for inner in role:
                    if outer is not inner:
                        candidates[outer, inner] = None
    fixed = _addressed(space)
    for outer, inner in candidates:
        if outer in fixed or inner in fixed:
            continue
        if all(_mergeable(n, outer, inner) for n in space.nodes):
            return outer, inner
    return None


def _addressed(space: Space) -> set[Atom]:
    """Return atoms that an address is computed from: unaligned ones, and those in their indices."""
    found: set[Atom] = set()
    for edge in space.edges:
        found |= edge.unaligned
        if not edge.unaligned:
            continue
        for load in edge.consumer.reads:
            if load.tensor is edge.producer.stage.out:
                axes = [n.axis for i in load.index for n in walk(i) if isinstance(n, AxisRef)]
                found.update(a for axis in axes for a, _ in edge.consumer.digits[axis])
    return found


def _mergeable(node: Node, outer: Atom, inner: Atom) -> bool:
    for role in (node.spatial, node.reduced):
        if (outer in role) != (inner in role):
            return False
    if outer not in node.atoms:
        return True
    for access in (node.store, *node.reads.values()):
        big, small = access.stride(outer), access.stride(inner)
        if big is None or small is None or big != small * inner.extent:
            return False
    return not any(uses_value(node, a) for a in (outer, inner))


def uses_value(node: Node, atom: Atom) -> bool:
    """Return whether the stage computes with the position itself (a guard, an iota)."""
    seen = set()
    stack = [node.stage.value]
    while stack:
        expr = stack.pop()
        if expr in seen or isinstance(expr, Load):
            continue
        seen.add(expr)
        if isinstance(expr, AxisRef) and any(a is atom for a, _ in node.digits[expr.axis]):
            return True
        if isinstance(expr, Op):
            stack.extend(expr.args)
    return False


def _merge(space: Space, outer: Atom, inner: Atom) -> Space:
    merged = Atom(outer.name, outer.extent * inner.extent)

    def atoms(group: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(merged if a is inner else a for a in group if a is not outer)

    def access(one: Access) -> Access:
        strides = {a: s for a, s in one.strides.items() if a is not outer and a is not inner}
        if inner in one.strides:
            strides[merged] = one.strides[inner]
        return replace(one, strides=strides)

    nodes: dict[Node, Node] = {}
    for node in space.nodes:
        nodes[node] = Node(
            node.stage,
            node.digits,
            _in_order(atoms(node.spatial)),
            _in_order(atoms(node.reduced)),
            access(node.store),
            {ld: access(a) for ld, a in node.reads.items()},
        )
    edges = tuple(Edge(nodes[e.producer], nodes[e.consumer], e.unaligned) for e in space.edges)
    return Space(space.kernel, tuple(nodes.values()), edges)


def _in_order(group: tuple[Atom, ...]) -> tuple[Atom, ...]:
    return tuple(dict.fromkeys(group))

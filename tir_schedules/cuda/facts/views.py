"""Axes that walk the same memory under other names: a row of 192 numbers is 3 channels of 64.

Sums over a group and what is made of its channels read one tensor; nothing else ties their axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ...analysis.iteration_space import Access, Atom, Space

Group = tuple[Atom, ...]


def joined_views(axes: Sequence[Group], space: Space) -> list[tuple[Group, ...]]:
    """Return the axes, those that walk an input alike as views of one."""
    views = {axis: [axis] for axis in axes}
    for one, other in _alike(space):
        if one not in views or other not in views or views[one] is views[other]:
            continue
        if _meet(views[one], views[other], space):
            continue
        views[one] += views[other]
        for axis in views[other]:
            views[axis] = views[one]
    return list({id(v): tuple(v) for v in views.values()}.values())


def _meet(left: Sequence[Group], right: Sequence[Group], space: Space) -> bool:
    """Return whether some stage has atoms of both."""
    one, other = ({a for group in side for a in group} for side in (left, right))
    return any(one & set(n.atoms) and other & set(n.atoms) for n in space.nodes)


def _alike(space: Space) -> Iterator[tuple[Group, Group]]:
    """Yield pairs of atoms, outer first, that go over the same elements in the same order."""
    params = set(space.kernel.inputs)
    reads: dict[tuple, list[Access]] = {}
    for node in space.nodes:
        for access in node.reads.values():
            if access.tensor in params and not access.opaque:
                reads.setdefault((access.tensor, access.const), []).append(access)
    for group in reads.values():
        for one, other in itertools.combinations(group, 2):
            yield from _segments(one, other)


def _segments(one: Access, other: Access) -> Iterator[tuple[Group, Group]]:
    """Yield the atoms between places where both accesses go on to a larger stride."""
    sides = [sorted((s, a.extent, n) for n, (a, s) in enumerate(x.strides.items()) if s > 0)
             for x in (one, other)]  # fmt: skip
    atoms = [list(x.strides) for x in (one, other)]
    starts = [{s for s, _, _ in side} for side in sides]
    ends = [{s * e for s, e, _ in side} for side in sides]
    cuts = sorted((starts[0] & starts[1]) | (ends[0] & ends[1]))
    for low, high in itertools.pairwise(cuts):
        found = []
        for side, names in zip(sides, atoms, strict=True):
            run = [(s, e, names[n]) for s, e, n in side if low <= s and s * e <= high]
            at = low
            for step, extent, _ in run:
                at = at * extent if step == at else 0
            found.append(tuple(a for _, _, a in reversed(run)) if at == high else ())
        if all(found) and found[0] != found[1]:
            yield found[0], found[1]

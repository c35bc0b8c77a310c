"""Blocks for kernels that read across the lines of a tensor: tiles through shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...analysis.iteration_space import Node, Space
from ...device.cuda import WARP
from ..facts.accesses import always_read, is_affine
from ..plan.decisions import PhaseDecisions, SpreadDecisions, StagedDecisions
from .axes import Views, fastest_axis
from .numbered import Numbers
from .policy import BLOCKS


def turned(
    space: Space,
    numbers: Numbers,
    axes: Sequence[Views],
    cuttable: Sequence[bool],
    nests: Sequence[Sequence[Node]],
    shared: Sequence[Node],
) -> Iterator[PhaseDecisions]:
    """Yield decisions by which reads across the lines of a tensor go through shared memory."""
    fastest = fastest_axis(axes, space)
    across = _across(axes, fastest, space)
    others = {other for _, _, other in across}
    if len(others) != 1 or not all(cuttable[n] for n in (fastest, *others)):
        return
    (other,) = others
    extents = [math.prod(a.extent for a in axis[0]) for axis in axes]
    for lines, columns in BLOCKS.turned:
        blocks = [1 if cut else n for cut, n in zip(cuttable, extents, strict=True)]
        blocks[fastest], blocks[other] = (
            min(extents[n], size) for n, size in ((fastest, columns), (other, lines))
        )
        rest = [n for n in range(len(axes)) if n not in (fastest, other)]
        for rows in BLOCKS.turned_rows:
            spreads = [SpreadDecisions(n, 1) for n in rest]
            spreads += [SpreadDecisions(other, rows), SpreadDecisions(fastest, WARP)]
            staged = [
                StagedDecisions(
                    numbers.node(node), read, _loading(axes, node, read, spreads, other, rows)
                )
                for node, read, _ in across
            ]
            yield numbers.phase(axes, blocks, spreads, nests, shared, staged)


def _loading(
    axes: Sequence[Views],
    node: Node,
    read: int,
    spreads: Sequence[SpreadDecisions],
    other: int,
    rows: int,
) -> tuple[SpreadDecisions, ...]:
    """Return how a tile is loaded: neighbours along its lines."""
    access = list(node.reads.values())[read]
    moving = {a for a, s in access.strides.items() if s}
    has = [s for s in spreads if any(moving & set(view) for view in axes[s.axis])]
    first = [SpreadDecisions(s.axis, rows if s.threads > 1 else 1) for s in has if s.axis != other]
    return (*first, SpreadDecisions(other, WARP))


def _across(axes: Sequence[Views], fastest: int, space: Space) -> list[tuple[Node, int, int]]:
    """Return the node, the read and the axis of its lines, of reads that go across them."""
    params, found = set(space.kernel.inputs), []
    for node in space.nodes:
        always = always_read(node)
        for number, (load, access) in enumerate(node.reads.items()):
            if access.tensor not in params or load not in always or not is_affine(access, node):
                continue
            last = [view[-1] for view in axes[fastest]]
            if not any(access.strides.get(a, 0) > 1 for a in last):
                continue
            along = [
                n
                for n, axis in enumerate(axes)
                if any(access.strides.get(v[-1]) == 1 for v in axis)
            ]
            found += [(node, number, n) for n in along]
    return found

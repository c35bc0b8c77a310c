"""Decisions of one launch to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...analysis.iteration_space import Space
from ..plan.decisions import PhaseDecisions, SpreadDecisions
from .axes import axes_of, fastest_axis, may_cut
from .layouts import layouts, widths
from .numbered import Numbers, nests_of, shared_nodes
from .products import has_product, products
from .turned import turned


def candidates(space: Space, numbers: Numbers) -> Iterator[PhaseDecisions]:
    """Yield decisions of one launch to choose from."""
    for family in families(space, numbers):
        yield from family


def families(space: Space, numbers: Numbers) -> Iterator[Iterable[PhaseDecisions]]:
    """Yield decisions that differ in little, the likeliest first, and others of other kinds."""
    axes = axes_of(space)
    cuttable = [all(may_cut(a, space) for view in axis for a in view) for axis in axes]
    fastest = fastest_axis(axes, space)
    order = [n for n in range(len(axes)) if n != fastest] + ([fastest] if axes else [])
    nests = nests_of(space)
    shared = shared_nodes(space)
    if has_product(space):
        yield from products(space, numbers, axes, cuttable, nests)
        return
    if not axes:
        yield [numbers.phase(axes, [], [], nests, shared)]
        return
    everywhere = [
        cut and all(any(a in v for v in axis for a in n.atoms) for n in space.nodes)
        for cut, axis in zip(cuttable, axes, strict=True)
    ]
    ways = [cuttable] if everywhere == cuttable else [cuttable, everywhere]
    for width in widths([view[-1] for view in axes[fastest]], space):
        for cut in ways:
            for blocks, threads in layouts(axes, cut, order, width):
                spreads = [
                    SpreadDecisions(n, threads[n], width if n == fastest else 1) for n in order
                ]
                yield [numbers.phase(axes, blocks, spreads, nests, shared)]
    for each in turned(space, numbers, axes, cuttable, nests, shared):
        yield [each]

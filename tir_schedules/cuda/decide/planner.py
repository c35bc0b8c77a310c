"""Default decisions: of some ways to lay a kernel over blocks, the one that costs least."""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.iteration_space import Space
from ...analysis.kernel_facts import is_large_contraction
from ...device.cuda import CudaDevice
from ..cost.latency import estimate
from ..legal.build import build_plan
from ..plan.decisions import Decisions, SpreadDecisions
from .axes import axes_of, fastest_axis, may_cut
from .layouts import layouts, widths
from .numbered import assembled, nests_of, shared_nodes
from .turned import turned


def default_decisions(space: Space, device: CudaDevice) -> Decisions | str:
    """Return what the cost model decides for a kernel on a GPU, or why it declines."""
    if any(is_large_contraction(node.stage) for node in space.nodes):
        return "products of this size are not planned on a GPU"
    best: tuple[float, Decisions] | None = None
    reason = "it has no points"
    for decisions in candidates(space):
        plan = build_plan(space, decisions, device)
        if isinstance(plan, str):
            reason = plan
            continue
        cost = estimate(plan, device)
        if best is None or cost < best[0]:
            best = cost, decisions
    return reason if best is None else best[1]


def candidates(space: Space) -> Iterator[Decisions]:
    """Yield decisions to choose from."""
    axes = axes_of(space)
    cuttable = [all(may_cut(a, space) for view in axis for a in view) for axis in axes]
    fastest = fastest_axis(axes, space)
    order = [n for n in range(len(axes)) if n != fastest] + ([fastest] if axes else [])
    nests = nests_of(space)
    shared = shared_nodes(space)
    if not axes:
        yield assembled(space, axes, [], [], nests, shared)
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
                yield assembled(space, axes, blocks, spreads, nests, shared)
    yield from turned(space, axes, cuttable, nests, shared)

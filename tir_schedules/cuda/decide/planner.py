"""Default decisions: of some ways to lay a kernel over blocks, the one that costs least."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...analysis.iteration_space import Space
from ...analysis.kernel_facts import is_large_contraction
from ...device.cuda import WARP, CudaDevice
from ..cost.latency import LAUNCH_NS, launch_ns
from ..facts.parts import launches_of, part_axis, space_of
from ..facts.reading import Counts, Reading
from ..legal.phase import build_phase
from ..plan.decisions import Decisions, PhaseDecisions, SpreadDecisions
from .axes import axes_of, fastest_axis, may_cut
from .layouts import layouts, widths
from .numbered import Numbers, nests_of, shared_nodes
from .turned import turned

_LEAST = 512  # positions of a sum that blocks may share
_WORTH = 1 << 16  # points of a kernel that another launch may be worth
_VECTOR = 4  # numbers


def default_decisions(reading: Reading, device: CudaDevice) -> Decisions | str:
    """Return what the cost model decides for a kernel on a GPU, or why it declines."""
    if any(is_large_contraction(stage) for stage in reading.reduced.stages):
        return "products of this size are not planned on a GPU"
    best: tuple[float, Decisions] | None = None
    reasons = []
    for parts in _parts(reading, device):
        made = _cheapest(reading.space(parts), parts, device)
        if isinstance(made, str):
            reasons.append(made)
        elif best is None or made[0] < best[0]:
            best = made
    return reasons[0] if best is None else best[1]


def _parts(reading: Reading, device: CudaDevice) -> Iterator[Counts]:
    """Yield which sums may be added up by several blocks: none, or those of few results."""
    yield ()
    stages = reading.reduced.stages
    largest = max((s.domain for s in stages), default=0)
    sums = [
        (n, s) for n, s in enumerate(stages)
        if s.reduction is not None and s.domain * 4 >= largest and part_axis(s).extent >= _LEAST
    ]  # fmt: skip
    if not sums or largest < _WORTH:
        return
    results = max(s.out.elements for _, s in sums)
    groups = {results, -(-results // WARP)}  # of results that a block has: one, or columns
    for count in {-(-waves * device.sms // group) for group in groups for waves in (1, 4)}:
        if count > 1:
            yield tuple((n, _even_parts(part_axis(s).extent, count)) for n, s in sums)


def _even_parts(extent: int, count: int) -> int:
    """Return about so many parts, of the same size and whole vectors if there are such."""
    near = [n for n in range(-(-count // 2), 2 * count + 1) if 2 <= n <= extent // 2]
    alike = [n for n in near if extent % n == 0]
    wide = [n for n in alike if extent // n % _VECTOR == 0]
    return min(wide or alike or near or [2], key=lambda n: abs(n - count))


def _cheapest(space: Space, parts: Counts, device: CudaDevice) -> tuple[float, Decisions] | str:
    """Return the ns and the decisions of the best way of each launch, or why one has none."""
    numbers, total, phases = Numbers(space), 0.0, []
    for nodes in launches_of(space):
        best, cost, reason = None, math.inf, "it has no points"
        for decided in candidates(space_of(space, nodes), numbers):
            phase = build_phase(space, decided, device)
            if isinstance(phase, str):
                reason = phase
                continue
            ns = launch_ns(phase, device)
            if best is None or ns < cost:
                best, cost = decided, ns
        if best is None:
            return reason
        phases.append(best)
        total += LAUNCH_NS + cost
    return total, Decisions(tuple(phases), parts)


def candidates(space: Space, numbers: Numbers) -> Iterator[PhaseDecisions]:
    """Yield decisions of one launch to choose from."""
    axes = axes_of(space)
    cuttable = [all(may_cut(a, space) for view in axis for a in view) for axis in axes]
    fastest = fastest_axis(axes, space)
    order = [n for n in range(len(axes)) if n != fastest] + ([fastest] if axes else [])
    nests = nests_of(space)
    shared = shared_nodes(space)
    if not axes:
        yield numbers.phase(axes, [], [], nests, shared)
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
                yield numbers.phase(axes, blocks, spreads, nests, shared)
    yield from turned(space, numbers, axes, cuttable, nests, shared)

"""What else could be decided for a kernel: its variants, and the candidates of each knob of one.

Candidates are what may be worth a trial, not what is legal: `legal.build` says that of each choice,
for one knob limits another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...analysis.iteration_space import Atom
from ...decision_space import DecisionSpace, Knob, VariantSpace
from ...decisions import knobs
from ...device import CpuDevice
from ..facts.memory.streamed_stores import may_stream
from ..facts.reading import Reading
from ..plan.decisions import (
    PRODUCT,
    WINDOW,
    AttentionDecisions,
    Decisions,
    FetchDecision,
    NestDecisions,
    PhaseDecisions,
)
from ..plan.forms import Form, forms
from ..plan.kernel_plan import LoopNest, Phase, Plan
from ..plan.memory import TO_L1, TO_L2
from ..plan.record import decisions_of
from .candidates import CANDIDATES
from .effective import may_divide, may_shuffle
from .planner import plan_reading
from .settle import settled
from .traffic.streamed_stores import least_streamed


def decision_space(reading: Reading, device: CpuDevice) -> DecisionSpace | str:
    """Return what could be decided for a kernel, or why the template declines it."""
    usual, *others = forms()
    first = variant_space(reading, device, usual)
    if isinstance(first, str):
        return first
    found = {first.variant: first}
    for form in others:
        space = variant_space(reading, device, form)
        if not isinstance(space, str):
            found.setdefault(space.variant, space)
    return DecisionSpace(tuple(found.values()))


def variant_space(reading: Reading, device: CpuDevice, form: Form) -> VariantSpace | str:
    """Return what could be decided for a kernel of a form, or why it has no plan."""
    drafted = plan_reading(reading, device, form)
    if isinstance(drafted, str):
        return drafted
    plan = settled(drafted, device)
    default = decisions_of(plan)
    candidates = dict(_of_plan(plan, default, "", device))
    known = (Knob(p, _with(value, candidates.get(p, ()))) for p, value in knobs(default).items())
    return VariantSpace(default, tuple(known))


Candidates = Iterator[tuple[str, Sequence[Any]]]


def _with(value: Any, candidates: Sequence[Any]) -> tuple[Any, ...]:
    """Return candidates, each once, what is decided first."""
    return tuple(dict.fromkeys((value, *candidates)))


def _of_plan(plan: Plan, decided: Decisions, path: str, device: CpuDevice) -> Candidates:
    yield f"{path}parallel", (True, False)
    yield f"{path}tasks", CANDIDATES.tasks
    yield f"{path}streamed", ((), _streaming(plan, device))
    if decided.attention is not None:
        yield from _of_attention(plan, decided.attention, f"{path}attention.")
    phases = (phase for phase in plan.phases if not phase.combine)
    for number, (phase, each) in enumerate(zip(phases, decided.phases, strict=True)):
        yield from _of_phase(phase, each, f"{path}phases.{number}.")
    for number, (guard, each) in enumerate(zip(plan.guards, decided.guards, strict=True)):
        yield from _of_plan(guard.check, each.check, f"{path}guards.{number}.check.", device)
        if guard.other is not None and each.other is not None:
            yield from _of_plan(guard.other, each.other, f"{path}guards.{number}.other.", device)


def _streaming(plan: Plan, device: CpuDevice) -> tuple[int, ...]:
    """Return the results that may be too large for the caches to keep.

    Of smaller ones who reads them next pays, which a kernel timed alone does not show: what reads
    1.8 MB behind a kernel that had them streamed took 104 us, not 38 (Zen 5).
    """
    outputs = enumerate(plan.space.kernel.outputs)
    large = ((n, t) for n, t in outputs if t.bytes >= least_streamed(device))
    return tuple(n for n, t in large if may_stream(t, plan.space, plan.vector_bytes))


def _of_attention(plan: Plan, decided: AttentionDecisions, path: str) -> Candidates:
    form = plan.streaming
    yield f"{path}rows", (1, *CANDIDATES.rows)
    yield f"{path}blocks", CANDIDATES.blocks
    yield f"{path}block_keys", [n * decided.lanes for n in CANDIDATES.key_strips]
    yield f"{path}lanes", _lanes(form.attention.key.extent)
    yield f"{path}column_lanes", _lanes(form.attention.column.extent)
    yield f"{path}skips", (True, False)


def _of_phase(phase: Phase, decided: PhaseDecisions, path: str) -> Candidates:
    yield f"{path}tile", _tiles(phase, decided)
    few = _lanes(CANDIDATES.few_lanes)
    yield f"{path}combine_lanes", [tuple(n for _ in decided.combine_lanes) for n in few]
    yield f"{path}shared", ((),)
    yield f"{path}deinterleaved", ((),)
    for number, (group, each) in enumerate(zip(phase.groups, decided.nests, strict=True)):
        most = phase.inner_extent(group.dims[-1]) if group.dims else 1
        yield from _of_nest(group, each, f"{path}nests.{number}.", most)


def _lanes(most: int) -> list[int]:
    return [n for n in CANDIDATES.lanes if n <= most]


def _tiles(phase: Phase, decided: PhaseDecisions) -> list[tuple[tuple[int, int], ...]]:
    """Return the orders of the axes that number tiles, and other chunks of each that is cut."""
    free = len(decided.tile) - decided.serial
    rest = decided.tile[free:]
    orders = itertools.permutations(decided.tile[:free])
    found = [(*order, *rest) for order in itertools.islice(orders, CANDIDATES.orders)]
    chunks = [n for n in CANDIDATES.lanes if n >= CANDIDATES.wide_lanes]
    for at, (number, size) in enumerate(decided.tile):
        if not size:
            continue
        extent = phase.tile[at].extent
        sizes = {size // 2, 2 * size, size + 1, extent, *chunks}
        for other in sorted(n for n in sizes if 1 <= n <= extent):
            found.append((*decided.tile[:at], (number, other), *decided.tile[at + 1 :]))
    return found


def _of_nest(nest: LoopNest, decided: NestDecisions, path: str, most_lanes: int) -> Candidates:
    lanes = nest.dims[-1] if nest.dims else None
    yield from _of_points(nest, lanes, decided, path)
    if decided.epilogue is not None:  # over the loops and lanes of the nest that it stands behind
        yield from _of_points(nest.epilogue, lanes, decided.epilogue, f"{path}epilogue.")
    yield f"{path}next_tile", ((),)
    yield f"{path}loops", _orders(decided.loops)
    yield f"{path}strip", range(len(decided.loops))
    yield f"{path}lanes", _lanes(most_lanes)
    if decided.form in (PRODUCT, WINDOW):
        yield f"{path}rows", CANDIDATES.rows
    if decided.form == PRODUCT:
        yield f"{path}packed", (True, False)


def _of_points(nest: LoopNest, lanes: Atom | None, decided: NestDecisions, path: str) -> Candidates:
    yield f"{path}fetches", ((), *_fetches(decided.fetches))
    if may_shuffle(nest, lanes):
        yield f"{path}shuffles", (True, False)
    if may_divide(nest, lanes):
        yield f"{path}reciprocals", (True, False)


def _orders(loops: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return orders in which two neighbours change places."""
    found = []
    for at in range(min(len(loops) - 1, CANDIDATES.orders)):
        found.append((*loops[:at], loops[at + 1], loops[at], *loops[at + 2 :]))
    return found


def _fetches(decided: tuple[FetchDecision, ...]) -> Iterator[tuple[FetchDecision, ...]]:
    for factor in CANDIDATES.fetched:
        yield tuple(replace(f, ahead=f.ahead * factor) for f in decided)
        yield tuple(replace(f, ahead=-(-f.ahead // factor)) for f in decided)
    for cache in (TO_L1, TO_L2):
        yield tuple(replace(f, cache=cache) for f in decided)

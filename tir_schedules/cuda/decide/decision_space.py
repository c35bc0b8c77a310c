"""What else could be decided for a kernel: its structures, and the candidates of each knob of one.

Candidates are what may be worth a trial, not what is legal: `legal.phase` says that of each choice,
for one knob limits another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from ...analysis.iteration_space import Space
from ...decision_space import DecisionSpace, Knob, VariantSpace
from ...decisions import knobs
from ...device.cuda import MOST_THREADS, CudaDevice
from ..facts.reading import Reading
from ..plan.decisions import Decisions, PhaseDecisions, by_launch
from .counts import part_counts
from .planner import cheapest, default_decisions, ways_of
from .policy import BLOCKS


def decision_space(reading: Reading, device: CudaDevice) -> DecisionSpace | str:
    """Return what could be decided for a kernel, or why the template declines it."""
    first = default_decisions(reading, device)
    if isinstance(first, str):
        return first
    found: dict[str, VariantSpace] = {}
    for decisions in (first, *_others(reading, device)):
        made = _variant(decisions, reading)
        found.setdefault(made.variant, made)
    return DecisionSpace(tuple(found.values()))


def _others(reading: Reading, device: CudaDevice) -> Iterator[Decisions]:
    """Yield the best decisions of other structures: sums in parts or not, reads staged or not."""
    for parts in ((), *part_counts(reading, device)):
        choice = cheapest(reading.space(parts), parts, device)
        if isinstance(choice, str):
            continue
        yield choice.decisions
        launches = by_launch(choice.decisions.phases)
        for number, ways in enumerate(ways_of(reading.space(parts), device)):
            for way in ways:
                others = (*launches[:number], way, *launches[number + 1 :])
                yield replace(choice.decisions, phases=tuple(itertools.chain(*others)))


def _variant(decisions: Decisions, reading: Reading) -> VariantSpace:
    space = reading.space(decisions.parts)
    return VariantSpace(
        decisions,
        tuple(
            Knob(path, _candidates(path, value, decisions, space))
            for path, value in knobs(decisions).items()
        ),
    )


def _candidates(path: str, value: int, decisions: Decisions, space: Space) -> tuple[int, ...]:
    """Return what a knob may be, as it is decided first."""
    _, phase, *rest = path.split(".")
    name = rest[-1]
    if name == "ahead":
        return (value, not value)
    sizes = {"width": BLOCKS.widths, "holds": BLOCKS.holds, "unrolls": BLOCKS.unrolls}
    if name in sizes:
        return (value, *(n for n in sizes[name] if n != value))
    decided = decisions.phases[int(phase)]
    most = _extent(decided, int(rest[1]) if name == "block" else None, space)
    powers = [1 << n for n in range(most.bit_length() + 1)]
    if name == "block":
        sizes = {*(n for n in powers if n <= most), most}
    else:
        sizes = {n for n in powers if n <= MOST_THREADS}
    return (value, *sorted(sizes - {value}))


def _extent(decided: PhaseDecisions, axis: int | None, space: Space) -> int:
    """Return how long an axis of a launch is, or the longest."""
    lengths = [
        math.prod(space.atoms[number].extent for number in each.views[0]) for each in decided.axes
    ]
    return max(lengths) if axis is None else lengths[axis]

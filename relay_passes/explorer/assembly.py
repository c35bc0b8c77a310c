"""Choose disjoint patterns: beam search from producers to consumers (FusionStitching, section 5.3).

A partial plan is told by the ops from the current one on that it has taken: of two with the same
such ops only the better goes on. They are bits of a number, the current op's the lowest; a pattern
lies behind its first op, so the numbers stay short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dag import Dag, Pattern
from .order import without_cycles


@dataclass(frozen=True)
class _Partial:
    """A plan up to some op: its gain, what it took from there on, its patterns, last first."""

    score: float
    taken: int
    pattern: Pattern | None = None
    before: _Partial | None = None

    def patterns(self) -> list[Pattern]:
        out, plan = [], self
        while plan.pattern is not None:
            out.append(plan.pattern)
            plan = plan.before
        return out[::-1]


def assemble(dag: Dag, found: Sequence[Sequence[Pattern]], width: int) -> list[list[Pattern]]:
    """Return up to `width` plans, best first: disjoint patterns whose kernels have an order.

    `found` are `candidates`. Ops in no pattern of a plan are kernels of their own.
    """
    beam = [_Partial(0.0, 0)]
    for node in range(len(dag)):
        grown: dict[int, _Partial] = {}
        useful = [(_bits(p, node), p) for p in found[node] if p.score > 0]
        for plan in beam:
            _keep(grown, _Partial(plan.score, plan.taken >> 1, plan.pattern, plan.before))
            for bits, pattern in useful:
                if not bits & plan.taken:
                    score, taken = plan.score + pattern.score, (plan.taken | bits) >> 1
                    _keep(grown, _Partial(score, taken, pattern, plan))
        beam = sorted(grown.values(), key=lambda p: -p.score)[:width]
    return [without_cycles(dag, plan.patterns()) for plan in beam]


def _bits(pattern: Pattern, first: int) -> int:
    return sum(1 << (node - first) for node in pattern.nodes)


def _keep(grown: dict[int, _Partial], plan: _Partial) -> None:
    other = grown.get(plan.taken)
    if other is None or plan.score > other.score:
        grown[plan.taken] = plan

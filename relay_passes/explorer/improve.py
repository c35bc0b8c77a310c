"""Local search on a plan: join kernels that share an edge or an input while that gains.

A candidate has one first op, so the search before this one never sees what has two (a mask computed
beside the scores it is added to). Kernels that nothing connects are packed at the end;
FusionStitching reaches them from a producer of all ops that is not there (section 5.2).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .dag import Dag, Judge, Nodes, Pattern
from .kernels import Kernels


def improve(
    dag: Dag, judge: Judge, patterns: Sequence[Pattern], rounds: int, reach: int
) -> list[Pattern]:
    """Return a plan at least as good, in an order of execution; kernels of one op are left out.

    After up to `rounds` of joins each kernel is packed with one of the `reach` before it.
    """
    search = _Search(dag, judge, patterns)
    for _ in range(rounds):
        if not search.sweep():
            break
    search.pack(reach)
    return search.patterns()


class _Search:
    def __init__(self, dag: Dag, judge: Judge, patterns: Sequence[Pattern]) -> None:
        self._dag, self._judge = dag, judge
        self._kernels = Kernels(dag, patterns)
        self._scores: dict[Nodes, float | None] = {p.nodes: p.score for p in patterns}

    def patterns(self) -> list[Pattern]:
        kernels = [k for k in self._kernels.all() if len(k) > 1]
        return [Pattern(k, self._score(k) or 0.0) for k in kernels]

    def pack(self, reach: int) -> None:
        """Try kernels that no edge connects, each with the few before it in the order."""
        recent: list[int] = []
        for kernel in self._kernels.all():
            first = min(kernel)
            if self._score(kernel) is None:
                continue
            if not any(self._try(other, first) for other in reversed(recent)):
                recent = [*recent[1 - reach :], first]

    def sweep(self) -> bool:
        """Try every edge, and every pair of consumers of one op in a row; tell if one gained."""
        changed = False
        for node in range(len(self._dag)):
            row = sorted(self._dag.consumers[node])
            for consumer in row:
                changed = self._try(node, consumer) or changed
            for one, other in itertools.pairwise(row):
                changed = self._try(one, other) or changed
        return changed

    def _try(self, one: int, other: int) -> bool:
        left, right = self._kernels.of(one), self._kernels.of(other)
        if left is right:
            return False
        parts, whole = (self._score(left), self._score(right)), self._score(left | right)
        if whole is None or None in parts or whole <= sum(parts) + 1e-9:
            return False
        return self._judge.accepts(left | right) and self._kernels.join(one, other)

    def _score(self, nodes: Nodes) -> float | None:
        if nodes not in self._scores:
            self._scores[nodes] = self._judge.score(nodes)
        return self._scores[nodes]

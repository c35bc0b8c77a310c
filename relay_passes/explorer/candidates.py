"""Candidate patterns of every op: FusionStitching's approximate dynamic programming (section 5.2).

Ops are visited last to first, so that a candidate of an op is the op and candidates of its
consumers. `PatternReduction` takes the consumers apart by halves: what it looks at grows with the
number of edges, not with the number of subsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .dag import Dag, Judge, Nodes, Pattern


def candidates(dag: Dag, judge: Judge, top: int, leaf: int) -> list[list[Pattern]]:
    """Return for each op up to `top` patterns it is the first op of, best first; {op} is not one.

    Of up to `leaf` consumers all combinations are tried.

    Only convex sets that the judge takes; a set that loses time is kept too, for it may be part of
    a larger one that gains.
    """
    out: list[list[Pattern]] = [[] for _ in range(len(dag))]
    for node in range(len(dag) - 1, -1, -1):
        if judge.score(frozenset((node,))) is not None:
            out[node] = _Reduction(dag, judge, (top, leaf), node, out).run()
    return out


class _Reduction:
    """PatternReduction at one op."""

    def __init__(
        self,
        dag: Dag,
        judge: Judge,
        most: tuple[int, int],
        node: int,
        known: list[list[Pattern]],
    ) -> None:
        self._dag, self._judge = dag, judge
        self._top, self._width = most
        self._node, self._known = node, known
        self._legal: dict[Nodes, bool] = {}

    def run(self) -> list[Pattern]:
        consumers = [
            c for c in self._dag.consumers[self._node]
            if self._judge.score(frozenset((c,))) is not None
        ]  # fmt: skip
        return self._reduce(consumers)

    def _reduce(self, consumers: Sequence[int]) -> list[Pattern]:
        if not consumers:
            return []
        if len(consumers) <= self._width:
            return self._best(self._leaf(consumers))
        half = len(consumers) // 2
        left, right = self._reduce(consumers[:half]), self._reduce(consumers[half:])
        joined = [a.nodes | b.nodes for a in left for b in right]
        return self._best([*(p.nodes for p in (*left, *right)), *joined])

    def _leaf(self, consumers: Sequence[int]) -> list[Nodes]:
        """Return this op with every choice of nothing, the op itself or a candidate from each."""
        choices = [
            [frozenset(), frozenset((c,)), *(p.nodes for p in self._known[c])] for c in consumers
        ]
        own = frozenset((self._node,))
        return [own.union(*chosen) for chosen in itertools.product(*choices) if any(chosen)]

    def _best(self, sets: Sequence[Nodes]) -> list[Pattern]:
        scored = {nodes: self._judge.score(nodes) for nodes in sets}
        hoped = [Pattern(nodes, s) for nodes, s in scored.items() if s is not None]
        # Ties go to the larger set, then to the earlier ops: the order must not depend on hashes.
        hoped.sort(key=lambda p: (-p.score, -len(p.nodes), sorted(p.nodes)))
        return list(itertools.islice(filter(self._possible, hoped), self._top))

    def _possible(self, pattern: Pattern) -> bool:
        nodes = pattern.nodes
        if nodes not in self._legal:
            self._legal[nodes] = self._dag.is_convex(nodes) and self._judge.accepts(nodes)
        return self._legal[nodes]

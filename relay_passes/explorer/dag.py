"""The graph the explorer works on, the sets of ops it proposes, and who scores them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

Nodes = frozenset[int]


@dataclass(frozen=True)
class Pattern:
    """A convex set of ops and the gain, in ns, of making it one kernel instead of one an op."""

    nodes: Nodes
    score: float


class Judge(Protocol):
    """Scores sets of ops. Answers must depend on the set alone."""

    def score(self, nodes: Nodes) -> float | None:
        """Return the gain of one kernel over an op each, in ns, or None if it can't be one.

        Asked for every set that is looked at, so cheap: what costs time is left to `accepts`.
        """

    def accepts(self, nodes: Nodes) -> bool:
        """Return whether a set with a score can be one kernel; asked of the best ones only."""


class Dag:
    """Ops numbered in a topological order; `consumers[i]` and `producers[i]` are ops next to i."""

    def __init__(self, consumers: Sequence[Iterable[int]]) -> None:
        count = len(consumers)
        self.producers: list[list[int]] = [[] for _ in range(count)]
        self.levels = [0] * count
        unique = [sorted(set(row)) for row in consumers]
        for node, row in enumerate(unique):
            for consumer in row:
                if not node < consumer < count:
                    raise ValueError(f"edge {node} -> {consumer} is not in topological order")
                self.producers[consumer].append(node)
                self.levels[consumer] = max(self.levels[consumer], self.levels[node] + 1)
        # By level, so that a walk may stop at the first consumer that is too deep.
        self.consumers = [sorted(row, key=self._depth) for row in unique]

    def __len__(self) -> int:
        return len(self.consumers)

    def _depth(self, node: int) -> tuple[int, int]:
        return self.levels[node], node

    def is_convex(self, nodes: Nodes) -> bool:
        """Return whether no path leaves `nodes` and comes back.

        A path climbs a level a step: the walk ends at the deepest level of `nodes`, so it costs
        what lies beside the pattern, however large the graph.
        """
        deepest = max(self.levels[n] for n in nodes)
        stack = [c for n in nodes for c in self._within(n, deepest) if c not in nodes]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            for consumer in self._within(node, deepest):
                if consumer in nodes:
                    return False
                stack.append(consumer)
        return True

    def _within(self, node: int, deepest: int) -> list[int]:
        """Return the consumers down to a level."""
        row = self.consumers[node]
        if not row or self.levels[row[-1]] <= deepest:
            return row
        out = []
        for consumer in row:
            if self.levels[consumer] > deepest:
                break
            out.append(consumer)
        return out

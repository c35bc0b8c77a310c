"""Synthetic graphs and a synthetic judge for the explorer, and its optimum by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator

from relay_passes.explorer import Dag, Pattern
from relay_passes.explorer.dag import Nodes
from relay_passes.explorer.order import without_cycles


def chain(count: int) -> Dag:
    return Dag([[i + 1] if i + 1 < count else [] for i in range(count)])


def wide(count: int, width: int = 50) -> Dag:
    """Return layers of ops, each reading two of the layer before."""
    rng = random.Random(0)
    rows: list[list[int]] = [[] for _ in range(count)]
    for node in range(width, count):
        layer = node // width * width
        for _ in range(2):
            rows[rng.randrange(layer - width, layer)].append(node)
    return Dag(rows)


def blocks(count: int, size: int = 20) -> Dag:
    """Return repeated blocks with a residual edge around each, as in a Transformer."""
    rows: list[list[int]] = [[] for _ in range(count)]
    for node in range(count - 1):
        rows[node].append(node + 1)
        if node % size == 0 and node + size < count:
            rows[node].append(node + size)
        if node % size == 3 and node % size + 2 < size and node + 2 < count:
            rows[node].append(node + 2)
    return Dag(rows)


def dense(count: int, reach: int = 12) -> Dag:
    """Return ops that feed the next `reach` ops each: dense skip connections."""
    return Dag([range(i + 1, min(i + 1 + reach, count)) for i in range(count)])


def random_dag(rng: random.Random, count: int) -> Dag:
    rows: list[list[int]] = [[] for _ in range(count)]
    for node in range(1, count):
        for producer in rng.sample(range(node), min(node, rng.choice((1, 1, 1, 2, 2, 3)))):
            rows[producer].append(node)
    return Dag(rows)


class BytesJudge:
    """Scores by bytes kept off memory and kernels saved, less a price of live bytes.

    Some ops join nothing, some pairs of kinds do not go together: what an acceptance test refuses.
    """

    limit = 24

    def __init__(self, dag: Dag, seed: int = 0) -> None:
        rng = random.Random(seed)
        self._dag = dag
        self._bytes = [rng.choice((1, 4, 4, 16, 64)) for _ in range(len(dag))]
        self._kind = [rng.randrange(6) for _ in range(len(dag))]
        self._apart = rng.randrange(5), 5
        self._cache = rng.choice((40, 100, 1000))
        self.asked = 0

    def score(self, nodes: Nodes) -> float | None:
        self.asked += 1
        if len(nodes) > self.limit:
            return None
        gain, live = 10.0 * (len(nodes) - 1), 0
        for node in nodes:
            consumers = self._dag.consumers[node]
            inside = sum(c in nodes for c in consumers)
            if inside:
                gain += self._bytes[node] * inside
                live += self._bytes[node]
                if inside == len(consumers):
                    gain += self._bytes[node]
        return gain - 2.0 * max(0, live - self._cache)

    def accepts(self, nodes: Nodes) -> bool:
        kinds = {self._kind[n] for n in nodes}
        return len(nodes) == 1 or not set(self._apart) <= kinds


def optimum(dag: Dag, judge: BytesJudge) -> float:
    """Return the best gain of any partition into kernels that have an order; exponential."""
    good = {}
    for bits in range(1, 1 << len(dag)):
        nodes = frozenset(i for i in range(len(dag)) if bits >> i & 1)
        score = judge.score(nodes)
        if score is not None and judge.accepts(nodes) and dag.is_convex(nodes):
            good[bits] = (nodes, score)

    def plans(left: int, taken: list[Pattern]) -> Iterator[float]:
        if not left:
            if len(without_cycles(dag, taken)) == len(taken):
                yield sum(p.score for p in taken)
            return
        first = left & -left
        for bits, (nodes, score) in by_first[first]:
            if bits & ~left == 0:
                yield from plans(left & ~bits, [*taken, Pattern(nodes, score)])

    by_first = {1 << i: [] for i in range(len(dag))}
    for bits, found in good.items():
        by_first[bits & -bits].append((bits, found))
    return max(plans((1 << len(dag)) - 1, []))

"""Random networks of real blocks, compiled as users do: support/blocks/case.py."""

from __future__ import annotations

from support.blocks.case import wrong
from support.blocks.reducer import Part, whole
from support.random_graphs.case import describe

from . import sample

NETWORKS = 10_000


def cases(seed: int) -> list[str]:
    return sample.draw(NETWORKS, seed)


def run(case: str) -> dict:
    """Answer for a seed, or for a part of a seed's network as JSON."""
    chosen = Part.from_json(case) if case.startswith("{") else whole(int(case))
    graph = chosen.graph()
    if found := wrong(graph, chosen.way):
        return {"wrong": found, "way": str(chosen.way), "graph": describe(graph)}
    return {"wrong": []}

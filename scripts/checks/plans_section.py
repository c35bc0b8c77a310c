"""Random graphs fused by random legal plans: no answer rests on the planner's taste."""

from __future__ import annotations

from support.random_graphs.case import random_plans

from . import random_section, sample

GRAPHS = 3_000


def cases(seed: int) -> list[str]:
    return sample.draw(GRAPHS, seed + 1)  # graphs of their own


def run(seed: str) -> dict:
    with random_plans(int(seed)):
        return random_section.run(seed)

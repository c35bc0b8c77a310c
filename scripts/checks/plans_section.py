"""Random graphs fused by random legal plans: no answer rests on the planner's taste."""

from __future__ import annotations

from random_case import random_plans

from . import random_section

GRAPHS = 3_000


def cases() -> list[str]:
    first = random_section.GRAPHS  # graphs of their own
    return [str(seed) for seed in range(first, first + GRAPHS)]


def run(seed: str) -> dict:
    with random_plans(int(seed)):
        return random_section.run(seed)

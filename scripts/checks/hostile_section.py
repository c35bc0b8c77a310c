"""Models that are broken in bytes or in structure: support/hostile/case.py."""

from __future__ import annotations

from support.hostile.case import outcome

from . import sample

MODELS = 20_000


def cases(seed: int) -> list[str]:
    return sample.draw(MODELS, seed)


def run(number: str) -> dict:
    outcome(int(number))
    return {"wrong": []}

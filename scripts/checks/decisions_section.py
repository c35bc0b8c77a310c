"""Random decisions for the kernels of random models, some pairs of them a case.

What is legal is right within the usual bound, what is not has a reason: support/decisions/case.py.
"""

from __future__ import annotations

from support.decisions.case import wrong

from . import sample

MODELS = 10_000


def cases(seed: int) -> list[str]:
    return sample.draw(MODELS, seed)


def run(case: str) -> dict:
    found, drawn = wrong(int(case))
    return {"wrong": found, "decisions": drawn.decisions} if found else {"wrong": []}

"""PyTorch's operators on its own samples, by torch.export: support/frontend/aten.py."""

from __future__ import annotations

import random

from support.frontend import aten

CALLS = 2  # of an operator of each type


def cases(seed: int) -> list[str]:
    return [
        f"{dtype} {name} {random.Random(f'{seed} {name} {dtype}').randrange(1 << 16)}"
        for dtype in aten.DTYPES
        for name in aten.names(dtype)
    ]


def run(case: str) -> dict:
    dtype, name, seed = case.split()
    found = []
    for call in aten.calls(name, dtype, int(seed), CALLS):
        reason, _ = aten.wrong(call)
        if reason:
            found.append(f"{aten.told(call)}: {reason}")
    return {"wrong": found}

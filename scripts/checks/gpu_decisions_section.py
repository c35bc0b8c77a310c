"""Random decisions of the kernels of random graphs for a GPU, run as C++ by fibers.

Each case draws a variant of a kernel's decision space and candidates of its knobs: what legality
lets pass must be right, in two orders of blocks and threads.
"""

from __future__ import annotations

import random

from tvm import tirx

from support.cuda.checked import H200, planned, wrong
from support.cuda.kernels import fused
from support.random_graphs.graphs import random_graph
from tir_schedules.cuda import template
from tir_schedules.cuda.plan.decisions import Decisions
from tir_schedules.cuda.plan.kernel_plan import Plan
from tir_schedules.decisions import to_json
from tir_schedules.kernel_ir.parse import read
from tir_schedules.kernel_ir.stage import Kernel

from . import sample

DECISIONS = 5_000
DRAWS = 8  # until legality lets one pass
MOST_THREADS = 100_000  # of a case: fibers take about a microsecond each, and more to compute


def cases(seed: int) -> list[str]:
    return sample.draw(DECISIONS, seed)


def run(case: str) -> dict:
    """Answer for a seed; `ran` tells whether some decisions drawn for it could be run."""
    rng = random.Random(int(case))
    for func in fused(random_graph(rng).model()):
        kernel = read(func)
        space = kernel if isinstance(kernel, str) else template.decision_space(kernel, H200)
        if isinstance(space, str):
            continue
        for _ in range(DRAWS):
            decided = rng.choice(space.variants).sample(rng)
            if _is_small(template.plan(kernel, decided, H200)):
                return _answer(func, kernel, decided, int(case))
    return {"wrong": [], "ran": 0}


def _is_small(plan: Plan | str) -> bool:
    if isinstance(plan, str):
        return False
    return sum(phase.blocks * phase.threads for phase in plan.phases) <= MOST_THREADS


def _answer(func: tirx.PrimFunc, kernel: Kernel, decided: Decisions, seed: int) -> dict:
    found = wrong(func, planned(func, decided), seed)
    if found is None:
        return {"wrong": [], "ran": 1}
    return {"wrong": [found], "ran": 1, "kernel": str(kernel), "decisions": to_json(decided)}

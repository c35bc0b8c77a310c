"""Find the rewrite or fusion that makes a model's results wrong, by fuel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvm_stitch.build import Request, build, describe_last, lower
from tvm_stitch.verification.whole import Expected

_NONE = "the model is wrong without any rewrite: its import, its legalisation, or TVM"


def find_rewrite(
    request: Request, spent: int, inputs: Mapping[str, np.ndarray], expected: Expected
) -> str:
    """Return in words what makes the results wrong that are so with `spent` rewrites.

    The model is compiled anew for each amount that is tried.
    """
    if spent == 0:
        return _NONE
    right, wrong, last = -1, spent, ""
    while wrong - right > 1:
        # Without any first: if that is wrong there is nothing to look for.
        middle = 0 if right < 0 else (right + wrong) // 2
        lowered = lower(replace(request, fuel=middle, dump_dir=None))
        results = build(lowered).run(inputs)
        if expected.problem(list(results.values())) is None:
            right = middle
        elif middle == 0:
            return _NONE
        else:
            wrong, last = middle, describe_last(lowered.fuel, lowered.imported)
    if not last:
        lowered = lower(replace(request, fuel=wrong, dump_dir=None))
        build(lowered)
        last = describe_last(lowered.fuel, lowered.imported)
    return f"rewrite {wrong} of {spent} makes it wrong: {last}"

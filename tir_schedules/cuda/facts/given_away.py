"""What leaves its launch for another, where tensor cores make it."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.kernel_facts import is_large_contraction
from ...kernel_ir.expr import Axis, AxisRef, Load, Tensor
from ...kernel_ir.stage import Stage, substitute_axes
from .halves import HALVES


def given_away(stage: Stage) -> list[Stage]:
    """Return a stage that leaves its launch; behind a product of halves a copy does it.

    Tensor cores leave what they make in shared memory.
    """
    if not is_large_contraction(stage) or not any(ld.dtype in HALVES for ld in stage.loads()):
        return [stage]
    kept = Tensor(f"{stage.out.name}_here", stage.out.shape, stage.out.dtype)
    own = {axis: Axis(axis.name, axis.extent) for axis in stage.spatial}
    places = {axis: AxisRef(copy) for axis, copy in own.items()}
    index = tuple(substitute_axes(i, places) for i in stage.out_index)
    copy = Stage(stage.name, stage.out, tuple(own.values()), index, Load(kept, index))
    return [replace(stage, name=kept.name, out=kept), copy]

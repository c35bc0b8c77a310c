"""The CPU templates as dlight rules: `dlight.ApplyDefaultSchedule(*cpu.rules())`."""

from __future__ import annotations

import logging

from tvm import s_tir, tirx
from tvm.s_tir.dlight import ScheduleRule
from tvm.target import Target

from ..default_plan import schedule_prim_func
from ..device import CpuDevice

logger = logging.getLogger("tvm_stitch.schedule")


class Stitch(ScheduleRule):
    """Run a whole kernel as parallel tiles with vector loops: the stitch template.

    rewrite:
        sblocks over full tensors, serial
      -> for task in parallel: tile buffers; for tile: vector loops, accumulators in registers
    """

    def apply(self, func: tirx.PrimFunc, target: Target, _tunable: bool) -> s_tir.Schedule | None:
        if target.kind.name != "llvm":
            logger.debug("Stitch: rule skipped: target kind is %s, not llvm", target.kind.name)
            return None
        scheduled = schedule_prim_func(func, CpuDevice.detect(target))
        if isinstance(scheduled, str):
            logger.debug("Stitch: rule skipped: %s", scheduled)
            return None
        return s_tir.Schedule(scheduled)


def rules() -> list[ScheduleRule]:
    """Return the CPU rules in the order they are tried."""
    return [Stitch()]

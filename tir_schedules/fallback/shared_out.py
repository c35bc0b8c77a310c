"""Loops of kernels that no template takes, shared out among threads."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.s_tir.schedule import SBlockRV, ScheduleError


def shared_out(func: tirx.PrimFunc, least: float) -> tirx.PrimFunc:
    """Return a function whose blocks have the loops of their results in parallel.

    Blocks of fewer than `least` points stay on one thread, and so do those that TVM does not prove
    to write apart, or whose loops are more or other than their axes, as who has scheduled a
    function leaves them.

    rewrite: for i, j: with sblock: vi, vj = S(i), S(j)   ->   for ij in parallel(..): ..
    """
    if not isinstance(func.body, s_tir.SBlockRealize) or func.body.block.name_hint != "root":
        return func  # what an operator wrote out as a whole
    schedule = s_tir.Schedule(func)
    root = schedule.get_sblock("root")
    for block in schedule.get_child_blocks(root):
        if _points(schedule, block) >= least:
            _share_out(schedule, block)
    return schedule.mod["main"].with_attrs(dict(func.attrs.items()))


def _points(schedule: s_tir.Schedule, block: SBlockRV) -> int:
    """Return how often a block runs; a loop whose extent varies counts once."""
    extents = [schedule.get(loop).extent for loop in schedule.get_loops(block)]
    return math.prod(int(extent) for extent in extents if isinstance(extent, tirx.IntImm))


def _share_out(schedule: s_tir.Schedule, block: SBlockRV) -> None:
    loops, axes = schedule.get_loops(block), schedule.get(block).iter_vars
    kinds = [axis.iter_type == tirx.IterVar.DataPar for axis in axes]
    apart = kinds.index(False) if False in kinds else len(kinds)
    serial = all(schedule.get(loop).kind == tirx.ForKind.SERIAL for loop in loops)
    if not apart or len(loops) != len(axes) or not serial:
        return
    try:
        schedule.parallel(schedule.fuse(*loops[:apart]))
    except ScheduleError:
        return

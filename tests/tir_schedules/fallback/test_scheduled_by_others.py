"""What the template declines may be scheduled by others; it is kept inside its buffers as ever."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, s_tir, tirx

from support.models import relax_models as rm
from tir_schedules.apply import ApplyStitchSchedules
from tir_schedules.decision_source import TUNED, Decided, DecisionSource, using
from tir_schedules.device import CpuDevice
from tvm_stitch import targets

IMAGE = np.random.default_rng(0).standard_normal((2, 4, 16, 16)).astype("float32")


class Parallel(DecisionSource):
    """Runs the first loop of the last block in parallel."""

    def __init__(self) -> None:
        self.asked: list[CpuDevice] = []

    def scheduled(self, func: tirx.PrimFunc, device: CpuDevice) -> Decided | None:
        self.asked.append(device)
        schedule = s_tir.Schedule(func)
        block = schedule.get_child_blocks(schedule.get_sblock("root"))[-1]
        schedule.parallel(schedule.get_loops(block)[0])
        return Decided(schedule.mod["main"].without_attr("global_symbol"), TUNED, 1.5)


class Nothing(DecisionSource):
    """Leaves all as it is."""


def pooled(source: DecisionSource) -> tuple[ApplyStitchSchedules, tvm.IRModule]:
    module = rm.module(lambda _, x: relax.op.nn.adaptive_avg_pool2d(x, 5), IMAGE)
    target = targets.resolve("x86", 2)
    schedules = ApplyStitchSchedules()
    with target, using(source):
        return schedules, schedules(relax.transform.LegalizeOps()(module))


def test_a_kernel_that_is_declined_runs_as_others_schedule_it():
    source = Parallel()
    schedules, module = pooled(source)
    (name,) = schedules.declined
    assert [each.threads for each in source.asked] == [2]
    assert str(schedules.decided[name]) == "tuned, 1.50x"
    assert "T.parallel" in module[name].script()
    got = rm.run(tvm.compile(module, targets.resolve("x86", 2)), rm.Relaxed(module, (IMAGE,), ()))
    usual, as_is = pooled(Nothing())
    assert not usual.decided
    want = rm.run(tvm.compile(as_is, targets.resolve("x86", 2)), rm.Relaxed(as_is, (IMAGE,), ()))
    np.testing.assert_array_equal(got[0], want[0])

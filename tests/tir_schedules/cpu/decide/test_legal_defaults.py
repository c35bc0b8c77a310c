"""Default decisions that legality once refused, so that TVM's rule ran the kernel.

Where default decisions are illegal, any test fails (support.illegal_defaults).
"""

from __future__ import annotations

import pytest
from tvm import te, tirx, topi

from support.kernels import stitch_case
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.default_plan import plan_prim_func


def gathered_operand() -> tirx.PrimFunc:
    """A product by one of several weights, which an input tells."""
    x = te.placeholder((64, 512), "float32", "x")
    weights = te.placeholder((3, 512, 64), "float32", "weights")
    which = te.placeholder((), "int64", "which")
    weight = te.compute((512, 64), lambda k, j: weights[te.max(te.min(which(), 2), 0), k, j], "w")
    return te.create_prim_func([x, weights, which, topi.matmul(x, weight)])


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_of_a_gathered_operand_nothing_is_fetched_ahead(threads):
    plan = plan_prim_func(gathered_operand(), stitch_case.device(threads))
    assert isinstance(plan, Plan), plan

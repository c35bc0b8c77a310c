"""Results along a register tile's rows are stored as vectors, whatever part of a tile they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from support.kernels.tir import is_vector, statements
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

WIDE = replace(sc.device(2), vector_bytes=64)
NARROW = replace(WIDE, vector_bytes=32)


def channels_first(
    batch: int,
    pixels: int,
    channels: int,
    dtype: str = "float32",
    shown: bool = False,
    residual: bool = False,
) -> tirx.PrimFunc:
    """Return relu(x[n] @ w) with channels before pixels; sums may be `shown` as they are too.

    Or the larger of the sums and of a `residual` that lies as the result does.
    """
    x = te.placeholder((batch, pixels, 24), dtype, "x")
    w = te.placeholder((24, channels), dtype, "w")
    k, zero = te.reduce_axis((0, 24), "k"), tirx.const(0, dtype)
    r = te.placeholder((batch, channels, pixels), dtype, "r")
    made = te.compute(
        (batch, pixels, channels), lambda n, p, c: te.sum(x[n, p, k] * w[k, c], k), "made"
    )
    out = te.compute(
        (batch, channels, pixels),
        lambda n, c, p: te.max(made[n, p, c], r[n, c, p] if residual else zero),
        "out",
    )
    more = [made] * shown + [r] * residual
    return te.create_prim_func([x, w, *more, out])


def planned(func: tirx.PrimFunc, device=WIDE) -> Plan:
    plan = plan_prim_func(func, device)
    assert isinstance(plan, Plan), plan
    return plan


def widths(plan: Plan, func: tirx.PrimFunc) -> list[int]:
    """Return the lanes of the stores to the result, 1 for each that is scattered."""
    found = []
    for stmt, inside in statements(emit_plan(plan, func).body):
        if isinstance(stmt, tirx.BufferStore) and stmt.buffer.name == "out_":
            loop = inside[-1]
            lanes = int(loop.extent) if is_vector(loop) else 1
            scattered = lanes > 1 and f"{loop.loop_var.name} *" in str(stmt.indices[0])
            found.append(1 if scattered else lanes)
    return found


def test_rows_of_a_register_tile_are_stored_as_vectors_that_overlap():
    func = channels_first(8, 196, 64)
    plan = planned(func)
    ((group,),) = (phase.groups for phase in plan.phases)
    assert (group.rows, group.lanes) == (14, 32)
    assert widths(plan, func) == [8, 8] * 32


@pytest.mark.parametrize(
    ("dtype", "channels", "turned"),
    [
        ("float32", 64, True),
        ("float64", 64, True),
        ("float32", 40, False),  # lanes that are no whole registers
    ],
)
def test_what_is_turned_is_an_epilogue(dtype, channels, turned):
    func = channels_first(8, 196, channels, dtype)
    plan = planned(func)
    epilogues = [g.epilogue is not None for p in plan.phases for g in p.groups if g.is_product]
    assert epilogues == [turned]
    assert (min(widths(plan, func)) > 1) or not turned


def test_sums_that_are_a_result_too_are_stored_first():
    plan = planned(channels_first(8, 196, 64, shown=True))
    assert all(g.epilogue is None for p in plan.phases for g in p.groups)


def test_nothing_is_gathered_for_it():
    """A residual along the rows is read in a nest of its own, in vectors of pixels."""
    plan = planned(channels_first(8, 196, 64, residual=True))
    assert all(g.epilogue is None for p in plan.phases for g in p.groups)


@pytest.mark.long(every=13)
@pytest.mark.parametrize("device", [WIDE, NARROW])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pixels", [196, 49, 15, 101, 4])
@pytest.mark.parametrize("channels", [64, 16, 40])
def test_results_of_any_size_are_right(device, dtype, pixels, channels):
    func = channels_first(3, pixels, channels, dtype)
    rng = np.random.default_rng(pixels)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((3, pixels, 24), (24, channels)))
    got = np.full((3, channels, pixels), 7, dtype)
    run(emit_plan(planned(func, device), func), x, w, got)
    made = np.maximum(x.astype("float64") @ w.astype("float64"), 0).transpose(0, 2, 1)
    sc.assert_close({"y": got}, {"y": made}, sc.BOUND[dtype])

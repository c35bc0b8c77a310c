"""The largest element of a softmax's row may drop a NaN: the sum keeps it. Any other may not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

ROWS, COLUMNS = 24, 70
DEVICE = replace(sc.device(1), vector_bytes=64)


def kernel(shown: str = "", logarithm: bool = False, more: int = 0) -> tirx.PrimFunc:
    """Return a softmax; `shown` names a second result, the largest is of `more` elements."""
    x = te.placeholder((ROWS, COLUMNS + more), "float32", "x")
    k, n = te.reduce_axis((0, COLUMNS + more), "k"), te.reduce_axis((0, COLUMNS), "n")
    shape = (ROWS, COLUMNS)
    largest = te.compute((ROWS,), lambda i: te.max(x[i, k], k), "largest")
    power = te.compute(shape, lambda i, j: te.exp(x[i, j] - largest[i]), "power")
    total = te.compute((ROWS,), lambda i: te.sum(power[i, n], n), "total")
    if logarithm:
        out = te.compute(shape, lambda i, j: x[i, j] - largest[i] - te.log(total[i]), "out")
    else:
        out = te.compute(shape, lambda i, j: power[i, j] / total[i], "out")
    below = te.compute(shape, lambda i, j: x[i, j] - largest[i], "below")
    results = {"largest": largest, "power": power, "total": total, "below": below}
    also = [results[shown]] if shown else []
    return te.create_prim_func([x, *also, out])


@pytest.mark.parametrize(
    ("form", "drops"),
    [
        ({}, True),
        ({"shown": "total"}, True),
        ({"shown": "largest"}, False),
        ({"shown": "power"}, False),
        ({"shown": "below"}, False),
        ({"logarithm": True}, False),
        ({"more": 3}, False),  # a NaN beyond the sum
    ],
)
def test_only_what_a_softmax_alone_reads_drops_a_nan(form, drops):
    func = kernel(**form)
    plan = plan_prim_func(func, DEVICE)
    (rule,) = (
        n.stage.reduction
        for n in plan.space.nodes
        if n.stage.reduction is not None and n.stage.reduction.kind == "max"
    )
    assert rule.drops_nan == drops

    rng = np.random.default_rng(0)
    x = rng.normal(0, 3, (ROWS, COLUMNS + form.get("more", 0))).astype("float32")
    x[1, 0] = x[2, COLUMNS - 1] = x[3, 33] = x[4, -1] = np.nan
    x[5], x[6, 4], x[7] = -np.inf, np.inf, np.nan
    x[8, :-1], x[8, -1] = -np.inf, np.nan
    x[9, 5:] = -np.inf
    arrays = [np.empty([int(n) for n in p.ty.shape], "float32") for p in func.params[1:]]
    run(emit_plan(plan, func), x, *arrays)

    wide = x.astype("float64")
    with np.errstate(invalid="ignore"):
        largest = wide.max(axis=1)
        below = wide[:, :COLUMNS] - largest[:, None]
        power = np.exp(below)
    total = power.sum(axis=1)
    out = power / total[:, None]
    if form.get("logarithm"):
        with np.errstate(invalid="ignore"):
            out = wide - largest[:, None] - np.log(total)[:, None]
    results = {"largest": largest, "power": power, "total": total, "below": below}
    also = [results[form["shown"]]] if "shown" in form else []
    for got, expected in zip(arrays, [*also, out], strict=True):
        finite = expected[np.isfinite(expected)]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(finite).max())

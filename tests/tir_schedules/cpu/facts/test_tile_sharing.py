"""Tile buffers written over others: only where no element is read afterwards, bit for bit alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = replace(sc.device(2), vector_bytes=64)


def rows(
    shape: tuple[int, int] = (96, 640),
    power: str = "float32",
    again: bool = False,
    turned: bool = False,
    first: bool = False,
    halved: bool = False,
) -> tirx.PrimFunc:
    """Return weights exp(u - largest) / total of u, or of pairs of exps if `halved`.

    Two nests read u, so that it is a tile buffer; the weights read it `again`, or not.
    """
    height, width = shape
    x = te.placeholder((height, width + 1), "float32", "x")
    m, n = (te.reduce_axis((0, width), name) for name in "mn")
    u = te.compute(shape, lambda i, j: te.tanh(x[i, j]) * te.sigmoid(x[i, j + 1]), "u")
    largest = te.compute((height,), lambda i: te.max(u[i, m], m), "largest")

    def weight(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        place = width - 1 - j if turned else j
        value = te.exp(u[i, place] - largest[i])
        return (value * u[i, 0] if first else value).astype(power)

    powers = te.compute(shape, weight, "powers")
    total = te.compute((height,), lambda i: te.sum(powers[i, n], n), "total")

    def quotient(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        value = powers[i, j] / total[i]
        return value + u[i, j].astype(power) if again else value

    if halved:
        half = (height, width // 2)
        result = te.compute(half, lambda i, j: powers[i, 2 * j] * powers[i, 2 * j + 1], "result")
    else:
        result = te.compute(shape, quotient, "result")
    return te.create_prim_func([x, result])


def residual(height: int, width: int, depth: int) -> tirx.PrimFunc:
    """Return a product added to what is made before it in the tile, by the norm of the row."""
    z = te.placeholder((height, depth), "float32", "z")
    w = te.placeholder((depth, width), "float32", "w")
    x = te.placeholder((height, width), "float32", "x")
    shape, k = (height, width), te.reduce_axis((0, depth), "k")
    a, b, c = (te.reduce_axis((0, width), name) for name in "abc")
    bent = te.compute(shape, lambda i, j: te.tanh(x[i, j]) * te.exp(x[i, j]), "bent")
    mean = te.compute((height,), lambda i: te.sum(bent[i, a] / width, a), "mean")
    power = te.compute(shape, lambda i, j: te.exp(bent[i, j] - mean[i]), "power")
    total = te.compute((height,), lambda i: te.sum(power[i, c], c), "total")
    product = te.compute(shape, lambda i, j: te.sum(z[i, k] * w[k, j], k), "product")
    added = te.compute(shape, lambda i, j: power[i, j] + product[i, j], "added")
    norm = te.compute((height,), lambda i: te.sum(added[i, b] * added[i, b], b), "norm")
    out = te.compute(shape, lambda i, j: added[i, j] / (norm[i] + total[i]), "out")
    return te.create_prim_func([z, w, x, out])


def shared(plan: Plan) -> list[tuple[str, str]]:
    """Return the names of results that are in the tile buffer of others, and these."""
    found = []
    for phase in plan.phases:
        found += [(n.stage.out.name, over.stage.out.name) for n, over in phase.shared.items()]
    return found


def planned(func: tirx.PrimFunc) -> Plan:
    plan = plan_prim_func(func, DEVICE)
    assert isinstance(plan, Plan), plan
    return plan


@pytest.mark.parametrize(
    ("form", "over"),
    [
        ({}, [("powers", "u")]),
        ({"again": True}, []),
        ({"power": "float64"}, []),
        ({"turned": True}, []),
        ({"first": True}, []),
        ({"halved": True}, []),  # the lines of the exps are split
        ({"shape": (96, 641)}, [("powers", "u")]),
    ],
)
def test_a_result_takes_the_buffer_of_what_it_reads_last(form, over):
    assert shared(planned(rows(**form))) == over


def test_shared_buffers_count_once():
    assert planned(rows()).tile_bytes == 640 * 4 + 4 + 4
    assert planned(rows(again=True)).tile_bytes == 2 * 640 * 4 + 4 + 4


@pytest.mark.parametrize(
    ("width", "over"),
    [
        (40, [("power", "bent"), ("added", "bent")]),
        (44, [("power", "bent")]),  # the last lanes of a register tile are done twice
    ],
)
def test_an_epilogue_takes_the_buffer_of_a_residual(width, over):
    func = residual(64, width, 48)
    plan = planned(func)
    assert any(g.epilogue is not None for phase in plan.phases for g in phase.groups)
    assert shared(plan) == over
    rng = np.random.default_rng(width)
    z, w, x = (rng.normal(size=s).astype("float32") for s in ((64, 48), (48, width), (64, width)))
    check_alike(func, plan, z, w, x, shape=x.shape)


@settings(max_examples=12, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 700)),
    again=st.booleans(),
    turned=st.booleans(),
    power=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_results_are_those_of_buffers_apart(shape, again, turned, power, seed):
    func = rows(shape, power, again, turned)
    plan = planned(func)
    x = np.random.default_rng(seed).normal(0, 2, (shape[0], shape[1] + 1)).astype("float32")
    check_alike(func, plan, x, shape=shape, dtype=power)


def check_alike(
    func: tirx.PrimFunc,
    plan: Plan,
    *inputs: np.ndarray,
    shape: tuple[int, ...],
    dtype: str = "float32",
) -> None:
    """Compare a kernel with itself where each tensor has a buffer of its own, bit by bit."""
    got, apart = np.zeros(shape, dtype), np.zeros(shape, dtype)
    run(emit_plan(plan, func), *inputs, got)
    alone = tuple(replace(phase, shared={}) for phase in plan.phases)
    run(emit_plan(replace(plan, phases=alone), func), *inputs, apart)
    np.testing.assert_array_equal(got, apart)

"""Arguments of exp that are known to be at most 0, and exp of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run, scheduled
from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.kernel_ir.expr import NEVER_ABOVE_ZERO, walk
from tir_schedules.rewrites.inline import inline_stages
from tir_schedules.rewrites.mark_signs import mark_signs
from tir_schedules.rewrites.widen import widen


def less_the_largest(shape: tuple[int, int], scale: float, other: float, whole: bool = True):
    """exp(scale * x - max(other * x)) over the last axis, or all of it but one element."""
    x = te.placeholder(shape, "float32", "x")
    k = te.reduce_axis((0, shape[1] if whole else shape[1] - 1), "k")
    largest = te.compute(
        (shape[0],), lambda i: te.max(x[i, k] * tirx.const(other, "float32"), axis=k), "largest"
    )
    by = tirx.const(scale, "float32")
    out = te.compute(shape, lambda i, j: te.exp(x[i, j] * by - largest[i]), "out")
    return te.create_prim_func([x, out])


def marks(kernel: tirx.PrimFunc) -> int:
    marked = mark_signs(inline_stages(widen(summarize(kernel))))
    nodes = [n for s in marked.stages for n in walk(s.value)]
    return sum(getattr(n, "name", "") == NEVER_ABOVE_ZERO for n in nodes)


def test_a_value_less_the_largest_of_its_row_is_marked():
    assert marks(less_the_largest((4, 96), 0.5, 0.5)) == 1


@pytest.mark.parametrize(
    "kernel",
    [less_the_largest((4, 96), 0.5, 0.25), less_the_largest((4, 96), 0.5, 0.5, whole=False)],
    ids=["another value", "not of the whole row"],
)
def test_what_may_be_above_is_not_marked(kernel):
    assert marks(kernel) == 0


@pytest.mark.parametrize(("rows", "of_column", "count"), [(96, False, 0), (48, True, 1)])
def test_the_largest_of_a_column_counts_along_the_column_alone(rows, of_column, count):
    x = te.placeholder((rows, 48 if of_column else rows), "float32", "x")
    k = te.reduce_axis((0, rows), "k")
    largest = te.compute(
        (x.shape[1],), lambda j: te.max(x[k, j] if of_column else x[j, k], axis=k), "largest"
    )
    out = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - largest[j]), "out")
    assert marks(te.create_prim_func([x, out])) == count


@pytest.mark.parametrize("vector_bytes", [32, 64])
def test_exp_of_it_is_right_at_every_size_and_at_infinity(vector_bytes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 1000)).astype("float32") * np.float32(60)
    x[1, :100] = -np.inf
    x[2, :100] = -3e38
    x[3] = -np.inf
    x[4, 7] = np.nan
    x[5, 7] = np.inf
    made = np.empty_like(x)
    run(
        scheduled(
            less_the_largest(x.shape, 1.0, 1.0), replace(sc.device(1), vector_bytes=vector_bytes)
        ),
        x,
        made,
    )
    with np.errstate(all="ignore"):
        want = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        want[np.isfinite(want)] = want[np.isfinite(want)].astype("float32")
    assert np.array_equal(np.isnan(made), np.isnan(want))
    finite = ~np.isnan(want)
    more = 0.62 * np.abs(np.log(np.maximum(want, 1e-45))) if vector_bytes == 64 else 0.0
    error = np.abs(made - want)[finite]
    assert np.all(error <= ((4 + more) * want * 2.0**-23 + 6e-45)[finite])

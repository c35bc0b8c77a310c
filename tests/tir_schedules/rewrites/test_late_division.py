"""Softmax weights that only a product reads: the product is divided instead, and when it is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.rewrites.inline import inline_stages
from tir_schedules.rewrites.late_division import divide_late
from tir_schedules.rewrites.mark_signs import mark_signs
from tir_schedules.rewrites.widen import widen

ROWS, KEYS, COLUMNS = 96, 112, 48


@dataclass(frozen=True)
class Form:
    """A product of weights exp(x - largest) / total, and how it differs from attention."""

    dtype: str = "float32"
    columns: int = COLUMNS
    largest_of: str = "row"  # "row", "all" of x, or "none" is taken off
    summed: str = "keys"  # what the product sums over
    shown: bool = False  # whether the weights are a result too
    squared: bool = False  # whether the weights stand in both factors
    raised: bool = False  # whether a factor is more than a weight
    more: int = 0  # how many further elements the largest is of

    def kernel(self) -> tirx.PrimFunc:
        x = te.placeholder((ROWS, KEYS + self.more), self.dtype, "x")
        shape = (ROWS, KEYS)
        depth = KEYS if self.summed == "keys" else ROWS
        v = te.placeholder((depth, self.columns), self.dtype, "v")
        k, n, d = (
            te.reduce_axis((0, e), name) for e, name in ((KEYS, "k"), (KEYS, "n"), (depth, "d"))
        )
        r, all_keys = te.reduce_axis((0, ROWS), "r"), te.reduce_axis((0, KEYS + self.more), "a")
        if self.largest_of == "row":
            largest = te.compute((ROWS,), lambda i: te.max(x[i, all_keys], all_keys), "largest")
            powers = te.compute(shape, lambda i, j: te.exp(x[i, j] - largest[i]), "powers")
        elif self.largest_of == "all":
            largest = te.compute((1,), lambda i: te.max(x[r, k], [r, k]), "largest")
            powers = te.compute(shape, lambda i, j: te.exp(x[i, j] - largest[0]), "powers")
        else:
            powers = te.compute(shape, lambda i, j: te.exp(x[i, j]), "powers")
        total = te.compute((ROWS,), lambda i: te.sum(powers[i, n], n), "total")
        weights = te.compute(shape, lambda i, j: powers[i, j] / total[i], "weights")

        def value(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
            weight = weights[i, d] if self.summed == "keys" else weights[d, i]
            weight = te.exp(weight) if self.raised else weight
            return te.sum(weight * (v[d, j] + weight if self.squared else v[d, j]), d)

        rows = ROWS if self.summed == "keys" else KEYS
        out = te.compute((rows, self.columns), value, "out")
        return te.create_prim_func([x, v, *([weights] if self.shown else []), out])

    def divided_late(self) -> bool:
        reduced = mark_signs(inline_stages(widen(summarize(self.kernel()))))
        return any(s.out.name.endswith("_undivided") for s in divide_late(reduced).stages)


@pytest.mark.parametrize(
    ("form", "late"),
    [
        (Form(), True),
        (Form("float64"), True),
        (Form(columns=KEYS + 1), False),
        (Form(largest_of="all"), False),  # a row's total may be as small as it likes
        (Form(largest_of="none"), False),
        (Form(summed="rows"), False),
        (Form(shown=True), False),
        (Form(squared=True), False),
        (Form(raised=True), False),
        (Form(more=16), False),  # the largest may be none of the row that is summed
    ],
)
def test_a_product_of_softmax_weights_alone_is_divided_late(form, late):
    assert form.divided_late() == late


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_those_of_the_weights(dtype):
    func = Form(dtype).kernel()
    rng = np.random.default_rng(0)
    x, v = rng.normal(0, 4, (ROWS, KEYS)), rng.normal(size=(KEYS, COLUMNS))
    x[3, :] = -np.inf
    x[5, 7:] = -np.inf
    x[6, 2] = np.nan
    x[7, 1], v[9, 4] = 80.0, np.inf
    x[8] = -1e30
    out = np.zeros((ROWS, COLUMNS), dtype)
    plan = plan_prim_func(func, replace(sc.device(1), vector_bytes=64))
    run(emit_plan(plan, func), x.astype(dtype), v.astype(dtype), out)
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True) @ v
    scale = np.abs(expected[np.isfinite(expected)]).max()
    np.testing.assert_allclose(out, expected, rtol=sc.BOUND[dtype], atol=sc.BOUND[dtype] * scale)


def test_a_divisor_of_each_row_takes_registers_of_the_tile():
    func, device = Form().kernel(), replace(sc.device(1), vector_bytes=64)
    (product,) = (g for p in plan_prim_func(func, device).phases for g in p.groups if g.is_product)
    assert product.epilogue is not None
    assert product.rows * 3 + 3 <= 32

"""Reductions, softmax and normalizations against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_stitch
from support.frontend.case import Case, check_case, ints
from support.frontend.reductions import CASES


@pytest.mark.long(every=5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_imported_operator_computes_what_onnx_says(case):
    check_case(case)


def test_the_mean_of_halves_overflows_neither_in_its_sum_nor_in_its_count():
    x = np.random.default_rng(0).uniform(900, 1100, (3, 70_000)).astype("f2")
    model = Case("ReduceMean-many", "ReduceMean", {"x": x}, {"axes": ints([1])}).model()
    (got,) = tvm_stitch.compile(model).run({"x": x}).values()
    expected = x.mean(1, dtype=np.float64, keepdims=True)
    np.testing.assert_allclose(got, expected, rtol=float(np.finfo("f2").eps))


@pytest.mark.long(every=5)
@pytest.mark.parametrize("fusion", ["stitch", "none"])
@pytest.mark.parametrize("axes", [[1], [0, 2], [-3]])
@pytest.mark.parametrize(
    ("op", "between"),
    [("ReduceL2", (9, 300)), ("ReduceSumSquare", (0.5, 2)), ("ReduceLogSum", (60, 70))],
)
def test_no_step_of_a_reduction_of_halves_overflows(op, between, axes, fusion):
    """The square of 300 is no float16, its root is; nor is the sum of 1200 whose logarithm is."""
    x = np.random.default_rng().uniform(*between, (1, 1200, 2)).astype("f2")
    model = Case(op, op, {"x": x}, {"axes": ints(axes)}).model()
    (got,) = tvm_stitch.compile(model, threads=1, fusion=fusion).run({"x": x}).values()
    wide = x.astype("f8")
    terms = wide if op == "ReduceLogSum" else wide * wide
    total = terms.sum(tuple(axes), keepdims=True)
    last = {"ReduceL2": np.sqrt, "ReduceLogSum": np.log}.get(op, np.positive)
    np.testing.assert_allclose(got, last(total), rtol=float(np.finfo("f2").eps))

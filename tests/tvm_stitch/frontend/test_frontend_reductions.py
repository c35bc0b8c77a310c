"""Reductions, softmax and normalizations against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_stitch
from support.frontend.case import Case, check_case, ints
from support.frontend.reductions import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_imported_operator_computes_what_onnx_says(case):
    check_case(case)


def test_the_mean_of_halves_overflows_neither_in_its_sum_nor_in_its_count():
    x = np.random.default_rng(0).uniform(900, 1100, (3, 70_000)).astype("f2")
    model = Case("ReduceMean-many", "ReduceMean", {"x": x}, {"axes": ints([1])}).model()
    (got,) = tvm_stitch.compile(model).run({"x": x}).values()
    expected = x.mean(1, dtype=np.float64, keepdims=True)
    np.testing.assert_allclose(got, expected, rtol=float(np.finfo("f2").eps))

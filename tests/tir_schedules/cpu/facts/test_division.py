"""Quotients by what does not change along the lanes are exact, and no lane is divided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels import tir
from support.kernels.scheduled import run, scheduled
from tir_schedules.device.profile import default_profile

WIDE = replace(sc.device(1), vector_bytes=64)


def by_row(rows: int, columns: int, dtype: str = "float32") -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), dtype, "x")
    s = te.placeholder((rows,), dtype, "s")
    return te.create_prim_func([x, s, te.compute(x.shape, lambda i, j: x[i, j] / s[i], "out")])


def by_constant(rows: int, columns: int, divisor: float) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")
    by = tirx.const(divisor, "float32")
    return te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] / by, "out")])


def vector_divisions(kernel: tirx.PrimFunc) -> int:
    """Return the divisions in the lanes of a kernel."""
    found = 0
    for statement, _ in tir.statements(kernel.body):
        if tir.is_vector(statement):
            found += statement.script().count(" / ") + statement.script().count("T.Div")
    return found


@pytest.mark.parametrize("kernel", [by_row(8, 256), by_constant(8, 256, 3.0)], ids=["row", "const"])
def test_no_lane_is_divided_where_divisions_are_slow_and_each_is_elsewhere(kernel):
    assert vector_divisions(scheduled(kernel, WIDE)) == 0
    cheap = replace(WIDE, profile=default_profile("znver4", 64))
    assert vector_divisions(scheduled(kernel, cheap)) > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_are_those_of_a_division(dtype):
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-30, 30, (999, 129))).astype(dtype)
    s = np.exp(rng.uniform(-30, 30, 999)).astype(dtype)
    x[::7] = s[::7, None] * rng.integers(1, 99, (len(s[::7]), 129)).astype(dtype)
    made = np.empty_like(x)
    run(scheduled(by_row(*x.shape, dtype), WIDE), x, s, made)
    np.testing.assert_array_equal(made, x / s[:, None])


@pytest.mark.parametrize("divisor", [3.0, 0.1, 49.0, -1024.0, 1e30, 1e-30, 3e38, 1e-40])
def test_quotients_by_a_constant_are_those_of_a_division(divisor):
    x = np.random.default_rng(0).normal(size=(33, 257)).astype("f4") * 49
    made = np.empty_like(x)
    run(scheduled(by_constant(*x.shape, divisor), WIDE), x, made)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(made, x / np.float32(divisor), 0, 2e-45)


def test_special_values_divide_as_ieee_754_says():
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0]
    limits = [1e-45, 1e-40, -1.2e-38, 3.4e38, -3.4e38, 1e30, 5e-20, 1.9e19]
    values = np.array([*special, *limits], "f4")
    x = np.tile(np.repeat(values, 3), (len(values), 1))
    made = np.empty_like(x)
    run(scheduled(by_row(*x.shape), WIDE), x, values, made)
    with np.errstate(all="ignore"):
        expected = x / values[:, None]
    np.testing.assert_allclose(made, expected, 1.2e-7, 2e-45)
    assert (np.signbit(made) == np.signbit(expected))[~np.isnan(expected)].all()

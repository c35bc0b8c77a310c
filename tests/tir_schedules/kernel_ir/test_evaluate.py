"""Kernels that NumPy evaluates for the compiler have the results that NumPy itself gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import te, tirx, topi

from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.kernel_ir.evaluate import NotEvaluable, evaluate

RNG = np.random.default_rng()


def evaluated(compute: Callable[..., te.Tensor], *inputs: np.ndarray) -> np.ndarray:
    tensors = [te.placeholder(a.shape, str(a.dtype), f"x{n}") for n, a in enumerate(inputs)]
    func = te.create_prim_func([*tensors, compute(*tensors)])
    (result,) = evaluate(summarize(func), list(inputs))
    return result


@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 1, 1), (4, 0, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_reductions_of_any_axes(shape, dtype):
    x = (RNG.standard_normal(shape) * 9).astype(dtype)
    if x.size:
        np.testing.assert_array_equal(evaluated(lambda x: topi.max(x, 1), x), x.max(1))
        np.testing.assert_array_equal(evaluated(lambda x: topi.min(x, (0, 2)), x), x.min((0, 2)))
    for axes in ((1,), (0, 2), (0, 1, 2)):
        made = evaluated(lambda x, axes=axes: topi.sum(x, axes), x)
        np.testing.assert_allclose(made, x.sum(axes), rtol=1e-5, atol=1e-5)


def test_a_sum_of_negative_zeros_is_negative():
    x = np.full((2, 3), -0.0, "float32")
    assert np.signbit(evaluated(lambda x: te.compute((2, 3), lambda *i: x(*i) + x(*i)), x)).all()


def test_what_a_guard_keeps_out_is_not_read():
    x = RNG.standard_normal(6).astype("float32")

    def shifted(x: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, "float32")
        return te.compute((9,), lambda i: tirx.if_then_else(tirx.all(i > 1, i < 8), x(i - 2), zero))

    expected = np.concatenate([np.zeros(2), x, np.zeros(1)])
    np.testing.assert_array_equal(evaluated(shifted, x), expected.astype("float32"))
    with pytest.raises(NotEvaluable, match="out of range"):
        evaluated(lambda x: te.compute((9,), lambda i: x(i - 2)), x)


def test_gathers_choices_casts_and_integer_arithmetic():
    table, index = RNG.integers(-9, 9, (4, 6)), RNG.integers(0, 4, (3, 2))

    def compute(table: te.Tensor, index: te.Tensor) -> te.Tensor:
        def element(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
            read = table(index(i % 3, j % 2), (i + 2 * j) % 6)
            return tirx.Select(read < 0, tirx.floordiv(read, 4), tirx.floormod(read, 5))

        return te.compute((5, 4), lambda i, j: tirx.Cast("int32", element(i, j)))

    i, j = np.indices((5, 4))
    read = table[index[i % 3, j % 2], (i + 2 * j) % 6]
    made = evaluated(compute, table, index)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, np.where(read < 0, read // 4, read % 5))


def test_a_scalar_result_of_one_point():
    index, table = np.array([2], "int64"), RNG.standard_normal(5).astype("float32")
    made = evaluated(lambda t, i: topi.take(t, topi.reshape(i, ())), table, index)
    assert made == table[2]

"""Element-wise kernels: stores past the caches, quotients by a constant, lanes for long chains."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels import tir
from support.kernels.scheduled import SMALL_CACHES, run, scheduled
from tir_schedules.device.profile import default_profile


def mapped(function: Callable, shape: tuple[int, int]) -> tirx.PrimFunc:
    x = te.placeholder(shape, "float32", "x")
    return te.create_prim_func([x, te.compute(shape, lambda i, j: function(x[i, j]), "out")])


def erf_of_quotient(shape: tuple[int, int]) -> tirx.PrimFunc:
    return mapped(lambda v: tirx.erf(v / tirx.const(1.4142135, "float32")), shape)


def floor_of_quotient(shape: tuple[int, int]) -> tirx.PrimFunc:
    return mapped(lambda v: tirx.floor(v / tirx.const(49.0, "float32")), shape)


def calls(kernel: tirx.PrimFunc, prefix: str) -> list[tvm.ir.Call]:
    found = [s.value for s, _ in tir.statements(kernel.body) if isinstance(s, tirx.Evaluate)]
    return [c for c in found if c.op.name.endswith("call_extern") and prefix in str(c.args[0])]


def offset(size: int, by: int) -> np.ndarray:
    """Return float32 elements `by` elements past a 64-byte boundary."""
    memory = np.full(size + 32, np.nan, np.float32)
    start = -memory.ctypes.data % 64 // 4 + by
    return memory[start : start + size]


@pytest.mark.parametrize("by", [0, 1, 4])
@pytest.mark.parametrize("shape", [(7, 64), (3, 1000), (5, 129), (33, 272)])
def test_streamed_results_are_right_at_any_alignment(shape, by):
    given = np.random.default_rng(by).normal(size=shape).astype(np.float32)
    made = offset(given.size, by).reshape(shape)
    run(scheduled(erf_of_quotient(shape), SMALL_CACHES), given, made)
    expected = np.vectorize(math.erf)(given.astype(np.float64) / 1.4142135)
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-7)


def test_a_strip_is_streamed_under_one_test_of_its_address():
    wide = replace(SMALL_CACHES, vector_bytes=64)  # planned, not run: any machine will do
    kernel = scheduled(erf_of_quotient((7, 1024)), wide)
    lanes = [int(c.args[2].ty.dtype.lanes) for c in calls(kernel, "stitch_stream")]
    assert lanes == [64]  # four registers of float32
    assert len(calls(kernel, "stitch_sfence")) == 1


def test_a_quotient_by_a_constant_is_a_product_inside_erf_only():
    shape = (4, 1000)
    divides = replace(sc.device(1), profile=default_profile("znver4", 64))
    assert "/ T.float32" not in scheduled(erf_of_quotient(shape), divides).script()
    assert "/ T.float32" in scheduled(floor_of_quotient(shape), divides).script()
    given = (49.0 * np.arange(4000, dtype=np.float32)).reshape(shape)
    made = np.empty_like(given)
    run(scheduled(floor_of_quotient(shape), sc.device(1)), given, made)
    np.testing.assert_array_equal(made, given / 49)


def test_polynomials_in_cache_take_twice_the_lanes():
    cached = scheduled(erf_of_quotient((16, 1024)), replace(sc.device(1), l2_bytes=1 << 20))
    spilled = scheduled(erf_of_quotient((16, 1024)), SMALL_CACHES)
    widths = [max(_widths(kernel)) for kernel in (cached, spilled)]
    assert widths[0] == 2 * widths[1]


def test_softplus_keeps_its_digits_far_below_zero():
    one = tirx.const(1.0, "float32")
    kernel = mapped(lambda v: tirx.log(one + tirx.exp(v)), (3, 100))
    given = np.linspace(-100, 20, 300, dtype=np.float32).reshape(3, 100)
    made = np.empty_like(given)
    run(scheduled(kernel, sc.device(1)), given, made)
    expected = np.log1p(np.exp(given.astype(np.float64)))
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-44)


def test_a_product_is_rounded_before_it_is_subtracted():
    third = tirx.const(1 / 3, "float32")
    x = te.placeholder((33, 127), "float32", "x")
    y = te.placeholder((33, 127), "float32", "y")
    out = te.compute(x.shape, lambda i, j: x[i, j] * third - y[i, j], "out")
    given = np.random.default_rng(1).normal(size=(33, 127)).astype(np.float32)
    made = np.empty_like(given)
    kernel = scheduled(te.create_prim_func([x, y, out]), sc.device(1))
    run(kernel, given, given * np.float32(1 / 3), made)
    assert not made.any()  # fused, it would be the rounding error


@pytest.mark.parametrize("columns", [1, 3, 127])
@pytest.mark.parametrize(
    "chosen",
    [
        lambda product, i, at: tirx.if_then_else(i >= 1, product, 0.0),
        lambda product, i, at: tirx.if_then_else(at[i] >= 1, product, 0.0),
        lambda product, i, at: tirx.Select(at[i] >= 1, product, tirx.const(0.0, "float32")),
        lambda product, i, at: te.max(product, tirx.if_then_else(i >= 1, -1e30, product)),
    ],
    ids=["place", "branch", "select", "max"],
)
def test_a_product_that_is_chosen_is_rounded_before_it_is_added(chosen, columns):
    third = tirx.const(1 / 3, "float32")
    x, y = (te.placeholder((33, columns), "float32", name) for name in "xy")
    at = te.placeholder((33,), "int32", "at")
    out = te.compute(
        x.shape, lambda i, j: chosen(x[i, j] * third, i, at) + y[i, j] * third * third, "out"
    )
    rng = np.random.default_rng(1)
    one, other = (rng.normal(size=(33, columns)).astype(np.float32) for _ in range(2))
    made = np.empty_like(one)
    kernel = scheduled(te.create_prim_func([x, y, at, out]), sc.device(1))
    run(kernel, one, other, np.arange(33, dtype=np.int32), made)
    third = np.float32(1 / 3)
    np.testing.assert_array_equal(made[1:], (one * third + other * third * third)[1:])


def test_a_kernel_of_one_pass_asks_for_lines_ahead_when_its_input_is_not_in_l2():
    kernel = erf_of_quotient((256, 1024))
    cached = scheduled(kernel, replace(sc.device(1), l2_bytes=4 << 20))
    spilled = scheduled(kernel, SMALL_CACHES)
    assert "prefetch" not in cached.script()
    lines = fetched(spilled)
    assert len(lines) == max(_widths(spilled)) * 4 // 64
    assert all(0 < ahead <= 16 << 10 for ahead in lines)


def row_centred(rows: int, columns: int) -> tirx.PrimFunc:
    """Return exp(x) less its row's largest element; the first of two passes keeps exp(x)."""
    x = te.placeholder((rows, columns), "float32", "x")
    k = te.reduce_axis((0, columns), "k")
    power = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), "power")
    total = te.compute((rows,), lambda i: te.max(power[i, k], axis=k), "total")
    out = te.compute(x.shape, lambda i, j: power[i, j] - total[i], "out")
    return te.create_prim_func([x, out])


def test_the_second_pass_asks_for_the_next_tile_of_what_the_first_read():
    in_l2 = replace(sc.device(1), l2_bytes=256 << 10)
    assert set(fetched(scheduled(row_centred(128, 4096), in_l2))) == {
        4096 * 4 + line for line in range(0, 256, 64)
    }


def test_a_tile_larger_than_the_cache_is_fetched_a_few_kib_ahead():
    ahead = fetched(scheduled(row_centred(128, 4096), replace(sc.device(1), l2_bytes=16 << 10)))
    assert len(ahead) == 4  # lines of a strip
    assert all(8 << 10 <= each < (8 << 10) + 256 for each in ahead)


def fetched(kernel: tirx.PrimFunc) -> list[int]:
    """Return how many bytes ahead of its strip each prefetch looks."""
    lines = [line for line in kernel.script().splitlines() if "llvm.prefetch" in line]
    sums = [re.findall(r"\+ (\d+)(?= |\])", line.replace("* 64", "")) for line in lines]
    return [sum(map(int, found)) * 4 for found in sums]


def _widths(kernel: tirx.PrimFunc) -> list[int]:
    return [int(s.extent) for s, _ in tir.statements(kernel.body) if tir.is_vector(s)]


def test_a_long_scalar_sum_is_a_sum_of_sums():
    case = sc.Case("logsoftmax_nll", (7, 1000, 7, 2), options={"mean": True})
    sc.check(case)  # 49,000 terms: one running sum is off by ten times the bound


def test_two_values_share_a_comparison_of_positions():
    """TVM binds what stands in both, and its analyzer aborts at a variable of eight bools."""
    shape = (4, 12)
    x = te.placeholder(shape, "float32", "x")

    def early(j):
        return (j % 7 < 3).astype("int8")

    first = te.compute(shape, lambda i, j: x[i, j] * early(j).astype("float32"), "first")
    second = te.compute(shape, lambda i, j: early(j), "second")
    kernel = scheduled(te.create_prim_func([x, first, second]), sc.device(1))
    given = np.random.default_rng(3).standard_normal(shape).astype("float32")
    made = np.empty(shape, "float32"), np.empty(shape, "int8")
    run(kernel, given, *made)
    chosen = np.arange(12) % 7 < 3
    np.testing.assert_array_equal(made[0], given * chosen)
    np.testing.assert_array_equal(made[1], np.broadcast_to(chosen, shape))

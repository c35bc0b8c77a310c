"""A loop of which each tile has a part: what is emitted position by position is left alone there.

Taps and positions told apart are emitted one by one, from 0 on. Split among tiles, as a sum that
leaves partial results is, each tile would do them all and read past its operand. Nor is anything
computed before the loops that its place depends on.
"""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx

from support.decisions.devices import small_device
from support.kernels.scheduled import run
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, "float32")


def result_of(func: tirx.PrimFunc, *inputs: np.ndarray, shape: tuple, **thresholds) -> tuple:
    """Return the plan of a kernel on a device where any work is worth cutting, and its result."""
    plan = plan_prim_func(func, small_device(**thresholds))
    assert isinstance(plan, Plan), plan
    out = np.full(shape, np.nan, "float32")
    run(emit_plan(plan, func), *inputs, out)
    return plan, out


def test_a_sum_of_rows_behind_a_slice_is_right_in_parts():
    """The mean over all tokens but the first, at the end of a vision transformer."""
    x = te.placeholder((17, 2, 40), "float32", "x")
    token = te.reduce_axis((0, 16), "token")
    total = te.compute((2, 32), lambda i, j: te.sum(x[token + 1, i, j], axis=token), "total")
    given = random(17, 2, 40)
    plan, out = result_of(te.create_prim_func([x, total]), given, shape=(2, 32), tiles=16)
    assert plan.phases[0].partial
    np.testing.assert_allclose(out, given[1:, :, :32].sum(0, "float64"), rtol=1e-5, atol=1e-5)


def test_the_taps_of_a_padded_convolution_are_right_in_parts():
    pixels, taps, channels = 3, 16, 32
    x = te.placeholder((pixels, channels), "float32", "x")
    weight = te.placeholder((taps, channels), "float32", "weight")
    tap = te.reduce_axis((0, taps), "tap")

    def term(i: te.Var, j: te.Var) -> te.Expr:
        inside = tirx.all(i + tap >= 3, i + tap < pixels + 3)
        return tirx.if_then_else(inside, x[i + tap - 3, j], 0.0) * weight[tap, j]

    made = te.compute((pixels, channels), lambda i, j: te.sum(term(i, j), axis=tap), "made")
    given, weights = random(pixels, channels), random(taps, channels)
    func = te.create_prim_func([x, weight, made])
    plan, out = result_of(func, given, weights, shape=(pixels, channels), tiles=16)
    assert plan.phases[0].partial
    wide = np.pad(given.astype("float64"), ((3, taps), (0, 0)))
    expected = np.stack([(wide[i : i + taps] * weights).sum(0) for i in range(pixels)])
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_positions_told_apart_are_right_where_a_tile_has_some_of_them():
    x = te.placeholder((8, 66), "float32", "x")
    grown = te.compute((8, 66), lambda i, j: te.exp(x[i, j]), "grown")
    tap = te.reduce_axis((0, 3), "tap")
    near = te.compute((8, 64), lambda i, j: te.sum(grown[i, j + tap], axis=tap), "near")

    def chosen(i: te.Var, j: te.Var) -> te.Expr:
        last = tirx.Select(tirx.EQ(i, 6), te.sqrt(near[i, j]), te.tanh(near[i, j]))
        return tirx.Select(tirx.EQ(i, 1), near[i, j] * 2.0, last)

    out = te.compute((8, 64), chosen, "out")
    given = random(8, 66)
    func = te.create_prim_func([x, out])
    plan, got = result_of(func, given, shape=(8, 64), tiles=2, least_tiles=1)
    assert set(plan.phases[0].chunks.values()) == {4}
    grown = np.exp(given.astype("float64"))
    near = grown[:, :64] + grown[:, 1:65] + grown[:, 2:]
    expected = np.tanh(near)
    expected[1], expected[6] = near[1] * 2, np.sqrt(near[6])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("combine", [te.max, te.sum])
@pytest.mark.parametrize("across", [False, True])
def test_positions_told_apart_are_right_where_windows_reduce_over_them(combine, across):
    """A pooling behind minimal filtering, whose even and odd pixels are other sums."""
    x = te.placeholder((8, 50, 128), "float32", "x")

    def pixel(i: te.Var, j: te.Var, c: te.Var) -> te.Expr:
        odd = (i if across else j) % 2
        return tirx.Select(tirx.EQ(odd, 0), x[i, j, c] * 2.0, te.exp(x[i, j, c]))

    made = te.compute(x.shape, pixel, "made")
    down, along = te.reduce_axis((0, 2), "down"), te.reduce_axis((0, 2), "along")

    def pooled(i: te.Var, j: te.Var, c: te.Var) -> te.Expr:
        return combine(made[i * 2 + down, j * 2 + along, c], axis=[down, along])

    func = te.create_prim_func([x, te.compute((4, 25, 128), pooled, "out")])
    given = random(8, 50, 128)
    _, got = result_of(func, given, shape=(4, 25, 128), tiles=2, least_tiles=1)
    wide = given.astype("float64")
    odd = np.arange(8)[:, None, None] % 2 if across else np.arange(50)[None, :, None] % 2
    windows = np.where(odd == 0, wide * 2, np.exp(wide)).reshape(4, 2, 25, 2, 128)
    expected = windows.max((1, 3)) if combine is te.max else windows.sum((1, 3))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [3, 4, 5, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_rows_that_one_loop_of_taps_leaves_out_are_left_out_by_the_next(size, stride):
    """Few pixels seem to share lines with taps across, which took what taps along leave out."""
    made, channels = (size - 1) // stride + 1, 32
    x = te.placeholder((size, size, channels), "float32", "x")
    weight = te.placeholder((3, 3, channels), "float32", "weight")
    down, along = te.reduce_axis((0, 3), "down"), te.reduce_axis((0, 3), "along")

    def term(i: te.Var, j: te.Var, c: te.Var) -> te.Expr:
        line, pixel = i * stride + down, j * stride + along
        inside = tirx.all(line >= 1, line < size + 1, pixel >= 1, pixel < size + 1)
        image = tirx.if_then_else(inside, x[line - 1, pixel - 1, c], 0.0)
        return image * weight[down, along, c]

    shape = (made, made, channels)
    near = te.compute(shape, lambda i, j, c: te.sum(term(i, j, c), axis=[down, along]), "near")
    rows, columns = te.reduce_axis((0, made), "rows"), te.reduce_axis((0, made), "columns")
    out = te.compute(
        (channels,), lambda c: te.max(near[rows, columns, c], axis=[rows, columns]), "out"
    )
    given, weights = random(size, size, channels), random(3, 3, channels)
    func = te.create_prim_func([x, weight, out])
    plan, got = result_of(func, given, weights, shape=(channels,), least_tiles=1, tiles=1)
    assert plan.phases[0].groups[0].window is not None
    wide = np.pad(given.astype("float64"), ((1, 1), (1, 1), (0, 0)))
    expected = np.zeros(shape)
    for i, j in np.ndindex(made, made):
        expected[i, j] = (wide[i * stride :, j * stride :][:3, :3] * weights).sum((0, 1))
    np.testing.assert_allclose(got, expected.max((0, 1)), rtol=1e-5, atol=1e-5)


def test_a_value_read_for_several_positions_waits_for_what_its_place_is_computed_of():
    """`grown[i // 4 + 2]` is the same for four i, but its place is computed of the inner digit."""
    x = te.placeholder((5, 8), "float32", "x")
    weight = te.placeholder((12,), "float32", "weight")
    grown = te.compute((5, 8), lambda r, c: te.exp(x[r, c]), "grown")
    out = te.compute((5, 12), lambda r, i: grown[r, i // 4 + 2] * weight[i], "out")
    given, weights = random(5, 8), random(12)
    func = te.create_prim_func([x, weight, out])
    _, got = result_of(func, given, weights, shape=(5, 12), tiles=1, least_tiles=1)
    expected = np.exp(given.astype("float64"))[:, np.arange(12) // 4 + 2] * weights
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

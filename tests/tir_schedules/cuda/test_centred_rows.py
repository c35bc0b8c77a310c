"""Norms whose rows are in parts, squares of each about its own mean: a launch reads a row once."""

from __future__ import annotations

import numpy as np
import pytest
import zoo
from tvm import te, tirx

from support.cuda.checked import H200, arrays_for, planned, reference, wrong
from support.cuda.kernels import fused
from tir_schedules.cuda.decide.planner import cheapest
from tir_schedules.cuda.facts.centred_rows import centred_rows
from tir_schedules.cuda.facts.reading import reading_of
from tir_schedules.cuda.plan.decisions import PartDecisions
from tir_schedules.kernel_ir.parse import read


def subgraph(name, *shape, dtype="float32"):
    (func,) = fused(zoo.subgraph(name, shape, dtype))
    return func


def variances(rows: int, columns: int, power: float = 1.0) -> tirx.PrimFunc:
    """Return rows' squares about their means, and about a part of those, of x or more of it."""
    x = te.placeholder((rows, columns), name="x")
    k = [te.reduce_axis((0, columns)) for _ in range(3)]
    total = te.compute((rows,), lambda i: te.sum(x[i, k[0]] * power, k[0]), "total")
    mean = te.compute((rows,), lambda i: total[i] / columns, "mean")

    def squares(name: str, axis, centre):
        def term(i):
            apart = x[i, axis] * power - centre(i)
            return te.sum(apart * apart, axis)

        return te.compute((rows,), term, name)

    one = squares("one", k[1], lambda i: mean[i])
    two = squares("two", k[2], lambda i: mean[i] * 0.5)
    return te.create_prim_func([x, te.compute((rows,), lambda i: one[i] * two[i], "y")])


def over_two_axes(groups: int, channels: int, pixels: int) -> tirx.PrimFunc:
    x = te.placeholder((groups, channels, pixels), name="x")
    c, k, c2, k2 = (te.reduce_axis((0, n)) for n in (channels, pixels, channels, pixels))
    total = te.compute((groups,), lambda i: te.sum(x[i, c, k], (c, k)), "total")

    def term(i):
        apart = x[i, c2, k2] - total[i] / (channels * pixels)
        return te.sum(apart * apart, (c2, k2))

    return te.create_prim_func([x, te.compute((groups,), term, "y")])


def in_parts(func: tirx.PrimFunc, count: int, axis: int = 0):
    """Return a kernel by the best decisions with its totals in so many parts of an axis."""
    reading = reading_of(read(func))
    rows = centred_rows(reading.reduced)
    assert rows
    sums = [(n, s) for n, s in enumerate(reading.reduced.stages) if s.reduction is not None]
    follow = {square.stage for squares in rows.values() for square in squares}
    numbers = [n for n, stage in sums if stage not in follow]
    parts = tuple(PartDecisions(n, axis, count) for n in numbers)
    choice = cheapest(reading.space(parts), parts, H200)
    assert not isinstance(choice, str), choice
    return planned(func, choice.decisions)


def twice(rows: int, columns: int) -> tirx.PrimFunc:
    """Return a norm whose mean is made twice, as a mean and a variance make it."""
    x = te.placeholder((rows, columns), name="x")
    k = [te.reduce_axis((0, columns)) for _ in range(3)]

    def total(r):
        return te.compute((rows,), lambda i: te.sum(x[i, r], r), "total")

    one, two = map(total, k[:2])

    def term(i):
        apart = x[i, k[2]] - two[i] / columns
        return te.sum(apart * apart, k[2])

    square = te.compute((rows,), term, "square")
    norm = lambda i, j: (x[i, j] - one[i] / columns) / (square[i] + 1.0)  # noqa: E731
    return te.create_prim_func([x, te.compute((rows, columns), norm, "y")])


CASES = [
    pytest.param(lambda: twice(3, 100), 3, id="two-totals"),
    pytest.param(lambda: subgraph("layernorm", 3, 192), 4, id="layernorm"),
    pytest.param(lambda: subgraph("layernorm_decomposed", 3, 197), 4, id="ragged"),
    pytest.param(lambda: subgraph("residual_layernorm", 3, 130), 3, id="sum-that-is-kept"),
    pytest.param(lambda: subgraph("layernorm", 3, 192, dtype="float16"), 4, id="halves"),
    pytest.param(lambda: subgraph("layernorm", 3, 90, dtype="float64"), 4, id="doubles"),
    pytest.param(lambda: variances(4, 96, 3.0), 5, id="two-centres"),
]


@pytest.mark.long(every=6)
@pytest.mark.parametrize(("made", "count"), CASES)
def test_rows_in_parts_are_right_in_two_launches(made, count):
    func = made()
    gpu = in_parts(func, count)
    assert len(gpu.plan.launches()) == 2
    assert wrong(func, gpu, seed=3, orders=2) is None


@pytest.mark.parametrize(("axis", "count"), [(0, 2), (1, 5)])
def test_either_of_two_axes_may_be_cut(axis, count):
    func = over_two_axes(3, 4, 23)
    gpu = in_parts(func, count, axis)
    assert len(gpu.plan.launches()) == 2
    assert wrong(func, gpu, seed=4, orders=2) is None


def test_what_the_mean_is_far_above_is_left():
    """Squares of numbers near 1,000 whose differences are near 1."""
    func = variances(4, 1000)
    gpu = in_parts(func, 7)
    x, y = arrays_for(gpu.kernel, 1)
    x += 1000
    gpu.made.run([x], [y], 0)
    apart = x.astype("f8") - x.mean(1, dtype="f8", keepdims=True)
    half = x.astype("f8") - x.mean(1, dtype="f8", keepdims=True) / 2
    np.testing.assert_allclose(y, (apart**2).sum(1) * (half**2).sum(1), rtol=2e-5)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_no_number_stays_so(special):
    func = subgraph("layernorm", 4, 64)
    gpu = in_parts(func, 4)
    arrays = arrays_for(gpu.kernel, 1)
    arrays[0][1, 5] = special
    expected = reference(func, arrays)[-1]
    for order in range(2):
        gpu.made.run(arrays[:-1], arrays[-1:], order)
        np.testing.assert_allclose(arrays[-1], expected, rtol=1e-5, atol=1e-6)
    assert np.isnan(expected[1]).all()


@pytest.mark.parametrize("shape", [(16, 300_000), (1024, 100_000)], ids=["few", "many"])
def test_rows_that_no_block_holds_are_read_twice_by_default(shape):
    """Once for their mean and variance, once for the results."""
    plan = planned(subgraph("layernorm", *shape)).plan
    assert len(plan.launches()) == 2
    assert max(tensor.bytes for tensor in plan.workspace) < 1 << 16


def other_numbers(rows: int, columns: int) -> tirx.PrimFunc:
    """Return squares of one tensor about the mean of another."""
    x, z = (te.placeholder((rows, columns), name=name) for name in "xz")
    k, r = (te.reduce_axis((0, columns)) for _ in range(2))
    total = te.compute((rows,), lambda i: te.sum(z[i, k], k), "total")
    term = lambda i: te.sum((x[i, r] - total[i]) * (x[i, r] - total[i]), r)  # noqa: E731
    return te.create_prim_func([x, z, te.compute((rows,), term, "y")])


def other_row(rows: int, columns: int) -> tirx.PrimFunc:
    """Return squares of each row about the total of the one after it."""
    x = te.placeholder((rows, columns), name="x")
    k, r = (te.reduce_axis((0, columns)) for _ in range(2))
    total = te.compute((rows,), lambda i: te.sum(x[i, k], k), "total")
    apart = lambda i: x[i, r] - total[(i + 1) % rows]  # noqa: E731
    made = te.compute((rows,), lambda i: te.sum(apart(i) * apart(i), r), "y")
    return te.create_prim_func([x, made])


@pytest.mark.parametrize("made", [other_numbers, other_row])
def test_squares_of_other_numbers_are_not_of_a_total(made):
    assert not centred_rows(reading_of(read(made(4, 64))).reduced)

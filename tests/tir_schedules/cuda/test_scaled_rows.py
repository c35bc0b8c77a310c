"""Softmaxes and attention whose rows are in parts, each less its own largest element."""

from __future__ import annotations

import numpy as np
import pytest
import zoo
from tvm import te, tirx

from support.cuda.attention import attention
from support.cuda.checked import H200, arrays_for, planned, reference, wrong
from support.cuda.kernels import fused
from tir_schedules.cuda.decide.planner import cheapest
from tir_schedules.cuda.facts.reading import reading_of
from tir_schedules.cuda.facts.scaled_rows import scaled_rows
from tir_schedules.cuda.plan.decisions import PartDecisions
from tir_schedules.kernel_ir.parse import read


def subgraph(name, *shape, dtype="float32"):
    (func,) = fused(zoo.subgraph(name, shape, dtype))
    return func


def sum_of_exps(x, factor: float, name: str):
    """Return the sum of a row's exps of x times a factor, each less the row's largest."""
    rows, columns = x.shape
    k, r = (te.reduce_axis((0, columns)) for _ in range(2))
    most = te.compute((rows,), lambda i: te.max(x[i, k] * factor, k), f"most_{name}")
    return te.compute(
        (rows,), lambda i: te.sum(te.exp(x[i, r] * factor - most[i]), r), f"total_{name}"
    )


def two_rows(rows: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), name="x")
    once, twice = sum_of_exps(x, 1.0, "one"), sum_of_exps(x, 2.0, "two")
    return te.create_prim_func([x, te.compute((rows,), lambda i: once[i] + twice[i], "y")])


def in_parts(func: tirx.PrimFunc, count: int):
    """Return a kernel by the best decisions with its rows of exps in so many parts."""
    reading = reading_of(read(func))
    rows = scaled_rows(reading.reduced)
    numbers = [n for n, stage in enumerate(reading.reduced.stages) if stage in rows]
    assert numbers
    parts = tuple(PartDecisions(n, 0, count) for n in numbers)
    choice = cheapest(reading.space(parts), parts, H200)
    assert not isinstance(choice, str), choice
    return planned(func, choice.decisions)


CASES = [
    pytest.param(lambda: subgraph("softmax", 3, 200), 5, id="softmax"),
    pytest.param(lambda: subgraph("softmax", 3, 197), 4, id="ragged-softmax"),
    pytest.param(lambda: subgraph("masked_softmax", 2, 4, 8, 64), 4, id="masked-softmax"),
    pytest.param(lambda: subgraph("logsoftmax_nll", 5, 130), 2, id="log-softmax"),
    pytest.param(lambda: subgraph("softmax", 3, 256, dtype="float16"), 8, id="halves"),
    pytest.param(lambda: subgraph("softmax", 3, 90, dtype="float64"), 3, id="doubles"),
    pytest.param(lambda: two_rows(4, 96), 3, id="two-rows"),
    pytest.param(lambda: attention(2, 64, 128, 32), 2, id="attention"),
    pytest.param(lambda: attention(2, 64, 128, 32, causal=True), 4, id="causal-attention"),
    pytest.param(lambda: attention(3, 37, 96, 40), 3, id="odd-attention"),
    pytest.param(lambda: attention(2, 64, 128, 64, "float16"), 2, id="attention-of-halves"),
    pytest.param(lambda: attention(3, 1, 128, 32), 4, id="one-query"),
    pytest.param(lambda: attention(3, 1, 128, 64, "float16"), 4, id="one-query-of-halves"),
]


@pytest.mark.long(every=8)
@pytest.mark.parametrize(("made", "count"), CASES)
def test_rows_in_parts_are_right_in_two_launches(made, count):
    func = made()
    gpu = in_parts(func, count)
    assert len(gpu.plan.launches()) == 2
    assert wrong(func, gpu, seed=3, orders=2) is None


def test_scores_of_long_rows_never_leave_their_blocks():
    """What is between the launches is of the result's size for each part, not of the scores'."""
    plan = planned(attention(4, 128, 4096, 64, "float16")).plan
    assert len(plan.launches()) == 2
    assert max(tensor.elements for tensor in plan.workspace) <= 4 * 128 * 4096 // 2


@pytest.mark.parametrize("special", ["a part", "a row", "an infinity", "a NaN"])
def test_what_is_no_number_stays_so(special):
    """A part that is all -inf adds nothing; a whole row of it, +inf and NaN make NaN."""
    func = subgraph("softmax", 4, 64)
    gpu = in_parts(func, 4)
    x, y = arrays_for(gpu.kernel, 1)
    x[1, {"a part": slice(16, 32), "a row": slice(None)}.get(special, slice(5, 6))] = {
        "an infinity": np.inf,
        "a NaN": np.nan,
    }.get(special, -np.inf)
    _, expected = reference(func, [x, y])
    for order in range(3):
        gpu.made.run([x], [y], order)
        np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-9)
        assert np.isnan(y[1]).all() == (special != "a part")

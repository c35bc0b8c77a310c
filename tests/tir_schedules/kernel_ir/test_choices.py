"""Choices one side of which reads outside its tensor where the condition does not hold.

TVM drops a bound of an index that a Select's condition implies, and LLVM, which runs both sides,
then takes the condition for true: a scatter added to elements that no update was for.
"""

from __future__ import annotations

import numpy as np
from tvm import relax, te, tirx

import tvm_stitch
from support.models import relax_models as rm
from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.kernel_ir.expr import Op, walk

RNG = np.random.default_rng()


def first_rows(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """Return y, and of its first rows those of x as well."""
    last = tirx.const(int(x.shape[0]) - 1, "int64")

    def element(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        return tirx.Select(i <= last, x(tirx.min(i, last), j) + y(i, j), y(i, j))

    return te.compute(y.shape, element, "rows")


def choices(func: tirx.PrimFunc) -> set[str]:
    stages = summarize(func).stages
    names = {n.name for stage in stages for n in walk(stage.value) if isinstance(n, Op)}
    return names & {"Select", "call:tirx.if_then_else"}


def test_a_side_that_may_leave_its_tensor_is_a_branch():
    x = te.placeholder((tirx.IntImm("int64", 2), tirx.IntImm("int64", 8)), "float32", "x")
    y = te.placeholder((tirx.IntImm("int64", 7), tirx.IntImm("int64", 8)), "float32", "y")
    func = te.create_prim_func([x, y, first_rows(x, y)])
    assert "T.min(" not in func.script()  # or TVM has come to keep what it dropped
    assert choices(func) == {"call:tirx.if_then_else"}


def test_one_that_stays_inside_is_a_select():
    x = te.placeholder((7, 8), "float32", "x")
    made = te.compute((7, 8), lambda i, j: tirx.Select(i < 3, x(i, j), x(6 - i, j)), "turned")
    assert choices(te.create_prim_func([x, made])) == {"Select"}


def test_a_side_whose_own_branch_keeps_it_inside_is_a_select():
    """As in filtered convolutions, which choose between sums of a padded image."""
    x = te.placeholder((7, 8), "float32", "x")

    def padded(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        return tirx.if_then_else(i > 0, x(i - 1, j), tirx.const(0, "float32"))

    made = te.compute((8, 8), lambda i, j: tirx.Select(j < 3, padded(i, j), padded(i, 7 - j)))
    assert choices(te.create_prim_func([x, made])) == {"Select", "call:tirx.if_then_else"}


def test_the_compiled_choice_leaves_the_other_rows_alone():
    x, y = (RNG.standard_normal((rows, 8)).astype("float32") for rows in (2, 7))

    def emit(builder: relax.BlockBuilder, *tensors: relax.Var) -> relax.Expr:
        return builder.call_te(first_rows, *tensors)

    expected = y.copy()
    expected[:2] += x
    for threads in (1, 2):
        model = tvm_stitch.compile(rm.module(emit, x, y), threads=threads)
        (got,) = model.run({"x0": x, "x1": y}).values()
        np.testing.assert_array_equal(got, expected)

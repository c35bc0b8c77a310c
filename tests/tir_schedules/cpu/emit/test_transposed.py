"""Transposing kernels: any permutation is right, and no lane is gathered where blocks fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from support.kernels.tir import statements
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = sc.device(2)


def transposing(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, plus: str = ""
) -> tirx.PrimFunc:
    """Return out = x transposed, plus a column, a row or another transposed tensor."""
    x = te.placeholder(shape, dtype, "x")
    made = [shape[axis] for axis in perm]
    back = [perm.index(axis) for axis in range(len(perm))]
    row = te.placeholder((made[-1],), dtype, "row")
    column = te.placeholder((made[0],), dtype, "column")
    other = te.placeholder(shape, dtype, "other")

    def value(*at: te.Var) -> te.Expr:
        place = tuple(at[axis] for axis in back)
        more = {"": None, "row": row[at[-1]], "column": column[at[0]], "other": other[place]}[plus]
        return x[place] if more is None else x[place] + more

    given = {"": [], "row": [row], "column": [column], "other": [other]}[plus]
    return te.create_prim_func([x, *given, te.compute(made, value, "out")])


def checked(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, plus: str) -> None:
    func = transposing(shape, perm, dtype, plus)
    plan = plan_prim_func(func, DEVICE)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-50, 50, tuple(int(n) for n in p.ty.shape)).astype(dtype)
        for p in func.params[:-1]
    ]
    expected = arrays[0].transpose(perm)
    if plus == "row":
        expected = expected + arrays[1]
    if plus == "column":
        expected = expected + arrays[1].reshape(-1, *[1] * (len(shape) - 1))
    if plus == "other":
        expected = expected + arrays[1].transpose(perm)
    got = np.full(expected.shape, -1, dtype)
    run(emit_plan(plan, func), *arrays, got)
    np.testing.assert_array_equal(got, expected)


@st.composite
def permutations(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = draw(st.integers(2, 4))
    extents = st.sampled_from([1, 2, 3, 5, 16, 17, 31, 33, 64, 70, 130])
    shape = [draw(extents) for _ in range(rank)]
    while np.prod(shape) > 1 << 17:
        shape[shape.index(max(shape))] = 3
    return tuple(shape), tuple(draw(st.permutations(range(rank))))


@settings(max_examples=20, deadline=None)
@given(
    layout=permutations(),
    dtype=st.sampled_from(["float32", "float64", "int32", "int64", "int8", "float16"]),
    plus=st.sampled_from(["", "row", "column", "other"]),
)
def test_every_permutation_is_right(layout, dtype, plus):
    checked(*layout, dtype, plus)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(64, 64), (17, 33), (1000, 999), (16, 4099), (3, 70, 65)])
@pytest.mark.parametrize("plus", ["", "row", "column", "other"])
def test_blocks_are_transposed_in_registers(shape, threads, plus):
    perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    func = transposing(shape, perm, "float32", plus)
    plan = plan_prim_func(func, sc.device(threads))
    (group,) = plan.phases[0].groups
    assert group.transposed
    if threads > 1:
        checked(shape, perm, "float32", plus)


@pytest.mark.parametrize(
    ("shape", "perm", "dtype"),
    [
        ((64, 64), (0, 1), "float32"),
        ((64, 8, 64), (1, 0, 2), "float32"),
        ((64, 3), (1, 0), "float32"),
        ((64, 64), (1, 0), "float16"),
    ],
)
def test_others_stay_as_they_are(shape, perm, dtype):
    plan = plan_prim_func(transposing(shape, perm, dtype), DEVICE)
    assert not any(g.transposed for p in plan.phases for g in p.groups)


def test_a_block_is_loads_shuffles_and_stores_of_whole_registers():
    func = transposing((64, 64), (1, 0), "float32")
    body = emit_plan(plan_prim_func(func, DEVICE), func).body
    side = DEVICE.vector_bytes // 4
    shuffles = sum(
        isinstance(s, tirx.BufferStore) and isinstance(s.value, tirx.Shuffle)
        for s, _ in statements(body)
    )
    assert shuffles == side * (side.bit_length() - 1)


def shifted(i: te.Var, j: te.Var, x: te.Tensor) -> te.Expr:
    return tirx.if_then_else(tirx.all(j > 0, i > 0), x[j - 1, i - 1], tirx.const(0, "float32"))


@pytest.mark.parametrize("kind", ["residual", "padded"])
def test_what_blocks_would_gather_is_no_transpose(kind):
    """A residual lies as the result does; a condition would part the lanes of a block."""
    x = te.placeholder((64, 96), "float32", "x")
    y = te.placeholder((96, 64), "float32", "y")
    if kind == "residual":
        out = te.compute((96, 64), lambda i, j: x[j, i] + y[i, j], "out")
        func = te.create_prim_func([x, y, out])
    else:
        func = te.create_prim_func([x, te.compute((97, 65), lambda i, j: shifted(i, j, x), "out")])
    plan = plan_prim_func(func, DEVICE)
    assert not any(g.transposed for p in plan.phases for g in p.groups)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(n).astype("float32") for n in ((64, 96), (96, 64)))
    given = [a, b] if kind == "residual" else [a]
    expected = a.T + b if kind == "residual" else np.pad(a.T, ((1, 0), (1, 0)))
    got = np.full(expected.shape, -1, "float32")
    run(emit_plan(plan, func), *given, got)
    np.testing.assert_array_equal(got, expected)

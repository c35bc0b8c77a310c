"""Index expressions in mixed-radix form mean what they meant."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.kernels.evaluation import evaluate, points
from tir_schedules.kernel_ir.expr import Axis, AxisRef, Const, Expr, Linear, Op, Term
from tir_schedules.kernel_ir.index import (
    add,
    bounds,
    canonical,
    divide,
    normalize,
    scaled,
    to_expr,
)

EXTENTS = (1, 2, 3, 4, 6, 8, 12)
MOST_POINTS = 300


def binary(name: str, left: Expr, right: Expr | int) -> Op:
    right = Const(right, "int64") if isinstance(right, int) else right
    return Op(name, (left, right), "int64")


@st.composite
def indices(draw, negative: bool = True) -> tuple[tuple[Axis, ...], Expr]:
    """Return axes and an expression of sums, products, quotients and remainders over them."""
    extents = draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3))
    assume(math.prod(extents) <= MOST_POINTS)
    axes = tuple(Axis(f"a{i}", n) for i, n in enumerate(extents))
    least = -4 if negative else 0

    def grow(depth: int) -> Expr:
        kind = draw(st.sampled_from(("axis", "axis", "const", "Add", "Sub", "Mul", "div", "mod")))
        if depth == 0 or kind == "axis":
            return AxisRef(draw(st.sampled_from(axes)))
        if kind == "const":
            return Const(draw(st.integers(least, 12)), "int64")
        if kind in ("Add", "Sub"):
            return binary(kind if negative else "Add", grow(depth - 1), grow(depth - 1))
        if kind == "Mul":
            return binary("Mul", grow(depth - 1), draw(st.integers(least, 9)))
        divisor = draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12, 24)))
        return binary("FloorDiv" if kind == "div" else "FloorMod", grow(depth - 1), divisor)

    return axes, grow(4)


@given(indices())
@settings(max_examples=400, deadline=None)
def test_a_normal_form_has_the_value_of_its_expression_everywhere(case):
    axes, expr = case
    form = to_expr(normalize(expr))
    for point in points(axes):
        assert evaluate(form, point) == evaluate(expr, point)


@given(indices())
@settings(max_examples=200, deadline=None)
def test_a_canonical_expression_is_its_own_canonical_form(case):
    _, expr = case
    once = canonical(expr)
    assert canonical(once) == once


@given(indices())
@settings(max_examples=200, deadline=None)
def test_bounds_hold_every_value(case):
    axes, expr = case
    limits = bounds(normalize(expr))
    if limits is not None:
        values = [evaluate(expr, point) for point in points(axes)]
        assert limits[0] <= min(values) and max(values) <= limits[1]


@given(indices(negative=False), st.integers(1, 30))
@settings(max_examples=400, deadline=None)
def test_a_quotient_and_a_remainder_are_those_of_every_point(case, divisor):
    axes, expr = case
    parts = divide(normalize(expr), divisor)
    if parts is not None:
        quotient, remainder = (to_expr(p) for p in parts)
        for point in points(axes):
            value = evaluate(expr, point)
            assert (evaluate(quotient, point), evaluate(remainder, point)) == divmod(value, divisor)


@given(indices(), indices(), st.integers(-5, 5))
@settings(max_examples=200, deadline=None)
def test_sums_and_multiples_of_normal_forms_are_those_of_every_point(left, right, factor):
    assume(math.prod(a.extent for a in (*left[0], *right[0])) <= MOST_POINTS)
    form = to_expr(add(normalize(left[1]), scaled(normalize(right[1]), factor)))
    for point in points((*left[0], *right[0])):
        expected = evaluate(left[1], point) + factor * evaluate(right[1], point)
        assert evaluate(form, point) == expected


ROW, COLUMN = Axis("i", 12), Axis("j", 768)


@pytest.mark.parametrize(
    ("expr", "form"),
    [
        pytest.param(
            binary("FloorMod", binary("FloorDiv", binary(
                "Add", binary("Mul", AxisRef(ROW), 768), AxisRef(COLUMN)), 64), 12),
            Linear(0, (Term(1, COLUMN, 64, 12),)), id="head-number",
        ),
        pytest.param(
            binary("Add", binary("Mul", binary("FloorDiv", AxisRef(COLUMN), 64), 64),
                   binary("FloorMod", AxisRef(COLUMN), 64)),
            Linear(0, (Term(1, COLUMN, 1, 768),)), id="halves-joined",
        ),
        pytest.param(
            binary("FloorDiv", binary(
                "Add", binary("Mul", AxisRef(ROW), 768), AxisRef(COLUMN)), 768),
            Linear(0, (Term(1, ROW, 1, 12),)), id="row-number",
        ),
        pytest.param(binary("Sub", AxisRef(ROW), AxisRef(ROW)), Linear(), id="cancelled"),
        pytest.param(AxisRef(Axis("k", 1)), Linear(), id="one-element"),
    ],
)  # fmt: skip
def test_a_reshape_shows_as_a_digit(expr, form):
    assert normalize(expr) == form


def test_a_division_that_leaves_a_ragged_remainder_stays_opaque():
    form = normalize(binary("FloorDiv", AxisRef(COLUMN), 5))
    (term,) = form.terms
    assert isinstance(term.base, Op) and term.extent == 0


def test_a_negative_value_is_not_divided():
    assert divide(normalize(binary("Sub", AxisRef(ROW), 3)), 4) is None

"""Kernels that differ in names alone are decided once, all others for themselves."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from support.cuda.checked import H200, planned, wrong
from tir_schedules.cuda import template
from tir_schedules.cuda.facts.structure import structure_of
from tir_schedules.kernel_ir.parse import read


def rows(
    shape: tuple[int, int] = (40, 96),
    dtype: str = "float32",
    names: tuple[str, str] = ("x", "y"),
    reduce: str = "sum",
    scale: float = 2.0,
    shown: bool = False,
) -> tirx.PrimFunc:
    """Return rows times a number over their sum or largest number, which may be `shown` too."""
    x, j = te.placeholder(shape, dtype, names[0]), te.reduce_axis((0, shape[1]), "j")
    total = te.compute(shape[:1], lambda i: getattr(te, reduce)(x[i, j], j), "total")
    y = te.compute(shape, lambda i, c: x[i, c] * tirx.const(scale, dtype) / total[i], names[1])
    return te.create_prim_func([x, *([total] if shown else []), y])


def structure(func: tirx.PrimFunc) -> tuple:
    return structure_of(read(func))


def test_names_do_not_count():
    other = rows(names=("a", "b"))
    assert structure(other) == structure(rows())
    first, again = (template.default_decisions(read(f), H200) for f in (rows(), other))
    assert again is first
    assert wrong(other, planned(other, again), seed=1) is None


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (96, 40)},
        {"dtype": "float16"},
        {"reduce": "max"},
        {"scale": 3.0},
        {"scale": -0.0},
        {"shown": True},
    ],
    ids=str,
)
def test_all_else_counts(change):
    base = {"scale": 0.0} if change == {"scale": -0.0} else {}
    assert structure(rows(**change)) != structure(rows(**base))

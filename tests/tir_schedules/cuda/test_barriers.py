"""Each barrier of a kernel is needed: without it some order of threads gives wrong numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te, tirx

from support.cuda.checked import H200, OnGpu, planned, wrong
from support.simt.simulator import SimulationError
from tir_schedules.cuda import template
from tir_schedules.cuda.facts.reading import reading_of
from tir_schedules.cuda.plan.decisions import AxisDecisions, Decisions
from tir_schedules.kernel_ir.parse import read
from tir_schedules.kernel_ir.stage import Kernel

ORDERS = 20


def normalised(m: int, n: int) -> tirx.PrimFunc:
    """Return rows less their mean over their largest magnitude: two sums, one after the other."""
    x, k = te.placeholder((m, n), "float32", "x"), te.reduce_axis((0, n))
    mean = te.compute((m,), lambda i: te.sum(x[i, k], axis=k), "mean")
    j = te.reduce_axis((0, n))
    most = te.compute((m,), lambda i: te.max(te.abs(x[i, j] - mean[i] / n), axis=j), "most")
    out = te.compute((m, n), lambda i, c: (x[i, c] - mean[i] / n) / most[i], "out")
    return te.create_prim_func([x, out])


def reversed_rows(m: int, n: int) -> tirx.PrimFunc:
    """Return rows of exponentials read backwards: what one thread makes another reads."""
    x = te.placeholder((m, n), "float32", "x")
    e = te.compute((m, n), lambda i, j: te.exp(x[i, j]), "e")
    out = te.compute((m, n), lambda i, j: e[i, n - 1 - j] + e[i, j], "out")
    return te.create_prim_func([x, out])


def weighted(m: int, n: int, k: int) -> tirx.PrimFunc:
    """Return a product whose rows have a weight that the kernel makes: tiles are filled with it."""
    a, b = te.placeholder((m, k), "float32", "a"), te.placeholder((k, n), "float32", "b")
    t, r = te.placeholder((m,), "float32", "t"), te.reduce_axis((0, k))
    e = te.compute((m,), lambda i: te.exp(t[i]), "e")
    p = te.compute((m, n), lambda i, j: te.sum(a[i, r] * e[i] * b[r, j], axis=r), "p")
    return te.create_prim_func([a, t, b, te.compute((m, n), lambda i, j: p[i, j] + e[i], "o")])


def by_many_threads(func: tirx.PrimFunc) -> OnGpu:
    """Return a kernel whose rows have several warps each."""
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    phase = decisions.phases[0]
    *others, last = phase.spreads
    spreads = (*(replace(spread, threads=1) for spread in others), replace(last, threads=128))
    axes = tuple(replace(a, block=1) if _is_rows(a, kernel) else a for a in phase.axes)
    return planned(func, Decisions((replace(phase, axes=axes, spreads=spreads),)))


def _is_rows(axis: AxisDecisions, kernel: Kernel) -> bool:
    atoms = reading_of(kernel).space().atoms
    return atoms[axis.views[0][0]].extent == kernel.params[0].shape[0]


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    ("func", "barriers"),
    [(normalised(3, 500), 2), (reversed_rows(3, 500), 1), (weighted(64, 96, 64), 3)],
    ids=["two sums", "backwards", "product"],
)
def test_without_a_barrier_numbers_are_wrong(func, barriers):
    gpu = by_many_threads(func) if barriers == 2 else planned(func)
    (kernel,) = gpu.made.kernels
    assert kernel.barriers >= barriers, str(gpu.plan)
    for number in range(kernel.barriers):
        broken = replace(gpu, made=gpu.made.without_barrier(number))
        try:
            reason = wrong(func, broken, seed=1, orders=ORDERS)
        except SimulationError as error:
            reason = str(error)
        assert reason is not None, f"{number} of {kernel.barriers}\n{gpu.plan}"

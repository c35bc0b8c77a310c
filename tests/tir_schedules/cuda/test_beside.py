"""Kernels packed side by side: parts that read nothing of each other have blocks of one launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te, tirx

from support.cuda.checked import H200, planned, wrong
from support.cuda.machine_code import machine_code, toolkit
from tir_schedules.cuda import template
from tir_schedules.cuda.plan.shared import block_bytes
from tir_schedules.kernel_ir.parse import read


def projections(m: int, k: int, columns: tuple[int, ...], dtype: str) -> tirx.PrimFunc:
    """Return products of one operand by several weights."""
    x = te.placeholder((m, k), dtype, "x")
    weights = [te.placeholder((k, n), dtype, f"w{at}") for at, n in enumerate(columns)]
    return te.create_prim_func([x, *weights, *(_product(x, weight) for weight in weights)])


def _product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    r = te.reduce_axis((0, int(x.shape[1])), "r")
    shape = x.shape[0], w.shape[1]
    return te.compute(shape, lambda i, j: te.sum(x[i, r] * w[r, j], r), "out")


def softmaxes(*shapes: tuple[int, int]) -> tirx.PrimFunc:
    """Return rows of several inputs over their sums."""
    inputs = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, *map(_softmax, inputs)])


def _softmax(x: te.Tensor) -> te.Tensor:
    j = te.reduce_axis((0, int(x.shape[1])), "j")
    total = te.compute(x.shape[:1], lambda i: te.sum(te.exp(x[i, j]), j), "total")
    return te.compute(x.shape, lambda i, c: te.exp(x[i, c]) / total[i], "out")


CASES = [
    pytest.param(lambda: projections(80, 64, (48, 48, 48), "float32"), id="three-products"),
    pytest.param(lambda: projections(96, 64, (64, 32), "float16"), id="tensor-cores"),
    pytest.param(lambda: softmaxes((60, 100), (33, 257)), id="rows"),
    pytest.param(lambda: softmaxes((1, 1), (70, 96), (5, 1000)), id="one-element-among-them"),
]


@pytest.mark.long(every=3)
@pytest.mark.parametrize("made", CASES)
def test_parts_run_in_one_launch_and_are_right(made):
    gpu = planned(made())
    assert len(gpu.plan.launches()) == 1
    assert wrong(made(), gpu, seed=3) is None


def test_products_have_blocks_of_their_own():
    plan = planned(projections(128, 64, (64, 64, 64), "float32")).plan
    (phases,) = plan.launches()
    assert [phase.beside for phase in phases] == [False, True, True]
    assert block_bytes(*phases) == block_bytes(phases[0])  # they have arrays in common


def test_what_has_no_blocks_beside_others_is_refused():
    func = projections(128, 64, (64, 64), "float32")
    kernel = read(func)
    decided = template.default_decisions(kernel, H200)
    first, second = decided.phases
    alone = replace(decided, phases=(replace(first, beside=True), second))
    assert "beside none" in template.plan(kernel, alone, H200)
    spreads = tuple(replace(s, threads=2 * s.threads) for s in second.spreads[-1:])
    wider = replace(second, spreads=(*second.spreads[:-1], *spreads))
    assert "as many threads" in template.plan(kernel, replace(decided, phases=(first, wider)), H200)


def test_what_reads_another_is_not_beside_it():
    x, j = te.placeholder((64, 48), name="x"), te.reduce_axis((0, 48), "j")
    total = te.compute((64,), lambda i: te.sum(x[i, j], j), "total")
    func = te.create_prim_func([x, te.compute((64, 48), lambda i, c: x[i, c] / total[i], "out")])
    kernel = read(func)
    (phase,) = template.default_decisions(kernel, H200).phases
    apart = [replace(phase, nests=(nest,), beside=n > 0) for n, nest in enumerate(phase.nests)]
    assert len(apart) == 2
    decided = replace(template.default_decisions(kernel, H200), phases=tuple(apart))
    assert "reads what blocks beside it make" in template.plan(kernel, decided, H200)


@pytest.mark.skipif(toolkit() is None, reason="nvcc's wheels are not installed (issue 26)")
def test_nvcc_spills_nothing_of_products_beside_each_other():
    gpu = planned(projections(1024, 512, (512, 512, 512), "float16"))
    (kernel,) = gpu.made.kernels
    assert machine_code(kernel.source).spilled == 0

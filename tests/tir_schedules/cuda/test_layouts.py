"""Rows, columns, transposes and sums of everything: where they run, and that they are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tvm import te, tirx

from support.cuda.checked import H200, planned, sectors, wrong
from tir_schedules.cuda import template
from tir_schedules.cuda.decide.candidates import candidates
from tir_schedules.cuda.decide.numbered import Numbers
from tir_schedules.cuda.facts.reading import reading_of
from tir_schedules.cuda.plan.decisions import AxisDecisions, Decisions, SpreadDecisions
from tir_schedules.kernel_ir.parse import read


def _x(*shape: int) -> te.Tensor:
    return te.placeholder(shape, "float32", "x")


def total(*shape: int) -> tirx.PrimFunc:
    x, k = _x(*shape), [te.reduce_axis((0, n)) for n in shape]
    return te.create_prim_func([x, te.compute((1,), lambda _: te.sum(x(*k), axis=k), "s")])


def columns(m: int, n: int) -> tirx.PrimFunc:
    x, k = _x(m, n), te.reduce_axis((0, m))
    return te.create_prim_func([x, te.compute((n,), lambda j: te.sum(x[k, j], axis=k), "s")])


def rows(m: int, n: int) -> tirx.PrimFunc:
    x, k = _x(m, n), te.reduce_axis((0, n))
    return te.create_prim_func([x, te.compute((m,), lambda i: te.max(x[i, k], axis=k), "s")])


def over_their_root(m: int, n: int) -> tirx.PrimFunc:
    x, k = _x(m, n), te.reduce_axis((0, n))
    s = te.compute((m,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), "s")
    return te.create_prim_func([x, te.compute((m, n), lambda i, j: x[i, j] / tirx.sqrt(s[i]), "y")])


def transposed(m: int, n: int) -> tirx.PrimFunc:
    x = _x(m, n)
    return te.create_prim_func([x, te.compute((n, m), lambda i, j: x[j, i] + te.exp(x[j, i]), "y")])


def channels_last(n: int, c: int, h: int, w: int) -> tirx.PrimFunc:
    x = _x(n, c, h, w)
    return te.create_prim_func([x, te.compute((n, h, w, c), lambda b, i, j, k: x[b, k, i, j], "y")])


def channel_sums(n: int, c: int, m: int) -> tirx.PrimFunc:
    x, i, k = _x(n, c, m), te.reduce_axis((0, n)), te.reduce_axis((0, m))
    return te.create_prim_func([x, te.compute((c,), lambda j: te.sum(x[i, j, k], [i, k]), "s")])


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    ("made", "shape", "launches"),
    [
        (total, (300_000,), 2),
        (total, (131_101,), 2),
        (columns, (20_000, 7), 2),
        (columns, (300, 64), 1),
        (columns, (3, 997), 1),
        (rows, (3, 40_000), 1),
        (rows, (1000, 5), 1),
        (over_their_root, (2, 50_000), 2),
        (over_their_root, (33, 127), 1),
        (transposed, (300, 257), 1),
        (channels_last, (2, 67, 13, 11), 1),
        (channel_sums, (16, 5, 250), 1),
    ],
    ids=lambda value: value.__name__ if isinstance(value, Callable) else str(value),
)
def test_a_kernel_is_right_in_so_many_launches(made, shape, launches):
    func = made(*shape)
    gpu = planned(func)
    assert len(gpu.plan.phases) == launches
    assert wrong(func, gpu, seed=sum(shape), orders=1) is None


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    ("made", "shape"), [(rows, (2048, 512)), (columns, (512, 2048)), (transposed, (1024, 992))]
)
def test_memory_moves_each_sector_once(made, shape):
    """Neighbouring threads have neighbouring elements; a transpose turns in shared memory."""
    gpu = planned(made(*shape))
    least = sum(tensor.bytes // 32 for tensor in gpu.kernel.params)
    assert sum(sectors(gpu).values()) <= 1.02 * least, str(gpu.plan)


def test_warps_of_one_sum_need_not_be_side_by_side():
    """Threads along the channels stand between those along both axes that are summed over."""
    func = channel_sums(16, 3, 256)
    decisions = template.default_decisions(read(func), H200)
    axes = (AxisDecisions(((1,),), 16), AxisDecisions(((0,),), 3), AxisDecisions(((2,),), 256))
    spreads = (SpreadDecisions(0, 4), SpreadDecisions(1, 4), SpreadDecisions(2, 64))
    phase = replace(decisions.phases[0], axes=axes, spreads=spreads)
    assert wrong(func, planned(func, Decisions((phase,))), seed=4) is None


def test_a_tile_that_is_read_across_its_lines_meets_no_bank_twice():
    func = transposed(128, 96)
    space = reading_of(read(func)).space()
    staged = [way for way in candidates(space, Numbers(space)) if way.staged]
    gpu = planned(func, Decisions((staged[0],)))
    sectors(gpu)
    banks = gpu.made.kernels[0].counts("x_staged")
    assert (banks.loaded, banks.stored) == (banks.least_loaded, banks.least_stored)

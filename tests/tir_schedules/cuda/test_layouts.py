"""Rows, columns, transposes and sums of everything: where they run, and that they are right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import te, tirx

from support.cuda.checked import planned, sectors, wrong


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
    ],
    ids=lambda value: value.__name__ if isinstance(value, Callable) else str(value),
)
def test_a_kernel_is_right_in_so_many_launches(made, shape, launches):
    func = made(*shape)
    gpu = planned(func)
    assert len(gpu.plan.phases) == launches
    assert wrong(func, gpu, seed=sum(shape), orders=1) is None


@pytest.mark.parametrize(
    ("made", "shape"), [(rows, (2048, 512)), (columns, (512, 2048)), (transposed, (1024, 992))]
)
def test_memory_moves_each_sector_once(made, shape):
    """Neighbouring threads have neighbouring elements; a transpose turns in shared memory."""
    gpu = planned(made(*shape))
    least = sum(tensor.bytes // 32 for tensor in gpu.kernel.params)
    assert sum(sectors(gpu).values()) <= 1.02 * least, str(gpu.plan)


def test_long_sums_are_no_running_sums():
    """Of equal terms one by one added up each addition errs to the same side."""
    func = total(200_000)
    gpu = planned(func)
    ones, out = np.full(200_000, 0.1, "float32"), np.empty(1, "float32")
    gpu.made.run([ones], [out], 0)
    assert abs(out[0] - 200_000 * float(np.float32(0.1))) <= 1e-6 * 20_000

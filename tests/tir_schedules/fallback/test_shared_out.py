"""What the template declines runs on all threads where that is worth a region and safe."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op
from tvm.script import tirx as T

from support.models import relax_models as rm
from tir_schedules.fallback.shared_out import shared_out
from tvm_stitch import pipeline

RNG = np.random.default_rng(0)
IMAGE = RNG.standard_normal((2, 8, 45, 51)).astype("f4")
WHOLE = RNG.integers(0, 99, (2, 8, 45, 51)).astype("i4")
GRAD = RNG.standard_normal((2, 8, 22, 25)).astype("f4")


def regions(func: tirx.PrimFunc) -> int:
    return str(func.script()).count("T.parallel")


def pool(x: relax.Var) -> relax.Expr:
    return op.nn.adaptive_avg_pool2d(x, (17, 23))  # of integers, which has no gather


def pool_backward(grad: relax.Var, x: relax.Var) -> relax.Expr:
    return op.grad.max_pool2d_backward(grad, x, (2, 2), (2, 2))


@pytest.mark.parametrize(("emit", "inputs"), [(pool, [WHOLE]), (pool_backward, [GRAD, IMAGE])])
def test_what_is_shared_out_is_what_one_thread_makes(emit, inputs):
    mod = rm.module(lambda _, *x: emit(*x), *inputs)
    made = {}
    for threads in (1, 2):
        lowered, report = pipeline.lower(mod, rm.cpu(), fusion="stitch", threads=threads)
        funcs = [f for _, f in lowered.functions_items() if isinstance(f, tirx.PrimFunc)]
        assert report.fallbacks == 1
        assert sum(map(regions, funcs)) == (0 if threads == 1 else 2)
        (func,) = funcs
        named = tvm.IRModule({"kernel": func.with_attr("global_symbol", "kernel")})
        result = func.params[-1].ty
        out = tvm.runtime.empty([int(n) for n in result.shape], str(result.dtype))
        tvm.compile(named, rm.cpu())["kernel"](*map(tvm.runtime.tensor, inputs), out)
        made[threads] = out.numpy()
    assert made[1].tobytes() == made[2].tobytes()
    if emit is pool:
        np.testing.assert_array_equal(made[2], np.trunc(_averages(WHOLE, 17, 23)))


def _averages(x: np.ndarray, *extents: int) -> np.ndarray:
    """Return means over windows from floor(i n / m) to ceil((i + 1) n / m)."""
    out = np.empty((*x.shape[:2], *extents))
    for at in np.ndindex(*extents):
        ends = [(i * n // m, math.ceil((i + 1) * n / m)) for i, n, m in
                zip(at, x.shape[2:], extents, strict=True)]  # fmt: skip
        window = x[:, :, slice(*ends[0]), slice(*ends[1])].astype("f8")
        out[(..., *at)] = window.mean((2, 3))
    return out


@T.prim_func(s_tir=True)
def running(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in range(63):
        with T.sblock("sum"):
            vi = T.axis.spatial(63, i)
            y[vi + 1] = y[vi] + x[vi]


@T.prim_func(s_tir=True)
def doubled(x: T.Buffer((64, 4), "float32"), y: T.Buffer((64, 4), "float32")):
    for i, j in T.grid(64, 4):
        with T.sblock("twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(2)


def test_what_a_step_hands_to_the_next_stays_on_one_thread():
    assert regions(shared_out(running, 1)) == 0


def test_few_points_are_worth_no_region():
    assert regions(shared_out(doubled, 257)) == 0
    assert regions(shared_out(doubled, 256)) == 1


def test_what_is_scheduled_stays_as_it_is():
    schedule = tvm.s_tir.Schedule(doubled)
    schedule.parallel(schedule.get_loops(schedule.get_sblock("twice"))[0])
    once = schedule.mod["main"]
    tvm.ir.assert_structural_equal(shared_out(once, 1), once)

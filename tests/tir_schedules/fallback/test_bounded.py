"""Kernels that index by what tensors hold touch nothing outside their buffers, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir import IRModule
from tvm.relax import op
from tvm.script import tirx as T

from relay_passes.rewrites.legalize.legalize import LEGALIZATIONS
from support.kernels import memory
from support.models.relax_models import module
from tir_schedules.fallback.alignment import drop_alignment
from tir_schedules.fallback.bounded import bounded
from tir_schedules.kernel_ir.parse import read_prim_func
from tir_schedules.kernel_ir.stage import Refusal
from tvm_stitch import pipeline, targets
from tvm_stitch.runtime.artifact import Tensor
from tvm_stitch.runtime.buffers import InputSlot

# Just outside an axis, far outside, outside as 32 bits are cut off, and the ends of the type.
INTEGERS = (0, 4, 5, -6, 1 << 31, (1 << 32) + 1, 1 << 40, -(1 << 63) + 1, -(1 << 63))
FLOATS = (0, 5, -6, 1e9, 1e20, -1e20, np.nan, np.inf, -np.inf)
X = ((5, 3), "float32")
IMAGE = ((2, 3, 5, 6), "float32")
TARGET = targets.resolve("x86", 1)


@dataclass(frozen=True)
class Indexed:
    """`emit` reads parameters of these shapes; the second, and the third if int64, are indices."""

    emit: Callable[..., object]
    params: tuple[tuple[tuple[int, ...], str], ...]

    def module(self) -> IRModule:
        return module(lambda _, *x: self.emit(*x), *(np.zeros(*param) for param in self.params))

    def arrays(self, index: float) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(shape).astype(dtype) for shape, dtype in self.params]
        with np.errstate(all="ignore"):
            for n, (shape, dtype) in enumerate(self.params):
                if n == 1 or dtype.startswith("int"):
                    arrays[n] = np.full(shape, np.array(index).astype(dtype))
        return arrays


def i64(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "int64"


def f32(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "float32"


CASES = {
    "take": Indexed(lambda x, i: op.take(x, i, 1), (X, ((4, 2), "int32"))),
    "take_nan": Indexed(lambda x, i: op.take(x, i, 0, mode="nan"), (X, i64(4))),
    "gather_elements": Indexed(lambda x, i: op.gather_elements(x, i, 0), (X, i64(4, 2))),
    "gather_nd": Indexed(lambda x, i: op.gather_nd(x, i, 1), (f32(2, 5, 3), i64(2, 4, 1))),
    "index_tensor": Indexed(lambda x, i, j: op.index_tensor(x, [i, j]), (X, i64(4, 1), i64(2))),
    "scatter_elements": Indexed(
        lambda x, i, u: op.scatter_elements(x, i, u, 0, "add"), (X, i64(4, 2), f32(4, 2))
    ),
    "scatter_nd": Indexed(lambda x, i, u: op.scatter_nd(x, i, u, "max"), (X, i64(4, 1), f32(4, 3))),
    "index_put": Indexed(
        lambda x, i, j, u: op.index_put(x, relax.Tuple([i, j]), u), (X, i64(4), i64(4), f32(4))
    ),
    "roi_align": Indexed(
        lambda x, r: op.vision.roi_align(x, r, (2, 2), 1.0, sample_ratio=2), (IMAGE, f32(4, 5))
    ),
    "roi_pool": Indexed(lambda x, r: op.vision.roi_pool(x, r, (2, 2), 1.0), (IMAGE, f32(4, 5))),
    "grid_sample": Indexed(
        lambda x, g: op.image.grid_sample(x, g, "nearest", "NCHW", "reflection"),
        (IMAGE, f32(2, 2, 4, 3)),
    ),
    "nll_loss": Indexed(lambda x, i: op.nn.nll_loss(x, i, reduction="none"), (f32(4, 5), i64(4))),
}


def run_guarded(
    kernel: tirx.PrimFunc, run: Callable[..., None], inputs: list[np.ndarray], at_end: bool
) -> None:
    out = kernel.params[-1].ty
    made = np.zeros([int(extent) for extent in out.shape], str(out.dtype.dtype))
    arrays = [memory.guarded(a, at_end, writable=False) for a in inputs]
    arrays.append(memory.guarded(made, at_end, writable=True))
    slots = [InputSlot(Tensor("t", a.shape, str(a.dtype)), None) for a in arrays]
    kept = [slot.place(array) for slot, array in zip(slots, arrays, strict=True)]
    run(*(slot.tensor for slot in slots))
    assert len(kept) == len(kernel.params)


def survives(kernel: tirx.PrimFunc, feeds: list[list[np.ndarray]], at_end: bool = True) -> bool:
    run = _built(kernel)

    def work() -> None:
        for inputs in feeds:
            run_guarded(kernel, run, inputs, at_end)

    return memory.in_child(work) == 0


def _built(kernel: tirx.PrimFunc) -> Callable[..., None]:
    public = IRModule({"main": kernel.with_attr("global_symbol", "main")})
    return tvm.compile(public, TARGET).jit()["main"]


def kernel_of(mod: IRModule) -> tirx.PrimFunc:
    (kernel,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return kernel


@pytest.mark.long(every=6)
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_stays_inside_its_buffers_whatever_the_indices(name):
    case = CASES[name]
    with TARGET:
        plain = kernel_of(relax.transform.LegalizeOps(LEGALIZATIONS)(case.module()))
    lowered, _ = pipeline.lower(case.module(), TARGET, fusion="stitch", threads=1)
    numbers = FLOATS if case.params[1][1] == "float32" else INTEGERS
    feeds = [case.arrays(number) for number in numbers]
    for kernel in (kernel_of(lowered), drop_alignment(bounded(plain))):
        assert survives(kernel, feeds, at_end=True)
        assert survives(kernel, feeds, at_end=False)


def test_the_guard_sees_an_index_that_leaves_its_buffer():
    case = CASES["gather_elements"]
    with TARGET:
        kernel = kernel_of(relax.transform.LegalizeOps()(case.module()))
    assert survives(kernel, [case.arrays(4)])
    assert not survives(kernel, [case.arrays(1 << 40)])


@T.prim_func(s_tir=True)
def scatter(x: T.Buffer((4,), "float32"), i: T.Buffer((4,), "int64"), y: T.Buffer((4,), "float32")):
    for k in range(4):
        with T.sblock("scatter"):
            v = T.axis.spatial(4, k)
            y[i[v]] = x[v]


@T.prim_func(s_tir=True)
def ragged(x: T.Buffer((4,), "float32"), n: T.Buffer((1,), "int32"), y: T.Buffer((4,), "float32")):
    with T.sblock("ragged"):
        for k in range(n[0]):
            y[k] = x[k]


@T.prim_func(s_tir=True)
def from_nothing(
    x: T.Buffer((0,), "float32"), i: T.Buffer((4,), "int64"), y: T.Buffer((4,), "float32")
):
    for k in range(4):
        with T.sblock("gather"):
            v = T.axis.spatial(4, k)
            y[v] = x[i[v]]


def test_a_store_where_a_tensor_says_is_not_for_the_template():
    refusal = read_prim_func(scatter)
    assert isinstance(refusal, Refusal)
    assert "stores where a tensor says" in str(refusal)
    x, i = np.arange(4, dtype="f4"), np.array([9, -9, 1, 2])
    assert survives(bounded(scatter), [[x, i]])


def test_a_loop_as_long_as_a_tensor_says_stays_inside():
    x, n = np.arange(4, dtype="f4"), np.array([5000], "i4")
    assert survives(bounded(ragged), [[x, n]])


def test_nothing_is_read_of_a_tensor_without_elements():
    assert "x[" not in bounded(from_nothing).script().partition("y[v] =")[2]


def test_what_is_inside_already_is_left_alone():
    with TARGET:
        take = kernel_of(relax.transform.LegalizeOps(LEGALIZATIONS)(CASES["take"].module()))
    assert bounded(take).script() == take.script()

"""Workloads: a kernel by what it computes, and by that without its sizes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tvm import te, tirx, topi

from support import ROOT
from support.tuning.kernels import KERNELS, device, product, softmax
from tir_schedules.backend import backend
from tir_schedules.kernel_ir.expr import Axis, AxisRef, Load, Op, Tensor
from tir_schedules.kernel_ir.stage import Kernel, Stage
from tir_schedules.tuning.workload import Workload, workload_of


def workload(func: tirx.PrimFunc) -> Workload:
    return workload_of(backend(device()).read(func))


def scaled(by: float, name: str = "x", dtype: str = "float32", extent: int = 8) -> tirx.PrimFunc:
    x = te.placeholder((extent, 3), dtype, name)
    out = te.compute((extent, 3), lambda i, j: x[i, j] * tirx.const(by, dtype), f"{name}_out")
    return te.create_prim_func([x, out])


def product_and(then: object) -> tirx.PrimFunc:
    x, weight = (te.placeholder((9, 9), "float32", name) for name in "xw")
    results = then(topi.matmul(x, weight))
    return te.create_prim_func([x, weight, *(results if isinstance(results, list) else [results])])


def product_and_residual() -> tirx.PrimFunc:
    x, weight, other = (te.placeholder((9, 9), "float32", name) for name in "xwr")
    return te.create_prim_func([x, weight, other, topi.tanh(topi.matmul(x, weight) + other)])


def stored(made: te.Tensor) -> list[te.Tensor]:
    return [made, topi.tanh(made)]


def squares(x: te.Tensor, axis: int) -> te.Tensor:
    return topi.sum(topi.exp(x * x), axis)


def reduced(reduce: object, axis: int) -> tirx.PrimFunc:
    x = te.placeholder((8, 8), "float32", "x")
    return te.create_prim_func([x, reduce(x, axis)])


def test_names_do_not_matter():
    assert workload(scaled(2.0)) == workload(scaled(2.0, name="another"))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param(scaled(2.0), scaled(3.0), True, id="constant"),
        pytest.param(scaled(2.0), scaled(1.0), False, id="constant-one"),
        pytest.param(scaled(2.0), scaled(2.0, extent=9), True, id="extent"),
        pytest.param(scaled(2.0), scaled(2.0, extent=1), True, id="extent-one"),
        pytest.param(product(8, 8, 8), product(1, 8, 8), True, id="batch-one"),
        pytest.param(product(8, 8, 8), product(8, 1, 8), False, id="depth-one"),
        pytest.param(scaled(2.0), scaled(2.0, dtype="float64"), False, id="dtype"),
        pytest.param(reduced(topi.sum, 0), reduced(topi.sum, 1), False, id="axis"),
        pytest.param(reduced(topi.sum, 0), reduced(topi.max, 0), False, id="combiner"),
        pytest.param(softmax(8, 96), softmax(4, 64), True, id="softmax"),
        pytest.param(product(8, 8, 8), product(9, 17, 33), True, id="product"),
        pytest.param(product(8, 8, 8), softmax(8, 8), False, id="operators"),
        pytest.param(product(8, 8, 8), product_and(topi.tanh), True, id="epilogue"),
        pytest.param(product(8, 8, 8), product_and_residual(), True, id="residual"),
        pytest.param(product(8, 8, 8), product_and(topi.nn.softmax), False, id="reductions"),
        pytest.param(product(8, 8, 8), product_and(stored), False, id="results"),
        pytest.param(reduced(topi.sum, 0), reduced(squares, 0), True, id="prologue"),
    ],
)
def test_kernels_that_differ_have_other_keys_and_alike_ones_a_structure(one, other, alike):
    first, second = workload(one), workload(other)
    assert first.key != second.key
    assert (first.structure == second.structure) == alike


def test_shared_nodes_are_written_once():
    x, out, axis = Tensor("x", (4,), "float32"), Tensor("out", (4,), "float32"), Axis("i", 4)
    value = Load(x, (AxisRef(axis),))
    for _ in range(40):
        value = Op("Add", (value, value), "float32")
    stage = Stage("doubled", out, (axis,), (AxisRef(axis),), value)
    assert workload_of(Kernel("k", (x, out), (out,), (stage,))).text.count("Add") == 40


def test_keys_are_those_of_every_process():
    code = (
        "import sys; sys.path[:0] = ['tests/lib', 'scripts']\n"
        "from support.tuning.kernels import device, softmax\n"
        "from tir_schedules.backend import backend\n"
        "from tir_schedules.tuning.workload import workload_of\n"
        "print(workload_of(backend(device()).read(softmax())).key)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert told.stdout.strip() == workload(softmax()).key


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_is_a_page_of_what_is_computed(name):
    lines = workload(KERNELS[name]()).text.splitlines()
    assert lines[0].startswith("t0 float32[")
    assert lines[-1].startswith("return t")

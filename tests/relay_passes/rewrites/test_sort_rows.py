"""Sorts become kernels of the backend, where it has one."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.relax import op

import tvm_stitch
from relay_passes.transform import SortRows
from support.frontend.case import FLOAT, INT64, model
from support.models import relax_models as rm
from support.toy_backend import SerialLoops
from tir_schedules.backend import registered
from tir_schedules.cpu.sorting import select

X = np.random.default_rng(0).standard_normal((6, 50)).astype("f4")


def sorts(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    best = builder.emit(op.topk(x, 3, -1, "both", False, "int32"))
    fields = [builder.emit(relax.TupleGetItem(best, n)) for n in range(2)]
    values = builder.emit(op.topk(x, 4, 0, "values", True))
    places = builder.emit(op.topk(x, 4, 0, "indices", True, "int64"))
    ordered = builder.emit(op.sort(x, -2, True))
    order = builder.emit(op.argsort(x, 1, False, "int64"))
    return relax.Tuple([*fields, values, places, ordered, order])


def kernels(mod: tvm.IRModule) -> list[str]:
    return sorted(v.name_hint for v, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc))


def test_each_sort_of_relax_is_a_kernel():
    made = tvm_stitch.compile(rm.module(sorts, X), threads=2)
    rows, columns = np.argsort(X, 1), np.argsort(-X, 0)
    wants = [np.sort(X, 1)[:, :3], rows[:, :3], np.take_along_axis(X, columns, 0)[:4], columns[:4],
             np.take_along_axis(X, columns, 0), rows]  # fmt: skip
    for got, want in zip(made(tvm.runtime.tensor(X)), wants, strict=True):
        np.testing.assert_array_equal(np.from_dlpack(got), want)
    assert made.report.fallbacks == 0
    assert made.report.kernels == 5


def test_a_sort_between_others_is_a_kernel_of_its_own():
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("TopK", ["e", "k"], ["v", "i"], axis=1),
        helper.make_node("Neg", ["v"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, X.shape)}, {"y": (FLOAT, None), "i": (INT64, None)},
                  {"k": np.array([7])})  # fmt: skip
    made = tvm_stitch.compile(proto, threads=1, verify=True)
    got = made.run({"x": X})
    order = np.argsort(-X, 1)[:, :7]
    np.testing.assert_array_equal(got["i"], order)
    np.testing.assert_allclose(got["y"], -np.exp(np.take_along_axis(X, order, 1)), 1e-6)
    assert made.report.kernels == 3


def test_verify_finds_a_sort_that_is_wrong(monkeypatch):
    """Of what a block of candidates has, the last one is lost."""
    nodes = [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1)]
    x = np.random.default_rng(0).standard_normal((3, 1000)).astype("f4")
    proto = model(nodes, {"x": (FLOAT, x.shape)}, {"v": (FLOAT, None)}, {"k": np.array([9])})
    whole = select._Candidates._append
    monkeypatch.setattr(
        select._Candidates, "_append", lambda self, first, size: whole(self, first, size - 1)
    )
    assert not tvm_stitch.verify(proto)


def test_rows_of_unknown_length_are_left_to_tvm():
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit_output(op.sort(x, 1))
        builder.emit_func_output(made)
    mod = builder.get()
    with rm.cpu():
        assert kernels(SortRows()(mod)) == []


@pytest.mark.parametrize("count", ["fuel", "backend"])
def test_what_gets_no_kernel_is_as_right(count):
    mod = rm.module(sorts, X)
    if count == "backend":
        with registered("llvm", SerialLoops()):
            made = tvm_stitch.compile(mod, threads=1)
    else:
        made = tvm_stitch.compile(mod, threads=1, fuel=2)
    assert made.report.fallbacks > 0
    got = np.from_dlpack(made(tvm.runtime.tensor(X))[-1])
    np.testing.assert_array_equal(got, np.argsort(X, 1))

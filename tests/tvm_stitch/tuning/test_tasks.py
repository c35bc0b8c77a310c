"""Tasks: the kernels of a model, how often each runs, and what of it they read as weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tvm import relax, te, topi
from tvm.relax import TensorType
from zoo.graph import Graph

from tvm_stitch.build import Request
from tvm_stitch.tuning.tasks import _kernels, tasks_of


def two_layers() -> onnx.ModelProto:
    graph = Graph("two_layers", seed=1)
    x = graph.input("x", (5, 48))
    one, other = graph.weight("one", (48, 48)), graph.weight("other", (48, 32))
    graph.output(
        graph.op("MatMul", graph.op("Tanh", graph.op("MatMul", x, one)), other), "y", (5, 32)
    )
    return graph.model()


def test_weights_are_told_by_their_places_and_bytes():
    tasks = tasks_of(Request(two_layers(), threads=2)).tasks
    nbytes = [sum(t.candidates.kernel.inputs[n].bytes for n in t.weights) for t in tasks]
    assert sum(task.calls * n for task, n in zip(tasks, nbytes, strict=True)) == sum(nbytes)
    assert {task.weight_bytes for task in tasks} == {sum(nbytes)} == {4 * 48 * (48 + 32)}


def called(second: str) -> tuple[int, set[int]]:
    """Return what is told of a kernel that is called on an input and a weight, then on others."""
    builder = relax.BlockBuilder()
    kind = TensorType([8], "float32")
    x, weight = (relax.Var(name, kind) for name in ("x", "weight"))
    constant = relax.const(np.arange(8, dtype="float32"))
    a, b = (te.placeholder((8,), "float32", n) for n in "ab")
    add = builder.add_func(te.create_prim_func([a, b, topi.add(a, b)]), "add")
    with builder.function("main", [x, weight]):
        first = builder.emit(relax.call_tir(add, [x, weight], kind))
        other = {"weight": weight, "constant": constant, "input": x, "result": first}[second]
        builder.emit_func_output(builder.emit(relax.call_tir(add, [first, other], kind)))
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("num_input", 1)
    return _kernels(mod)["add"]


@pytest.mark.parametrize(
    ("second", "weights"), [("weight", {1}), ("constant", {1}), ("input", set()), ("result", set())]
)
def test_a_weight_is_one_in_every_call(second, weights):
    assert called(second) == (2, weights)

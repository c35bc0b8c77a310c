"""Tasks: the kernels of a model, how often each runs, and what of it they read as weights."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from tvm import relax, te, topi
from tvm.relax import TensorType
from zoo.graph import Graph

from support.tuning.kernels import TARGET, device
from tvm_stitch.build import Request
from tvm_stitch.tuning.lowered_model import LoweredModel
from tvm_stitch.tuning.tasks import Task, tasks_in, tasks_of


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


def weights_of(second: str, names: tuple[str, str]) -> Task:
    """Return the task of a kernel that is called on an input and a weight, then on others.

    By one name, or by two.
    """
    builder = relax.BlockBuilder()
    kind = TensorType([8], "float32")
    x, weight = (relax.Var(name, kind) for name in ("x", "weight"))
    constant = relax.const(np.arange(8, dtype="float32"))
    a, b = (te.placeholder((8,), "float32", n) for n in "ab")
    func = te.create_prim_func([a, b, topi.add(a, b)])
    found = {name: builder.add_func(func.with_attr("global_symbol", name), name) for name in names}
    one, another = (found[name] for name in names)
    with builder.function("main", [x, weight]):
        first = builder.emit(relax.call_tir(one, [x, weight], kind))
        other = {"weight": weight, "constant": constant, "input": x, "result": first}[second]
        builder.emit_func_output(builder.emit(relax.call_tir(another, [first, other], kind)))
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("num_input", 1)
    lowered = SimpleNamespace(stages={"DeadCodeElimination": mod}, target=TARGET)
    (task,) = tasks_in(LoweredModel(lowered, device())).tasks
    return task


@pytest.mark.parametrize("names", [("add", "add"), ("add", "again")])
@pytest.mark.parametrize(
    ("second", "weights"), [("weight", (1,)), ("constant", (1,)), ("input", ()), ("result", ())]
)
def test_a_weight_is_one_in_every_call(second, weights, names):
    task = weights_of(second, names)
    assert (task.calls, task.weights, task.weight_bytes) == (2, weights, 64 * len(weights))

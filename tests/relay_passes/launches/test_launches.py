"""Runs of launches on a GPU are replayed as one, where nothing in them moves."""

from __future__ import annotations

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper
from tvm import ir, relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R
from zoo.graph import Graph

from relay_passes.launches.runs import inside, refuse
from tvm_stitch import pipeline
from tvm_stitch.build import Lowered, Request, lower
from tvm_stitch.steps import Steps


def layers(count: int = 4, rows: int = 4, width: int = 32, every: bool = True) -> onnx.ModelProto:
    """Make layers that all add one input; each one's result is the model's if asked for."""
    graph, made = Graph("layers"), []
    x, mask = graph.input("x", (rows, width)), graph.input("mask", (rows, width))
    for n in range(count):
        weight = graph.initializer(f"w{n}", np.full((width, width), 1.0 + n, np.float32))
        x = graph.op("Tanh", graph.op("Add", graph.op("MatMul", x, weight), mask))
        made.append(x)
    for n, layer in enumerate(made if every else made[-1:]):
        graph.output(layer, f"y{n}", (rows, width))
    return graph.model()


def lowered(model: onnx.ModelProto) -> Lowered:
    return lower(Request(model, "cuda:sm_90", fusion="none"))


def stages(low: Lowered) -> dict[str, tvm.ir.IRModule]:
    found: dict[str, tvm.ir.IRModule] = {}
    with low.target:
        pipeline.build_pipeline(low.target, Steps(None, found.__setitem__))(low.mod)
    return found


def calls(low: Lowered) -> tuple[list[int], list[str]]:
    """Return how many kernels each graph replays, and which others `main` launches."""
    mod = stages(low)["CaptureLaunches"]
    replayed, beside = [], []
    for call in inside(mod["main"].body, relax.Call):
        if isinstance(call.op, ir.GlobalVar) and isinstance(mod[call.op], tirx.PrimFunc):
            beside.append(call.op.name_hint)
        elif getattr(call.op, "name", "") == "relax.call_builtin_with_ctx":
            function, given = call.args
            if function.global_symbol == "vm.builtin.cuda_graph.run_or_capture":
                replayed.append(launches(mod, given.fields[0]))
    return replayed, beside


def launches(mod: tvm.ir.IRModule, gvar: ir.GlobalVar) -> int:
    called = [call.op for call in inside(mod[gvar].body, relax.Call)]
    return sum(isinstance(op, ir.GlobalVar) for op in called)


def copies(low: Lowered) -> list[str]:
    return [each.places[0] for each in low.fuel.spent if each.name == "StageTensors"]


def test_what_parts_runs_is_copied():
    low = lowered(layers())
    replayed, beside = calls(low)
    assert replayed == [4 * 3 - 2]  # the first product reads x, the last tanh is a result
    assert len(copies(low)) == 4  # mask, and the results that later layers read
    assert len(beside) == 4 + 2


def test_an_input_that_is_read_first_is_read_in_place():
    low = lowered(layers(every=False))
    assert copies(low) == ["mask"]
    assert calls(low)[0] == [10]


def test_what_takes_longer_to_copy_than_to_launch_is_read_in_place():
    low = lowered(layers(rows=1 << 15, width=512, every=False))
    assert copies(low) == []
    replayed, beside = calls(low)
    assert replayed == [2] * 3  # a tanh and the product behind it
    assert len(beside) == 6


def test_a_lone_kernel_is_launched():
    low = lowered(layers(count=1))
    assert calls(low)[0] == []
    assert "run_or_capture" not in stages(low)["CaptureLaunches"].script()


def test_tvms_own_switch_turns_it_off():
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": False}):
        low = lowered(layers())
        assert calls(low)[0] == []
    assert copies(low) == []


def test_fuel_counts_it():
    low = lowered(layers())
    total = len(low.fuel.spent)
    short = lower(Request(layers(), "cuda:sm_90", fusion="none", fuel=total - 1))
    assert len(short.fuel.spent) == total - 1


def test_cpus_launch_nothing():
    low = lower(Request(layers(), fusion="none"))
    assert copies(low) == []
    assert "CaptureLaunches" not in stages(low)


def test_a_result_that_is_an_input_or_a_view_of_one_is_left():
    graph = Graph("views")
    x = graph.input("x", (4, 8))
    made = x
    for n in range(4):
        made = graph.op("MatMul", made, graph.initializer(f"w{n}", np.eye(8, dtype=np.float32)))
    graph.output(made, "y", (4, 8))
    graph.output(graph.op("Reshape", x, graph.initializer("shape", np.array([8, 4]))), "z", (8, 4))
    low = lowered(graph.model())
    assert copies(low) == []
    assert calls(low)[0] == [2]


def test_a_function_that_calls_another_is_left():
    """TVM lets all of a module's functions have one arena: a body would write over its caller's."""
    assert refuse(Calling) == "main calls half"


@I.ir_module
class Packed:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.call_dps_packed("elsewhere", (x,), out_ty=R.Tensor((4,), "float32"))


def test_a_function_that_runs_what_is_no_kernel_is_left():
    assert refuse(Packed) == "main calls elsewhere"


def test_branches_are_left():
    low = lowered(branching())
    assert refuse(low.mod) == "main has branches"
    assert "run_or_capture" not in stages(low)["CaptureLaunches"].script()


def branching() -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["x"], ["a"])]
    ways = [
        helper.make_graph(
            [helper.make_node("Tanh", ["a"], [name]), helper.make_node(op, [name], [f"{name}y"])],
            name, [], [info(f"{name}y", TensorProto.FLOAT, [4, 8])],
        )
        for name, op in (("then", "Exp"), ("else", "Neg"))
    ]  # fmt: skip
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=ways[0], else_branch=ways[1]))
    graph = helper.make_graph(
        nodes, "g",
        [info("x", TensorProto.FLOAT, [4, 8]), info("c", TensorProto.BOOL, [])],
        [info("y", TensorProto.FLOAT, [4, 8])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@I.ir_module
class Calling:
    @R.function(private=True)
    def half(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.multiply(x, R.const(0.5, "float32"))

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Calling
        y: R.Tensor((4,), "float32") = cls.half(x)
        return y

"""Small models that the runtime's tests compile."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from zoo.graph import Graph

from tvm_stitch import targets
from tvm_stitch.runtime import library
from tvm_stitch.runtime.artifact import Meta, Tensor
from tvm_stitch.runtime.model import Model

Edge = tuple[str, str, Sequence]  # name, NumPy dtype, shape


def onnx_model(
    nodes: list[onnx.NodeProto],
    inputs: list[Edge],
    outputs: list[Edge],
    weights: dict | None = None,
) -> onnx.ModelProto:
    """Return an ONNX model of `nodes`; `weights` maps names to arrays."""
    graph = helper.make_graph(
        nodes,
        "test",
        [_value(*edge) for edge in inputs],
        [_value(*edge) for edge in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def double(dtype: str = "float32", shape: Sequence = (4, 64), name: str = "x") -> onnx.ModelProto:
    """Return y = x + x."""
    node = helper.make_node("Add", [name, name], ["y"])
    return onnx_model([node], [(name, dtype, shape)], [("y", dtype, shape)])


def linear(rows: int = 4, columns: int = 64, seed: int = 0) -> tuple[onnx.ModelProto, np.ndarray]:
    """Return y = relu(input.1 @ w + b), and [w; b]."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((columns, columns)).astype(np.float32)
    bias = rng.standard_normal(columns).astype(np.float32)
    model = onnx_model(
        [
            helper.make_node("MatMul", ["input.1", "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["y"]),
        ],
        [("input.1", "float32", (rows, columns))],
        [("y", "float32", (rows, columns))],
        {"w": weight, "b": bias},
    )
    return model, np.vstack([weight, bias])


def linear_reference(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return what `linear` computes, in float64."""
    return np.maximum(x.astype(np.float64) @ weights[:-1] + weights[-1], 0)


def gather(rows: int = 5) -> onnx.ModelProto:
    """Return y = table[ids] for a table of (rows, 3) and two ids."""
    table = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    return onnx_model(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        [("ids", "int64", (2,))],
        [("y", "float32", (2, 3))],
        {"table": table},
    )


def _value(name: str, dtype: str, shape: Sequence) -> onnx.ValueInfoProto:
    if dtype == "bfloat16":
        return helper.make_tensor_value_info(name, TensorProto.BFLOAT16, shape)
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


@I.ir_module
class ParallelSteps:
    """y = 2 * (x + 1): a plain parallel region, then one with two phases and a barrier."""

    @T.prim_func(private=True, s_tir=True)
    def plain(x: T.Buffer((64, 512), "float32"), y: T.Buffer((64, 512), "float32")):
        T.func_attr({"op_pattern": 8, "tirx.is_scheduled": True})
        for i in T.parallel(64):
            for j in range(512):
                with T.sblock("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] + T.float32(1)

    @R.function
    def main(x: R.Tensor((64, 512), "float32")):
        cls = ParallelSteps
        with R.dataflow():
            a = R.call_tir(cls.plain, (x,), out_ty=R.Tensor((64, 512), "float32"))
            b = R.call_tir(cls.plain, (a,), out_ty=R.Tensor((64, 512), "float32"))
            R.output(b)
        return b


@I.ir_module
class Phases:
    """out = sums of the columns of x, added to every row of x: two phases, one barrier."""

    @T.prim_func(private=True, s_tir=True)
    def phases(
        x: T.Buffer((64, 64), "float32"),
        sums: T.Buffer((64,), "float32"),
        out: T.Buffer((64, 64), "float32"),
    ):
        T.func_attr({"op_pattern": 8, "tirx.is_scheduled": True})
        for _ in T.serial(1, annotations={"pragma_parallel_launch_point": True}):
            for j in T.parallel(64, annotations={"pragma_parallel_barrier_when_finish": True}):
                for i in range(64):
                    with T.sblock("sums"):
                        vj, vi = T.axis.remap("SR", [j, i])
                        with T.init():
                            sums[vj] = T.float32(0)
                        sums[vj] = sums[vj] + x[vi, vj]
            for i in T.parallel(64, annotations={"pragma_parallel_barrier_when_finish": True}):
                for j in range(64):
                    with T.sblock("out"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        out[vi, vj] = x[vi, vj] + sums[63 - vj]

    @R.function
    def main(x: R.Tensor((64, 64), "float32")):
        cls = Phases
        with R.dataflow():
            both = R.call_tir(
                cls.phases,
                (x,),
                out_ty=[R.Tensor((64,), "float32"), R.Tensor((64, 64), "float32")],
            )
            out = both[1]
            R.output(out)
        return out


@I.ir_module
class Fails:
    """out = x behind a barrier, before which the packed function `tests.fails` sees each row."""

    @T.prim_func(private=True, s_tir=True)
    def fails(x: T.Buffer((8, 64), "float32"), out: T.Buffer((8, 64), "float32")):
        T.func_attr({"op_pattern": 8, "tirx.is_scheduled": True})
        for _ in T.serial(1, annotations={"pragma_parallel_launch_point": True}):
            for i in T.parallel(8, annotations={"pragma_parallel_barrier_when_finish": True}):
                T.call_packed("tests.fails", i)
            for i in T.parallel(8, annotations={"pragma_parallel_barrier_when_finish": True}):
                for j in range(64):
                    with T.sblock("out"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        out[vi, vj] = x[vi, vj]

    @R.function
    def main(x: R.Tensor((8, 64), "float32")):
        cls = Fails
        with R.dataflow():
            out = R.call_tir(cls.fails, (x,), out_ty=R.Tensor((8, 64), "float32"))
            R.output(out)
        return out


def built(mod: tvm.IRModule, shape: tuple[int, int], threads: int) -> Model:
    """Build a scheduled module of one float32 input and output as `compile` does."""
    meta = Meta(
        inputs=(Tensor("x", shape, "float32"),),
        outputs=(Tensor("y", shape, "float32"),),
        index_bounds={},
        copied_outputs=(),
        threads=threads,
        target="test",
        cpu_features=(),
        tvm_version=tvm.__version__,
        report={"kernels": 0, "groups": []},
        weights=0,
    )
    executable = tvm.compile(mod, targets.resolve("x86", threads))
    return library.from_executable(executable, meta, [])


BFLOAT16 = ml_dtypes.bfloat16


def convolution(channels: int = 128, seed: int = 0) -> onnx.ModelProto:
    """Return a convolution whose transformed kernel is four times its kernel."""
    g = Graph("convolution", seed=seed)
    x = g.input("x", (1, channels, 28, 28))
    y = g.op("Conv", x, g.weight("w", (channels, channels, 3, 3)), pads=[1] * 4)
    g.output(y, "y", (1, channels, 28, 28))
    return g.model()

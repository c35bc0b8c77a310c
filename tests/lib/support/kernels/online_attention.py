"""Attention in one pass over blocks of keys."""

from __future__ import annotations

import numpy as np
import onnx
from zoo.graph import Graph

from relay_passes.graph.group import Group
from relay_passes.policy import FusionPolicy, Policy
from support.kernels import stitch_case as sc
from tir_schedules.kernel_ir.stage import Kernel
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model
from tvm_stitch.packing import packed

# What is predicted to be faster apart is joined too: few rows, or float64.
JOINED = Policy(FusionPolicy(join_doubt=10.0))


def attention(
    rows: int, keys: int, size: int = 32, value: int = 32, mask: str = "none", **options
) -> Graph:
    """Options: `heads`, `dtype`, `turned` keys (…, keys, size), `batch_first` operands."""
    heads, turned = options.get("heads", 2), options.get("turned", False)
    g = Graph("attention", dtype=options.get("dtype", "float32"))

    def operand(name: str, length: int, width: int) -> str:
        if not options.get("batch_first"):
            return g.input(name, (1, heads, length, width))
        return g.op("Transpose", g.input(name, (1, length, heads, width)), perm=[0, 2, 1, 3])

    q, v = operand("q", rows, size), operand("v", keys, value)
    if turned or options.get("batch_first"):
        k = g.op("Transpose", operand("k", keys, size), perm=[0, 1, 3, 2])
    else:
        k = g.input("k", (1, heads, size, keys))
    scores = g.op("Mul", g.op("MatMul", q, k), g.constant(size**-0.5))
    if mask == "where":
        seen = g.op("Greater", g.input("mask", (rows, keys)), g.constant(-0.5))
        scores = g.op("Where", seen, scores, g.constant(-np.inf))
    elif mask != "none":
        shape = (1, 1, 1, keys) if mask == "keys" else (heads, rows, keys)
        scores = g.op("Add", scores, g.input("mask", shape))
    g.output(g.op("MatMul", g.op("Softmax", scores, axis=-1), v), "y", (1, heads, rows, value))
    return g


def run_online(model: onnx.ModelProto, inputs: dict[str, np.ndarray], threads: int = 2):
    """Return the result, the model's attention being one kernel."""
    compiled = sc.compiled(model, threads, policy=JOINED).model
    (group,) = (g for g in compiled.report.groups if "softmax" in g.ops)
    assert sum(op.startswith("matmul") for op in group.ops) == 2
    return compiled.run(inputs)["y"]


def assert_right(got: np.ndarray, wanted: np.ndarray) -> None:
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite])
    largest = np.abs(wanted[finite]).max(initial=0.0)
    off = np.abs(got[finite] - wanted[finite])
    assert np.all(off <= 1e-5 * (np.abs(wanted[finite]) + largest))


def whole_kernel(model: onnx.ModelProto) -> Kernel:
    target = targets.resolve("x86", 2)
    mod = packed(import_model(model), sc.device()).mod
    (plan,) = pipeline.planned(mod, target, threads=2, policy=JOINED.fusion)
    return Group([n for n in plan.graph.nodes if isinstance(n.kernel, Kernel)]).kernel()

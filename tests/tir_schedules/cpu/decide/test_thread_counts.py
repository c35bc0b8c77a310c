"""What shows in results is decided for one count of threads, whatever runs the model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import zoo
from tvm import te

import tvm_stitch
from support.decisions.devices import small_device
from support.kernels import stitch_case
from support.kernels.planned import kernels
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.cpu.accept.inspect import guarded_windows
from tir_schedules.cpu.decide import loop_nests as loops
from tir_schedules.cpu.emit import nest
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.default_plan import plan_prim_func


def two_products(dtype: str):
    """A product, its bias and a product: one kernel, or two where a rounding stands between."""
    g = zoo.graph.Graph("two_products", dtype)
    x = g.input("x", (1, 100, 32))
    hidden = g.op("MatMul", x, g.weight("w", (32, 128), std=0.3))
    hidden = g.op("Add", hidden, g.weight("b", (128,), std=0.3))
    g.output(g.op("MatMul", hidden, g.weight("v", (128, 32), std=0.3)), "y", (1, 100, 32))
    return g.model()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_results_are_the_same_bytes_for_every_count_of_threads(dtype):
    """In float16 what stays in a kernel is not rounded, so that the groups must be the same."""
    model = two_products(dtype)
    x = np.random.default_rng(0).standard_normal((1, 100, 32)).astype(dtype)
    made = [tvm_stitch.compile(model, threads=n) for n in (1, 2, 3, 8)]
    results = [m.run({"x": x})["y"].tobytes() for m in made]
    assert len(set(results)) == 1
    assert len({m.report.kernels for m in made}) == 1


@pytest.mark.parametrize("tiles", [4, 16, 64])
def test_phases_and_partial_sums_do_not_depend_on_threads(tiles):
    rows, columns = 48, 96
    x = te.placeholder((rows, columns), "float32", "x")
    w = te.placeholder((columns, columns), "float32", "w")
    k, r, c = (te.reduce_axis((0, n), s) for n, s in ((columns, "k"), (rows, "r"), (columns, "c")))
    made = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "made")
    grown = te.compute((rows, columns), lambda i, j: te.exp(made[i, j] * 0.01), "grown")
    total = te.compute((columns,), lambda j: te.sum(grown[r, j], axis=r), "total")
    out = te.compute((rows,), lambda i: te.sum(grown[i, c] / total[c], axis=c), "out")
    func = te.create_prim_func([x, w, out])
    cut = set()
    for threads in (1, 2, 3, 4, 8, 64):
        plan = plan_prim_func(func, small_device(threads, tiles=tiles))
        assert isinstance(plan, Plan), plan
        cut.add(tuple(_parts(phase) for phase in plan.phases))
    assert len(cut) == 1


def padded_then_pointwise() -> onnx.ModelProto:
    """A padded convolution in steps and one of single pixels: a chain along the lines."""
    g = zoo.graph.Graph("padded_then_pointwise")
    y = g.op("Conv", g.input("x", (1, 32, 56, 56)), g.weight("u", (32, 32, 1, 1)))
    weight = g.weight("w", (32, 32, 3, 3))
    y = g.op("Conv", g.op("Relu", y), weight, pads=[1, 1, 1, 1], strides=[2, 2])
    y = g.op("Conv", g.op("Relu", y), g.weight("v", (128, 32, 1, 1)))
    g.output(g.op("Relu", y), "y", (1, 128, 28, 28))
    return g.model()


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_a_padded_line_is_in_one_tile_for_every_count_of_threads(threads):
    (chain,) = (g for g in kernels(padded_then_pointwise()) if len(g.nodes) > 2)
    refusal, plan = accepted_plan(chain.kernel(), stitch_case.device(threads))
    assert refusal is None
    assert guarded_windows(plan) == []


def test_a_term_that_loops_leave_out_or_that_is_chosen_rounds_alike(monkeypatch):
    model = padded_then_pointwise()
    inputs = zoo.random_inputs(model)
    left_out = tvm_stitch.compile(model, threads=2).run(inputs)["y"]
    for module in (loops, nest):
        monkeypatch.setattr(module, "padding_of", lambda group, phase: None)
    chosen = tvm_stitch.compile(model, threads=2)
    assert chosen.run(inputs)["y"].tobytes() == left_out.tobytes()


def _parts(phase) -> tuple:
    """Return the nodes of a phase, and the pieces of each partial sum."""
    names = tuple(node.stage.out.name for node in phase.nodes)
    return names, phase.tiles() if phase.partial else 0

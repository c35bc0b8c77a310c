"""Products that follow each other along rows: one kernel where weights are not read in vain."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo.graph import Graph as Onnx

import tvm_stitch
from relay_passes.cost.contraction_cost import Judged, ProductJudge
from relay_passes.graph.group import Group
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.planned import kernels
from support.kernels.tir import assert_stitched
from tir_schedules.analysis.kernel_facts import COMPUTE
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.cpu.cost.core_transfer import fresh_ns, handover_ns
from tir_schedules.cpu.decide.products.row_blocks import rows_of
from tir_schedules.cpu.decide.products.row_chains import row_chain
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.kernel_ir.stage import Kernel
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model
from tvm_stitch.packing import packed


def layers(
    rows: tuple[int, ...],
    sizes: tuple[int, ...],
    between: str = "relu",
    dtype: str = "float32",
) -> Onnx:
    """Return products with a bias and something else behind each."""
    g = Onnx("layers", dtype=dtype)
    x = g.input("x", (*rows, sizes[0]))
    for number, (depth, columns) in enumerate(itertools.pairwise(sizes)):
        y = g.op("MatMul", x, g.weight(f"w{number}", (depth, columns)))
        y = g.op("Add", y, g.weight(f"b{number}", (columns,)))
        if between == "relu":
            y = g.op("Relu", y)
        elif between == "softmax":
            y = g.op("Softmax", y, axis=-1)
        elif depth == columns:
            y = g.op("Add", y, x)
        x = y
    g.output(x, "y", (*rows, sizes[-1]))
    return g


def plan_of(group: Group, threads: int = 2) -> Plan:
    refusal, plan = accepted_plan(group.kernel(), sc.device(threads))
    assert refusal is None
    return plan


def single(g: Onnx) -> Plan:
    (group,) = kernels(g.model())
    return plan_of(group)


@pytest.mark.parametrize("rows", [(64,), (255,), (4, 50)])
def test_the_layers_of_an_mlp_are_one_kernel(rows):
    plan = single(layers(rows, (64, 256, 128, 96)))
    (phase,) = plan.phases
    assert len(row_chain(phase.nodes, phase.tile, phase.chunks)) == 3
    assert all(group.epilogue is not None for group in phase.groups)
    chunk = phase.inner_extent(phase.tile[-1])
    assert {group.rows for group in phase.groups} == {rows_of(chunk, sc.device(2))}
    built = sc.compiled(layers(rows, (64, 256, 128, 96)).model(), 2)
    (func,) = built.kernels.values()
    assert_stitched(func, sc.device(2))


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("rows", [101, 257])
def test_each_thread_has_as_many_tiles(rows, threads):
    (group,) = kernels(layers((rows,), (64, 256, 128)).model())
    (phase,) = plan_of(group, threads).phases
    assert phase.tiles() % threads == 0


def test_tiles_are_as_small_as_the_widest_result_asks():
    (group,) = kernels(layers((512,), (64, 1024, 64)).model())
    device = replace(sc.device(2), l2_bytes=1 << 20)
    _, plan = accepted_plan(group.kernel(), device)
    (chunk,) = plan.phases[0].chunks.values()
    assert 6 * (chunk - 1) * 1024 * 4 < device.l2_bytes
    assert plan.tile_bytes <= device.l2_bytes // 2


def test_weights_that_would_come_from_memory_for_each_thread_keep_layers_apart():
    assert len(kernels(layers((64,), (768, 3072, 768)).model())) == 2


def test_a_few_rows_are_no_chain():
    assert len(kernels(layers((7,), (256, 256, 256)).model())) == 2


@settings(max_examples=6, deadline=None)
@given(
    rows=st.lists(st.integers(1, 150), min_size=1, max_size=2),
    sizes=st.lists(st.sampled_from([1, 8, 13, 24, 32, 57, 64, 96, 128]), min_size=3, max_size=5),
    between=st.sampled_from(["relu", "softmax", "residual"]),
)
def test_layers_of_any_shape_are_right(rows, sizes, between):
    checked(layers(tuple(rows), tuple(sizes), between).model())


def test_layers_in_float64_are_right():
    checked(layers((100,), (64, 96, 64), dtype="float64").model(), 1e-12)


def test_results_are_the_same_bits_for_every_number_of_threads():
    model = layers((131,), (64, 256, 128, 96), "residual").model()
    inputs = sc.zoo.random_inputs(model)
    results = [tvm_stitch.compile(model, threads=n).run(inputs)["y"] for n in (1, 2, 3)]
    assert all(np.array_equal(results[0], each) for each in results[1:])


def test_what_columns_make_is_handed_over_to_rows():
    """Of two wide layers one is cut by columns; of long ones both are cut by rows."""
    device = sc.device(2)
    for sizes, rows, handed in (((256, 512, 64), 64, True), ((32, 64, 64), 20000, False)):
        first, second = layers((rows,), sizes[:2]), layers((rows,), sizes[1:])
        maker, reader = single(first), single(second)
        assert (maker.phases[0].tile[0].extent != rows) == handed
        out, (into, *_) = maker.space.kernel.outputs[0], reader.space.kernel.params
        assert (handover_ns(maker, out, reader, into, device) > 0) == handed
        assert handover_ns(maker, out, reader, into, sc.device(1)) == 0


def test_threads_that_share_out_columns_read_their_part_of_a_weight():
    device = sc.device(2)
    columns, rows = single(layers((64,), (256, 512))), single(layers((20000,), (32, 64)))
    memory = 1 << 30
    bandwidth = device.profile.bandwidth("memory", 2)
    each = bandwidth.threads / bandwidth.read
    assert fresh_ns(columns, memory, device) == pytest.approx(256 * 512 * 4 / 2 * each)
    assert fresh_ns(rows, memory, device) == pytest.approx(32 * 64 * 4 * each)
    assert fresh_ns(rows, 1 << 20, device) < fresh_ns(rows, memory, device)


def test_a_weight_made_in_the_kernel_comes_from_no_memory():
    g = Onnx("made")
    w = g.op("Relu", g.input("w", (64, 64)))
    g.output(g.op("MatMul", g.input("x", (20000, 64)), w), "y", (20000, 64))
    plan = single(g)
    assert len(plan.space.nodes) == 2
    assert fresh_ns(plan, 1 << 30, sc.device(2)) == 0


def test_the_taps_of_a_window_are_no_weight():
    g = Onnx("window")
    w = g.weight("w", (32, 1, 3, 3))
    y = g.op("Conv", g.input("x", (1, 32, 56, 56)), w, group=32, pads=[1, 1, 1, 1])
    g.output(y, "y", (1, 32, 56, 56))
    plan = single(g)
    assert any(group.window is not None for phase in plan.phases for group in phase.groups)
    assert fresh_ns(plan, 1 << 30, sc.device(2)) == 0


def judged(g: Onnx) -> tuple[ProductJudge, Group, list[Group]]:
    """Return a judge of a model's graph, one group of all its ops, and one a product."""
    target = targets.resolve("x86", 2)
    module = packed(import_model(g.model()), sc.device()).mod
    (plan,) = pipeline.planned(module, target, threads=2)
    nodes = [n for n in plan.graph.nodes if isinstance(n.kernel, Kernel)]
    starts = [at for at, n in enumerate(nodes) if n.op_class == COMPUTE]
    ends = [*starts[1:], len(nodes)]
    parts = [Group(nodes[a:b]) for a, b in zip(starts, ends, strict=True)]
    return ProductJudge(plan.graph, sc.device(2), {}), Group(nodes), parts


def test_what_is_read_from_another_core_speaks_for_one_kernel_and_weights_against_it():
    judge, union, parts = judged(layers((64,), (256, 512, 64)))
    assert judge.between(parts, union) > 0
    judge, union, parts = judged(layers((64,), (768, 3072, 768)))
    assert judge.between(parts, union) < -100_000


def test_parts_without_a_plan_pass_nothing_on():
    judge, union, parts = judged(layers((64,), (256, 512, 64)))
    judge._known[parts[0].signature()] = Judged("it has no tiles", None, math.inf)
    assert judge.between(parts, union) == 0


def heads(count: int, projected: bool) -> Onnx:
    """Return two products of some heads, or one of them behind a projection to all."""
    g = Onnx("heads")
    if projected:
        x = g.op("MatMul", g.input("x", (128, 768)), g.weight("w", (768, 64 * count)))
        x = g.op("Reshape", x, g.ints(128, count, 64))
        x = g.op("Transpose", x, perm=[1, 0, 2])
    else:
        x = g.op("MatMul", g.input("p", (count, 128, 64)), g.input("q", (count, 64, 64)))
    g.output(g.op("MatMul", x, g.input("k", (count, 64, 128))), "y", (count, 128, 128))
    return g


@pytest.mark.parametrize(("count", "projected"), [(4, False), (12, True)])
def test_only_chains_along_rows_are_told_what_passes_between(count, projected):
    judge, union, parts = judged(heads(count, projected))
    assert len(parts) == 2
    assert judge.between(parts, union) == 0
    for phase in plan_of(union).phases:
        assert row_chain(phase.nodes, phase.tile, phase.chunks) == []
        assert phase.tiles() >= sc.device(2).profile.thresholds.least_tiles


def test_weights_are_as_near_as_what_the_graph_reads_allows():
    """Its results are made again each time: 64 x 512 and 64 x 64 here."""
    judge, _, _ = judged(layers((64,), (256, 512, 64)))
    read = 64 * 256 + 256 * 512 + 512 + 512 * 64 + 64
    assert judge._bytes == 4 * read

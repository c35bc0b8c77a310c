"""Products that follow each other along rows: one kernel where weights are not read in vain."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import stitch_case as sc
from hypothesis import given, settings
from hypothesis import strategies as st
from stitch_tir import assert_stitched
from test_chains import attention, kernels
from test_pack_weights import checked
from zoo.graph import Graph as Onnx

import tvm_stitch
from relay_passes import product_judge
from relay_passes.group import Group
from tir_schedules.cpu.accept import accepted_plan
from tir_schedules.cpu.handover import fresh_ns, handover_ns
from tir_schedules.cpu.plan import Plan
from tir_schedules.cpu.row_chains import row_chain


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
    assert all(group.rows > 1 and group.epilogue is not None for group in phase.groups)
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


@settings(max_examples=25, deadline=None)
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


def test_only_chains_along_rows_are_told_what_passes_between(monkeypatch):
    """Attention keeps its heads on a thread, and its keys are no weight."""
    asked = []
    monkeypatch.setattr(product_judge, "handover_ns", lambda *args: asked.append(args) or 0.0)
    kernels(attention(4, 8, 128, 128, 64, 64).model())
    assert not asked

"""The register tile of a product: which axis runs in lanes, how many rows stay in registers."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from tvm import te, tirx

from relay_passes.rewrites.convolution import Window, convolve
from support.kernels import stitch_case as sc
from support.kernels.tir import statements
from tir_schedules.cpu.decide.products.product_tiles import depth_block
from tir_schedules.cpu.decide.products.row_blocks import even_chunk, evenest, row_chunk, rows_of
from tir_schedules.cpu.decide.settle import settled
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = replace(sc.device(1), vector_bytes=64, l1_bytes=48 << 10, l2_bytes=2 << 20)


@pytest.mark.parametrize(
    ("size", "depth", "blocks", "kernel", "stride"),
    [
        *((58, 64, 2, 3, 1), (58, 64, 1, 3, 1), (230, 3, 2, 7, 2), (9, 512, 16, 1, 1)),
        *((28, 512, 4, 1, 1), (112, 32, 1, 1, 1)),  # an image that outweighs its kernel
    ],
)
def test_output_channels_of_a_convolution_run_in_lanes(size, depth, blocks, kernel, stride):
    plan = plan_prim_func(convolution(size, depth, blocks, kernel, stride), DEVICE)
    (group,) = plan.phases[0].groups
    (node,) = group.nodes
    assert group.dims[-1] in node.spatial
    assert node.store.stride(group.dims[-1]) == 1
    assert group.rows > 1


def test_rows_are_values_of_their_own_and_fetch_each_step_once():
    kernel = convolution(9, 512, 16, 3, 1)
    plan = plan_prim_func(kernel, replace(DEVICE, l2_bytes=1 << 20))
    assert plan.phases[0].groups[0].rows == 7
    emitted = emit_plan(plan, kernel)
    loops = [s for s, _ in statements(emitted.body) if isinstance(s, tirx.For)]
    widths = [int(s.extent) for s in loops if s.kind == tirx.ForKind.VECTORIZED]
    assert set(widths) == {32}
    accumulators = [s for s, _ in statements(emitted.body) if isinstance(s, tirx.AllocBuffer)]
    assert [tuple(s.buffer.ty.shape) for s in accumulators] == [(32,)] * 7
    fetches = [line for line in emitted.script().splitlines() if "llvm.prefetch" in line]
    assert len(fetches) == 32 * 4 // 64  # lines of a step
    assert f"+ {24 * 32}]), 0, 3, 1)" in fetches[0], "24 steps ahead, into L1"


def test_of_panels_that_stay_in_the_first_cache_the_next_is_fetched():
    """Where a tile has several: it walks them itself."""
    kernel = convolution(28, 128, 16, 1, 1)
    device = replace(DEVICE, l2_bytes=64 << 10)
    plan = plan_prim_func(kernel, device)
    (phase,) = plan.phases
    (group,), (rows, panel) = phase.groups, phase.tile
    group = replace(group, dims=(panel, *group.dims), strip_level=2)
    plan = settled(replace(plan, phases=(replace(phase, tile=(rows,), groups=(group,)),)), device)
    fetches = [line for line in emit_plan(plan, kernel).script().splitlines() if "prefetch" in line]
    assert len(fetches) == 32 * 4 // 64
    assert f"+ {128 * 32}]), 0, 2, 1)" in fetches[0], "a panel ahead, into L2"
    kernel = convolution(28, 128, 2, 1, 1)
    assert "prefetch" not in emit_plan(plan_prim_func(kernel, DEVICE), kernel).script()


def test_a_single_row_fetches_the_steps_of_panels_that_follow_each_other():
    def fetches(in_order: bool) -> list[str]:
        x = te.placeholder((512,), "float32", "x")
        w = te.placeholder((4, 512, 32) if in_order else (512, 4, 32), "float32", "w")
        k = te.reduce_axis((0, 512), "k")

        def value(p: tirx.Var, j: tirx.Var) -> tirx.Expr:
            return te.sum(x[k] * (w[p, k, j] if in_order else w[k, p, j]), k)

        kernel = te.create_prim_func([x, w, te.compute((4, 32), value, "out")])
        lines = emit_plan(plan_prim_func(kernel, DEVICE), kernel).script().splitlines()
        return [line for line in lines if "prefetch" in line]

    assert len(fetches(in_order=True)) == 32 * 4 // 64
    assert f"+ {48 * 32}" in fetches(in_order=True)[0]
    assert fetches(in_order=False) == []


@pytest.mark.parametrize(("size", "row"), [(28, 2 * 64), (14, 2 * 14 * 64)])
def test_rows_run_on_over_images_only_to_fill_a_register_tile(size, row):
    """Every other pixel: lines of 14 fill one, of 7 those of the next image help."""
    x = te.placeholder((8, size, size, 64), "float32", "x")
    w = te.placeholder((64, 32), "float32", "w")
    k = te.reduce_axis((0, 64), "k")
    made = te.compute(
        (8, size // 2, size // 2, 32),
        lambda n, i, j, c: te.sum(te.abs(x[n, 2 * i, 2 * j, k]) * w[k, c], k),
        "made",
    )
    plan = plan_prim_func(te.create_prim_func([x, w, made]), DEVICE)
    ((group,),) = (phase.groups for phase in plan.phases)
    (access,) = (a for a in group.nodes[0].reads.values() if a.tensor.name == "x")
    assert access.stride(group.dims[group.strip_level - 1]) == row


def convolution(size: int, depth: int, blocks: int, kernel: int, stride: int) -> tirx.PrimFunc:
    x = te.placeholder((1, size, size, depth), "float32", "x")
    w = te.placeholder((blocks, kernel, kernel, depth, 32), "float32", "w")
    window = Window((stride,) * 2, (1, 1), (0, 0), (0, 0))
    return te.create_prim_func([x, w, convolve(x, w, window)])


@pytest.mark.parametrize("extent", [1, 5, 13, 14, 15, 56, 112, 197, 384, 1000])
def test_blocks_of_rows_leave_no_rest_that_wastes_more_than_smaller_blocks_would(extent):
    rows = rows_of(extent, DEVICE)
    rest = extent % rows
    assert 1 <= rows <= extent
    assert rest == 0 or rest >= 4


@pytest.mark.parametrize(("extent", "rows"), [(18, 9), (32, 11), (33, 11), (60, 12)])
def test_as_many_blocks_of_rows_that_cost_the_same_are_even(extent, rows):
    assert rows_of(extent, DEVICE) == rows


def test_the_depth_goes_in_blocks_once_its_panels_outgrow_the_cache():
    assert depth_block(3072, 384, 32, DEVICE) == 3072
    assert depth_block(16384, 384, 32, DEVICE) == 1024
    assert depth_block(16384, 1, 32, DEVICE) == 16384  # nothing reads a panel twice
    assert depth_block(16381, 384, 32, DEVICE) == 16381  # a prime


@pytest.mark.parametrize("is_output", [False, True])
def test_an_epilogue_takes_the_accumulators_unless_they_are_a_result(is_output):
    x = te.placeholder((100, 64), "float32", "x")
    w = te.placeholder((4, 64, 32), "float32", "w")
    b = te.placeholder((128,), "float32", "b")
    k = te.reduce_axis((0, 64), "k")
    made = te.compute(
        (100, 128), lambda i, j: te.sum(x[i, k] * w[j // 32, k, j % 32], axis=k), "made"
    )
    out = te.compute(made.shape, lambda i, j: tirx.tanh(made[i, j] + b[j]), "out")
    kernel = te.create_prim_func([x, w, b, *([made] if is_output else []), out])
    plan = plan_prim_func(kernel, DEVICE)
    (phase,) = plan.phases
    assert len(phase.groups) == (2 if is_output else 1)
    held = [t.name for n in phase.nodes if (t := n.stage.out) in phase.registers(plan.space)]
    assert held == ([] if is_output else ["made"])
    loops = [s for s, _ in statements(emit_plan(plan, kernel).body)]
    assert "made" not in [s.buffer.name for s in loops if isinstance(s, tirx.AllocBuffer)]


def row_major(rows: int, depth: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, depth), "float32", "x")
    w = te.placeholder((depth, columns), "float32", "w")
    k = te.reduce_axis((0, depth), "k")
    out = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "out")
    return te.create_prim_func([x, w, out])


@pytest.mark.parametrize("rows", [128, 197, 300, 1024])
def test_tiles_have_even_chunks_of_rows(rows):
    (phase,) = plan_prim_func(row_major(rows, 3072, 768), DEVICE).phases
    (extent,) = (a.extent for a in phase.groups[0].dims if a.extent == rows)
    chunk = next((n for a, n in phase.chunks.items() if a.extent == extent), extent)
    last = extent - (-(-extent // chunk) - 1) * chunk
    assert chunk - last < -(-extent // chunk) * phase.groups[0].rows


@pytest.mark.parametrize(
    ("columns", "widths"),
    [(32, {32}), (41, {32, 16}), (64 + 24, {32}), (131, {32, 4}), (48, {32, 16})],
)
def test_the_last_columns_are_one_piece(columns, widths):
    """Of 41 columns 16 lanes begin at column 25, for eight lanes and one took as long each."""
    kernel = row_major(40, 70, columns)
    emitted = emit_plan(plan_prim_func(kernel, DEVICE), kernel)
    loops = [s for s, _ in statements(emitted.body) if isinstance(s, tirx.For)]
    assert {int(s.extent) for s in loops if s.kind == tirx.ForKind.VECTORIZED} == widths


@pytest.mark.parametrize(("depth", "least", "most"), [(64, 512, 1024), (512, 64, 128)])
def test_rows_that_come_unpacked_are_cut_into_long_pieces(depth, least, most):
    (phase,) = plan_prim_func(row_major(300, depth, 16384), DEVICE).phases
    (chunk,) = (n for a, n in phase.chunks.items() if a.extent == 16384)
    assert least <= chunk <= most


@pytest.mark.parametrize("columns", [521, 131, 97, 1000])
def test_the_last_tile_has_a_strip_of_lanes(columns):
    (phase,) = plan_prim_func(row_major(300, 128, columns), DEVICE).phases
    (chunk,) = (n for a, n in phase.chunks.items() if a.extent == columns)
    assert columns % chunk == 0 or columns % chunk >= 32


@pytest.mark.parametrize(
    ("sizes", "by_rows"),
    [
        ((512, 512, 256), True),  # 1 MiB of rows, half of that of weights
        ((128, 768, 3072), False),  # 9 MiB of weights
        ((2048, 512, 768), True),
        ((2048, 1024, 1024), True),  # neither fits: some rows stay while the weights stream
    ],
)
def test_threads_share_out_the_larger_operand(sizes, by_rows):
    (phase,) = plan_prim_func(row_major(*sizes), DEVICE).phases
    assert (phase.tile[0].extent == sizes[0]) == by_rows


@pytest.mark.parametrize(
    ("extent", "others", "rows"),
    [
        (160, 1, 84),  # 112 and 48 rows would leave a thread idle
        (49, 5, 56),  # 147 and 98: another pass costs as much
        (280, 4, 56),
        (14, 3, 14),
    ],
)
def test_a_few_tiles_are_as_many_as_keep_all_threads_busy(extent, others, rows):
    device = replace(DEVICE, threads=2)
    assert row_chunk(extent, 14, others, few=True, device=device) == rows


def test_many_tiles_are_as_large_as_the_cache_likes():
    assert row_chunk(1400, 14, 64, few=False, device=DEVICE) == 140


def test_chunks_without_number_are_not_tried_one_by_one():
    assert row_chunk((1 << 31) - 1, 14, 1, few=True, device=DEVICE) == 56


@pytest.mark.parametrize(
    ("extent", "chunk", "rows"),
    [
        (197, 108, 99),  # 108 and 89 would leave a thread idle
        (182, 98, 91),
        (1024, 154, 147),  # three and a half of each
        (1024, 128, 128),
        (2400, 140, 134),  # nine chunks of 140 would be a thread's
        (16384, 140, 140),  # so many that one more is nothing
    ],
)
def test_chunks_of_rows_are_shared_evenly_by_threads(extent, chunk, rows):
    assert even_chunk(extent, chunk, 24, replace(DEVICE, threads=2)) == rows


@pytest.mark.parametrize("readers", [1, 2])
def test_what_several_stages_read_of_a_product_is_made_of_its_registers(readers):
    shapes = ((32, 64, 64), (32, 64, 128), (128,))
    x, w, mask = (te.placeholder(shape, "float32", "x") for shape in shapes)
    k, m, n = te.reduce_axis((0, 64), "k"), *(te.reduce_axis((0, 128), "m") for _ in range(2))
    rows, whole = (32, 64), (32, 64, 128)
    made = te.compute(whole, lambda b, i, j: te.sum(x[b, i, k] * w[b, k, j], k), "made")
    scaled = te.compute(whole, lambda b, i, j: made[b, i, j] / 3.0 + mask[j], "scaled")
    outs = [te.compute(rows, lambda b, i: te.max(scaled[b, i, m], m), "most")]
    if readers == 2:
        outs.append(te.compute(rows, lambda b, i: te.sum(te.exp(scaled[b, i, n]), n), "sums"))
    plan = plan_prim_func(te.create_prim_func([x, w, mask, *outs]), DEVICE)
    (product,) = (g for p in plan.phases for g in p.groups if g.is_product)
    assert (product.epilogue is not None) == (readers == 2)


def test_rows_that_stay_are_shared_evenly():
    device = replace(DEVICE, threads=2, l2_bytes=1 << 20)
    (phase,) = plan_prim_func(panels(197, 3072, 768), device).phases
    row, panel = phase.tile
    assert (row.extent, panel.extent) == (197, 96)
    assert phase.chunks == {row: 99}


def panels(rows: int, columns: int, depth: int) -> tirx.PrimFunc:
    """Return a product with a weight in panels of 32 columns."""
    x = te.placeholder((rows, depth), "float32", "x")
    w = te.placeholder((columns // 32, depth, 32), "float32", "w")
    k = te.reduce_axis((0, depth), "k")

    def value(i: tirx.Var, p: tirx.Var, j: tirx.Var) -> tirx.Expr:
        return te.sum(x[i, k] * w[p, k, j], k)

    return te.create_prim_func([x, w, te.compute((rows, columns // 32, 32), value, "out")])


@pytest.mark.parametrize(
    ("lanes", "outside", "size"),
    [
        pytest.param([96, 35], True, 65, id="unlike"),
        pytest.param([64, 64], False, 52, id="alike"),
        pytest.param([1] * 1000, False, 52, id="many"),
    ],
)
def test_rows_are_shared_out_where_columns_are_cut_unevenly(lanes, outside, size):
    """127 rows in blocks of 13: by columns one of two threads would have 96 of 131."""
    device = replace(DEVICE, threads=2)
    assert evenest(127, 52, 13, lanes, device) == (outside, size)


def test_one_thread_has_all_rows_whatever_the_columns():
    assert evenest(127, 52, 13, [96, 35], DEVICE) == (False, 52)


def test_shares_of_a_product_of_many_rows_are_not_listed():
    device = replace(DEVICE, threads=2)
    tracemalloc.start()
    assert evenest(1 << 22, 154, 14, [96, 35], device) == (False, 154)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000

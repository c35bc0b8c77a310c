"""A tile's inputs and results are fetched by the last product before it, each line about once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tvm import te

import tvm_stitch
from support.kernels import stitch_case as sc
from support.kernels.fetched_lines import (
    DEVICE,
    LINE,
    lines_fetched,
    lines_of,
    planned,
    prefetches,
    weighted,
)
from tir_schedules.cpu.cost.beyond_cache import write_allocated
from tir_schedules.cpu.facts.memory.next_tile import sweeper
from tir_schedules.cpu.template import emit_plan


@pytest.mark.parametrize("inside", [False, True])
def test_a_head_asks_for_the_rows_and_keys_of_the_next(inside):
    heads, rows, size = 24, 48, 32
    func = weighted(heads, rows, size, inside)
    plan = planned(func)
    assert [a.extent for a in plan.phases[0].tile] == [heads]
    fetched = lines_fetched(plan, func)
    shape = (rows, heads, size) if inside else (heads, rows, size)
    for head, name in itertools.product(range(heads - 1), "qkv"):
        wanted = lines_of(range(head + 1, head + 2), range(rows), shape, inside)
        assert wanted <= set(fetched[name, head])
        assert len(fetched[name, head]) < 1.5 * len(wanted)


@pytest.mark.long
def test_tiles_of_some_rows_ask_for_the_next_ones_and_share_out_the_next_head():
    heads, rows, size = 8, 448, 64
    func = weighted(heads, rows, size, turned=False)
    plan = planned(func, replace(DEVICE, l2_bytes=3 << 18))
    ((row, chunk),) = plan.phases[0].chunks.items()
    assert plan.phases[0].tile[-1] is row
    each, fetched = -(-rows // chunk), lines_fetched(plan, func)
    for head, number in itertools.product(range(heads), range(each - 1)):
        after = range(chunk * (number + 1), min(chunk * (number + 2), rows))
        wanted = lines_of(range(head, head + 1), after, (heads, rows, size), inside=False)
        assert wanted <= set(fetched["q", each * head + number])
        written = fetched["out", each * head + number]
        assert wanted <= set(written)
        assert len(written) < 2 * len(wanted)
    for head, name in itertools.product(range(heads - 1), "kv"):
        tiles = range(each * head, each * (head + 1))
        asked = [line for tile in tiles for line in fetched[name, tile]]
        wanted = lines_of(range(head + 1, head + 2), range(rows), (heads, rows, size), False)
        assert wanted <= set(asked)
        assert len(asked) < 2 * len(wanted)
    for _, call in prefetches(emit_plan(plan, func).body, {}):
        (load,) = call.args[1].args
        assert int(call.args[2]) == (load.source.name.rstrip("_") == "out")


def test_a_result_that_is_stored_past_the_caches_is_not_asked_for():
    func = weighted(24, 48, 32)
    for l3_bytes, streamed in ((1 << 20, []), (144 << 10, ["out"])):
        device = replace(DEVICE, l3_bytes=l3_bytes)
        plan = planned(func, device)
        assert [t.name for t in plan.streamed] == streamed
        written = write_allocated(plan.space.kernel, plan.streamed, device)
        assert len(written) == 1 - len(streamed)


def test_results_of_a_few_steps_are_not_asked_for():
    """48 positions are summed by a register tile of 24 lines or so."""
    func = weighted(24, 48, 32)
    plan = planned(func)
    assert write_allocated(plan.space.kernel, plan.streamed, DEVICE)
    assert {name for name, _ in lines_fetched(plan, func)} == set("qkv")


def test_of_what_does_not_fit_the_smaller_parts_are_asked_for():
    """Rows of 70 x 64 elements do fit, keys and values of 448 x 64 do not."""
    func = weighted(8, 448, 64, turned=False)
    plan = planned(func, replace(DEVICE, l2_bytes=1 << 18))
    (ahead,) = (g.next_tile for g in plan.phases[0].groups if g.next_tile)
    assert [each.access.tensor.name for each in ahead] == ["q", "out"]


def test_nothing_is_fetched_that_is_in_the_cache():
    func = weighted(24, 48, 32)
    assert not lines_fetched(planned(func, replace(DEVICE, l2_bytes=1 << 20)), func)


def test_a_product_of_a_part_of_its_depth_fetches_nothing():
    """The loop over the steps would be as long as the whole depth."""
    (phase,) = planned(weighted(24, 48, 32)).phases
    (group,) = (g for g in phase.groups if g is sweeper(phase))
    assert sweeper(replace(phase, chunks={group.dims[-2]: 16})) is None


def test_a_nest_without_loops_fetches_nothing():
    """The index of a tile's row is such a nest, and the indices are more than a cache holds."""
    g = sc.zoo.graph.Graph("looked_up")
    ids = g.input("ids", (1 << 22, 3), "int64")
    rows = g.op("Gather", g.weight("table", (5, 8)), ids)
    y = g.op("LayerNormalization", rows, g.weight("s", (8,)), g.weight("b", (8,)))
    g.output(y, "y", (1 << 22, 3, 8))
    assert tvm_stitch.explain(g.model()).kernels == 1


@pytest.mark.parametrize("rows", [5, 14])
def test_few_rows_ask_for_the_next_panel_in_all_of_their_steps(rows):
    """A panel has more lines than the product has steps: they are no burst before its first."""
    panels, depth, lanes = 8, 768, 48
    x = te.placeholder((rows, depth), "float32", "x")
    w = te.placeholder((panels, depth, lanes), "float32", "w")
    d = te.reduce_axis((0, depth), "d")
    out = te.compute(
        (rows, panels * lanes),
        lambda i, j: te.sum(x[i, d] * w[j // lanes, d, j % lanes], d),
        "out",
    )
    func = te.create_prim_func([x, w, out])
    plan = planned(func, replace(DEVICE, l2_bytes=1 << 20))
    lines = depth * lanes // LINE
    for (name, tile), fetched in lines_fetched(plan, func).items():
        assert name == "w"
        assert set(range(lines * (tile + 1), lines * (tile + 2))) <= set(fetched)
        assert len(fetched) < 1.5 * lines
    assert str(emit_plan(plan, func)).count("llvm.prefetch") < 16

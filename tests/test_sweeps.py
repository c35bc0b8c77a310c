"""A tile's inputs and results are fetched by the last product before it, each line about once."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import stitch_case as sc
from stitch_tir import ARITHMETIC, statements
from tvm import ir, s_tir, te, tirx

import tvm_stitch
from tir_schedules.cpu.cost.beyond_cache import write_allocated
from tir_schedules.cpu.facts.next_tile import sweeper
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = replace(sc.device(2), vector_bytes=64, l2_bytes=128 << 10)
LINE = 16  # elements
INTO_L2 = 2  # of llvm.prefetch


def weighted(
    heads: int, rows: int, size: int, inside: bool = False, turned: bool = True
) -> tirx.PrimFunc:
    """Return sum_j exp(q[i] . k[j]) v[j] of each head; heads stand `inside` the rows or outside.

    Keys are `turned` here, or come so.
    """
    shape = (rows, heads, size) if inside else (heads, rows, size)
    q, k, v = (te.placeholder(shape, "float32", name) for name in "qkv")

    def at(x: te.Tensor, h: tirx.Var, i: tirx.Var, d: tirx.Var) -> tirx.Expr:
        return x[i, h, d] if inside else x[h, i, d]

    d, n = te.reduce_axis((0, size), "d"), te.reduce_axis((0, rows), "n")
    keys = te.placeholder((heads, size, rows), "float32", "k")
    if turned:
        keys = te.compute((heads, size, rows), lambda h, e, j: at(k, h, j, e), "turned")
    scores = te.compute(
        (heads, rows, rows), lambda h, i, j: te.sum(at(q, h, i, d) * keys[h, d, j], d), "scores"
    )
    power = te.compute(scores.shape, lambda h, i, j: te.exp(scores[h, i, j]), "power")
    out = te.compute(
        (heads, rows, size), lambda h, i, e: te.sum(power[h, i, n] * at(v, h, n, e), n), "out"
    )
    return te.create_prim_func([q, k if turned else keys, v, out])


def planned(func: tirx.PrimFunc, device=DEVICE) -> Plan:
    plan = plan_prim_func(func, device)
    assert isinstance(plan, Plan), plan
    assert len(plan.phases) == 1
    return plan


def lines_fetched(plan: Plan, func: tirx.PrimFunc) -> dict[tuple[str, int], list[int]]:
    """Return which lines of an input each tile asks for, by the input's name and the tile."""
    out: dict[tuple[str, int], list[int]] = defaultdict(list)
    tiles = [plan.phases[0].outer_extent(a) for a in plan.phases[0].tile]
    for env, call in _prefetches(emit_plan(plan, func).body, {}):
        (load,) = call.args[1].args
        digits = [env[a.name] for a in plan.phases[0].tile]
        tile = int(np.ravel_multi_index(digits, tiles))
        out[load.source.name.rstrip("_"), tile].append(_value(load.indices[0], env) // LINE)
    return out


def _prefetches(stmt: tirx.Stmt, env: dict[str, int]) -> Iterator[tuple[dict[str, int], tirx.Call]]:
    """Run the loops around prefetches into L2: yield each with the values of the variables."""
    if isinstance(stmt, tirx.SeqStmt):
        for each in stmt.seq:
            if isinstance(each, tirx.Bind):
                env = env | {each.var.name: _value(each.value, env)}
            yield from _prefetches(each, env)
    elif isinstance(stmt, tirx.For):
        if _fetches(stmt):
            for value in range(_value(stmt.extent, env)):
                yield from _prefetches(stmt.body, env | {stmt.loop_var.name: value})
    elif isinstance(stmt, tirx.IfThenElse):
        if _value(stmt.condition, env):
            yield from _prefetches(stmt.then_case, env)
    elif isinstance(stmt, s_tir.SBlockRealize):
        yield from _prefetches(stmt.block.body, env)
    elif _is_call(stmt) and _fetches(stmt) and int(stmt.value.args[3]) == INTO_L2:
        yield env, stmt.value


@functools.cache
def _fetches(stmt: tirx.Stmt) -> bool:
    """Return whether there is a prefetch in a statement, printed once for all turns of its loop."""
    return any("llvm.prefetch" in str(s) for s, _ in statements(stmt) if _is_call(s))


def _is_call(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.Evaluate)


def _value(expr: ir.Expr, env: dict[str, int]) -> int:
    if isinstance(expr, tirx.IntImm):
        return int(expr)
    if isinstance(expr, ir.Var):
        return env[expr.name]
    return ARITHMETIC[type(expr).__name__](_value(expr.a, env), _value(expr.b, env))


def lines_of(heads: range, rows: range, shape: tuple[int, ...], inside: bool) -> set[int]:
    """Return the lines of some rows of some heads, of an input of `shape`."""
    place = np.arange(np.prod(shape)).reshape(shape)
    part = place[np.ix_(rows, heads)] if inside else place[np.ix_(heads, rows)]
    return set(part.ravel() // LINE)


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
    for _, call in _prefetches(emit_plan(plan, func).body, {}):
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

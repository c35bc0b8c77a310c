"""Attention of many heads, and the lines that its tiles fetch."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tvm import ir, s_tir, te, tirx

from support.kernels import stitch_case as sc
from support.kernels.tir import ARITHMETIC, statements
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
    for env, call in prefetches(emit_plan(plan, func).body, {}):
        (load,) = call.args[1].args
        digits = [env[a.name] for a in plan.phases[0].tile]
        tile = int(np.ravel_multi_index(digits, tiles))
        out[load.source.name.rstrip("_"), tile].append(_value(load.indices[0], env) // LINE)
    return out


def prefetches(stmt: tirx.Stmt, env: dict[str, int]) -> Iterator[tuple[dict[str, int], tirx.Call]]:
    """Run the loops around prefetches into L2: yield each with the values of the variables."""
    if isinstance(stmt, tirx.SeqStmt):
        for each in stmt.seq:
            if isinstance(each, tirx.Bind):
                env = env | {each.var.name: _value(each.value, env)}
            yield from prefetches(each, env)
    elif isinstance(stmt, tirx.For):
        if _fetches(stmt):
            for value in range(_value(stmt.extent, env)):
                yield from prefetches(stmt.body, env | {stmt.loop_var.name: value})
    elif isinstance(stmt, tirx.IfThenElse):
        if _value(stmt.condition, env):
            yield from prefetches(stmt.then_case, env)
    elif isinstance(stmt, s_tir.SBlockRealize):
        yield from prefetches(stmt.block.body, env)
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

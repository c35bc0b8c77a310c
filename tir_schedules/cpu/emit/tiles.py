"""Emit the loops over tasks and tiles that stand around everything else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm import ir, tirx

from ...analysis.iteration_space import Atom
from ...tensor_ir.numbers import INDEX
from ..plan.kernel_plan import Plan
from .access.streamed_stores import fence
from .nest import sequence


def over_tiles(
    tiles: int, tile: ir.Var, buffers: Sequence[tirx.Stmt], body: tirx.Stmt, plan: Plan
) -> tirx.Stmt:
    """Emit `for task in parallel: buffers; for tile in task: body`, `tile` being its number."""
    per_task = -(-tiles // max(1, min(tiles, plan.tasks)))
    tasks = -(-tiles // per_task)
    if per_task == 1:
        task = tile
    else:
        task, row = tirx.Var("task", INDEX), tirx.Var("row", INDEX)
        number = task * per_task + row
        rows: ir.Expr = tirx.IntImm(INDEX, per_task)
        if tiles % per_task:
            rows = tirx.Min(rows, tirx.IntImm(INDEX, tiles) - task * per_task)
        if tasks == 1:
            number, rows = row, tirx.IntImm(INDEX, tiles)
        inner = sequence([tirx.Bind(tile, number), body])
        body = tirx.For(row, 0, rows, tirx.ForKind.SERIAL, inner)
    body = sequence([*buffers, body])
    if plan.streamed:
        body = sequence([body, fence()])
    if tasks == 1 and per_task == 1:
        body = sequence([tirx.Bind(task, tirx.IntImm(INDEX, 0)), body])
    return tasks_loop(task, tasks, body, plan)


def tile_position(
    tile: ir.Var, extents: Mapping[Atom, int]
) -> tuple[list[tirx.Stmt], dict[Atom, ir.Expr]]:
    """Return what binds the digits of a tile's number, and these, the first atom the outermost."""
    outer: dict[Atom, ir.Expr] = {}
    binds: list[tirx.Stmt] = []
    rest = whole = math.prod(extents.values())
    for atom, extent in extents.items():
        rest //= extent
        value: ir.Expr = tile
        if rest > 1:
            value = tirx.FloorDiv(value, tirx.IntImm(INDEX, rest))
        if extent * rest < whole:
            value = tirx.FloorMod(value, tirx.IntImm(INDEX, extent))
        var = tirx.Var(atom.name, INDEX)
        binds.append(tirx.Bind(var, value))
        outer[atom] = var
    return binds, outer


def tasks_loop(task: ir.Var, tasks: int, body: tirx.Stmt, plan: Plan) -> tirx.Stmt:
    """Run tasks in parallel; a single one stands alone, or on one thread of a shared region.

    TVM drops loops of extent 1, and what stands free in a region runs on every thread.
    """
    if tasks == 1:
        if not plan.parallel or len(plan.phases) == 1:
            return body
        lone = tirx.Var("lone", INDEX)
        guarded = tirx.IfThenElse(tirx.EQ(lone, tirx.IntImm(INDEX, 0)), body, None)
        return tirx.For(lone, 0, 2, tirx.ForKind.PARALLEL, guarded)
    kind = tirx.ForKind.PARALLEL if plan.parallel else tirx.ForKind.SERIAL
    return tirx.For(task, 0, tasks, kind, body)

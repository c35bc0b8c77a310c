"""Assemble a PrimFunc from a plan: parameters, tasks, tiles, phases."""

from __future__ import annotations

import math

from tvm import ir, s_tir, tirx

from ..analysis.atoms import Atom
from .emit_combine import emit_combine
from .emit_expr import INDEX
from .emit_nest import NestEmitter
from .nest import Nest, sequence
from .plan import Phase, Plan
from .storage import Storage
from .streaming import fence, import_code


def emit_prim_func(plan: Plan, attrs: dict[str, object]) -> tirx.PrimFunc:
    """Return the kernel as a scheduled PrimFunc with the parameters of the plan's kernel.

    Parameters are read and written through flat views whose alignment is one element: callers pass
    NumPy memory, which is not aligned to vectors.
    """
    storage = Storage(plan)
    params = [storage.parameter(p) for p in plan.space.kernel.params]
    phases = [_PhaseEmitter(plan, phase, storage).emit() for phase in plan.phases]
    body: list[tirx.Stmt] = [*storage.declarations(), *phases]
    if len(plan.phases) > 1 and plan.parallel:
        body = [*storage.declarations(), _one_region(phases, plan)]
    whole = sequence(body)
    if plan.streamed:
        whole = import_code(whole, plan.streamed, plan.vector_bytes)
    root = s_tir.SBlock([], [], [], "root", whole)
    func = tirx.PrimFunc(params, s_tir.SBlockRealize([], tirx.IntImm("bool", 1), root))
    return func.with_attr({**attrs, "s_tir": True, "tirx.noalias": True})


def _one_region(phases: list[tirx.Stmt], plan: Plan) -> tirx.Stmt:
    """Run all phases in one parallel region, with barriers if one needs another."""
    marked = phases
    if plan.barriers:
        marked = [
            tirx.AttrStmt(tirx.IntImm(INDEX, 1), "pragma_parallel_barrier_when_finish", 1, p)
            for p in phases
        ]
    return tirx.AttrStmt(
        tirx.IntImm(INDEX, 1), "pragma_parallel_launch_point", 1, tirx.SeqStmt(marked)
    )


class _PhaseEmitter:
    def __init__(self, plan: Plan, phase: Phase, storage: Storage) -> None:
        self._plan, self._phase, self._storage = plan, phase, storage

    def emit(self) -> tirx.Stmt:
        """Emit `for task in parallel: buffers; for tile in task: nests`."""
        phase, plan = self._phase, self._plan
        if phase.combine:
            return self._combine()
        tiles = phase.tiles()
        per_task = -(-tiles // max(1, min(tiles, plan.tasks)))
        task, row = tirx.Var("task", INDEX), tirx.Var("row", INDEX)
        tile = task if per_task == 1 else tirx.Var("tile", INDEX)
        registers = phase.registers(plan.space)
        buffers = self._storage.open_tile(phase, registers)
        body = self._tile(tile, registers)
        tasks = -(-tiles // per_task)
        if per_task > 1:
            number = task * per_task + row
            rows: ir.Expr = tirx.IntImm(INDEX, per_task)
            if tiles % per_task:
                rows = tirx.Min(rows, tirx.IntImm(INDEX, tiles) - task * per_task)
            if tasks == 1:
                number, rows = row, tirx.IntImm(INDEX, tiles)
            body = tirx.For(
                row, 0, rows, tirx.ForKind.SERIAL, sequence([tirx.Bind(tile, number), body])
            )
        body = sequence([*buffers, body])
        if plan.streamed:
            body = sequence([body, fence()])
        if tasks == 1 and per_task == 1:
            body = sequence([tirx.Bind(task, _zero()), body])
        return tasks_loop(task, tasks, body, plan)

    def _tile(self, tile: ir.Var, registers: set[int]) -> tirx.Stmt:
        phase = self._phase
        outer: dict[Atom, ir.Expr] = {}
        binds: list[tirx.Stmt] = []
        rest = math.prod(phase.outer_extent(a) for a in phase.tile)
        total = rest
        for atom in phase.tile:
            extent = phase.outer_extent(atom)
            rest //= extent
            value: ir.Expr = tile
            if rest > 1:
                value = tirx.FloorDiv(value, tirx.IntImm(INDEX, rest))
            if extent * rest < total:
                value = tirx.FloorMod(value, tirx.IntImm(INDEX, extent))
            var = tirx.Var(atom.name, INDEX)
            binds.append(tirx.Bind(var, value))
            outer[atom] = var
        nests = []
        for group in phase.groups:
            nest = Nest(self._plan.space, phase, group, self._storage, outer)
            nests.append(NestEmitter(nest, registers).emit())
        return sequence([*binds, *nests])

    def _combine(self) -> tirx.Stmt:
        nests = [emit_combine(g, self._storage) for g in self._phase.groups]
        return tasks_loop(tirx.Var("task", INDEX), 1, sequence(nests), self._plan)


def tasks_loop(task: ir.Var, tasks: int, body: tirx.Stmt, plan: Plan) -> tirx.Stmt:
    """Run tasks in parallel; a single one stands alone, or on one thread of a shared region.

    TVM drops loops of extent 1, and what stands free in a region runs on every thread.
    """
    if tasks == 1:
        if not plan.parallel or len(plan.phases) == 1:
            return body
        lone = tirx.Var("lone", INDEX)
        guarded = tirx.IfThenElse(tirx.EQ(lone, _zero()), body, None)
        return tirx.For(lone, 0, 2, tirx.ForKind.PARALLEL, guarded)
    kind = tirx.ForKind.PARALLEL if plan.parallel else tirx.ForKind.SERIAL
    return tirx.For(task, 0, tasks, kind, body)


def _zero() -> tirx.IntImm:
    return tirx.IntImm(INDEX, 0)

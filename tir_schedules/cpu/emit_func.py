"""Assemble a PrimFunc from a plan: parameters, tasks, tiles, phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, s_tir, tirx

from ..analysis.atoms import Atom
from ..analysis.expr import Tensor
from .emit_combine import emit_combine
from .emit_expr import INDEX
from .emit_nest import NestEmitter
from .emit_online import emit_online
from .emit_tiles import over_tiles, tasks_loop, tile_position
from .nest import Nest, sequence
from .plan import LoopGroup, Phase, Plan
from .storage import Storage
from .streaming import import_code


def emit_prim_func(
    plan: Plan, attrs: dict[str, object], over: Mapping[int, Tensor]
) -> tirx.PrimFunc:
    """Return the kernel as a scheduled PrimFunc with the parameters of the plan's kernel.

    Results, by their ids, are written `over` others, and are no parameters then.

    Parameters are read and written through flat views whose alignment is one element: callers pass
    NumPy memory, which is not aligned to vectors.
    """
    storage = Storage(plan)
    params = [storage.parameter(p) for p in plan.space.kernel.params if id(p) not in over]
    for tensor in plan.space.kernel.outputs:
        if id(tensor) in over:
            storage.share(tensor, over[id(tensor)])
    phases = [_PhaseEmitter(plan, phase, storage).emit() for phase in plan.phases]
    if plan.online is not None:
        phases = [emit_online(plan, storage)]
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
        phase = self._phase
        if phase.combine:
            return self._combine()
        tile, registers = tirx.Var("tile", INDEX), phase.registers(self._plan.space)
        buffers = self._storage.open_tile(phase)
        body = self._tile(tile, registers)
        return over_tiles(phase.tiles(), tile, buffers, body, self._plan)

    def _tile(self, tile: ir.Var, registers: set[int]) -> tirx.Stmt:
        phase = self._phase
        extents = {a: phase.outer_extent(a) for a in phase.numbering()}
        binds, outer = tile_position(tile, extents)
        once = phase.once()
        nests = self._nests(once, outer, registers)
        rest = [g for g in phase.groups if g not in once]
        if phase.walked is None:
            return sequence([*binds, *nests, *self._nests(rest, outer, registers)])
        at = tirx.Var(phase.walked.name, INDEX)
        inner = self._nests(rest, outer | {phase.walked: at}, registers)
        extent = phase.outer_extent(phase.walked)
        walk = tirx.For(at, 0, extent, tirx.ForKind.SERIAL, sequence(inner))
        return sequence([*binds, *nests, walk])

    def _nests(
        self, groups: Sequence[LoopGroup], outer: dict[Atom, ir.Expr], registers: set[int]
    ) -> list[tirx.Stmt]:
        made = (Nest(self._plan.space, self._phase, g, self._storage, outer) for g in groups)
        return [NestEmitter(nest, registers).emit() for nest in made]

    def _combine(self) -> tirx.Stmt:
        nests = [emit_combine(g, self._storage) for g in self._phase.groups]
        return tasks_loop(tirx.Var("task", INDEX), 1, sequence(nests), self._plan)

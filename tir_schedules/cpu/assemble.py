"""Assemble a PrimFunc from a plan: parameters, tasks, tiles, phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, s_tir, tirx

from ..analysis.iteration_space import Atom
from ..kernel_ir.expr import Tensor
from ..tensor_ir.numbers import INDEX
from .emit.access.compiler_fence import compiler_fence
from .emit.access.storage import Storage
from .emit.access.streamed_stores import import_code
from .emit.attention.streaming import emit_streaming
from .emit.cross_tile_reduce import emit_combine
from .emit.loop_nest import NestEmitter
from .emit.nest import Nest, sequence
from .emit.tiles import over_tiles, tasks_loop, tile_position
from .plan.kernel_plan import Guard, LoopNest, Phase, Plan


def emit_prim_func(
    plan: Plan, attrs: dict[str, object], over: Mapping[Tensor, Tensor]
) -> tirx.PrimFunc:
    """Return the kernel as a scheduled PrimFunc with the parameters of the plan's kernel.

    Results are written `over` others, and are no parameters then.

    Parameters are read and written through flat views whose alignment is one element: callers pass
    NumPy memory, which is not aligned to vectors.
    """
    storage = Storage(plan)
    params = [storage.parameter(p) for p in plan.space.kernel.params if p not in over]
    for tensor in plan.space.kernel.outputs:
        if tensor in over:
            storage.share(tensor, over[tensor])
    whole = sequence([*storage.declarations(), *_guarded(plan, plan.guards, storage)])
    streamed = dict.fromkeys(t for way in _ways(plan) for t in way.streamed)
    if streamed:
        whole = import_code(whole, tuple(streamed), plan.vector_bytes)
    root = s_tir.SBlock([], [], [], "root", whole)
    func = tirx.PrimFunc(params, s_tir.SBlockRealize([], tirx.IntImm("bool", 1), root))
    return func.with_attr({**attrs, "s_tir": True, "tirx.noalias": True})


def _ways(plan: Plan) -> list[Plan]:
    """Return a plan, its checks and what stands behind them."""
    inside = (each for g in plan.guards for each in (g.check, g.other) if each is not None)
    return [plan, *(way for each in inside for way in _ways(each))]


def _guarded(plan: Plan, guards: Sequence[Guard], storage: Storage) -> list[tirx.Stmt]:
    """Emit `check; if made == 0: usual else: other` for each guard, one in the other."""
    if not guards:
        return _phases(plan, storage)
    guard, *rest = guards
    checked = storage.another(guard.check)
    made = tirx.BufferLoad(checked.lodge(guard.made), [tirx.IntImm(INDEX, 0)])
    check = [*checked.declarations(), *_phases(guard.check, checked)]
    elsewhere = storage.another(guard.other)
    other = _guarded(guard.other, guard.other.guards, elsewhere)
    usual = sequence(_guarded(plan, rest, storage))
    apart = sequence([*elsewhere.declarations(), *other])
    holds = tirx.EQ(made, tirx.const(0, guard.made.dtype))
    return [*check, tirx.IfThenElse(holds, usual, apart)]


def _phases(plan: Plan, storage: Storage) -> list[tirx.Stmt]:
    """Emit what a plan does, in one parallel region if it is parallel."""
    if plan.streaming is not None:
        return [emit_streaming(plan, storage)]
    phases = [_PhaseEmitter(plan, phase, storage).emit() for phase in plan.phases]
    return [_one_region(phases, plan)] if len(phases) > 1 and plan.parallel else phases


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

    def _tile(self, tile: ir.Var, registers: set[Tensor]) -> tirx.Stmt:
        phase = self._phase
        extents = {a: phase.outer_extent(a) for a in phase.numbering()}
        binds, outer = tile_position(tile, extents)
        once = phase.once()
        nests = self._nests(once, outer, registers)
        rest = [g for g in phase.groups if g not in once]
        if phase.serial_tile_axis is None:
            return sequence([*binds, *nests, *self._nests(rest, outer, registers)])
        at = tirx.Var(phase.serial_tile_axis.name, INDEX)
        inner = self._nests(rest, outer | {phase.serial_tile_axis: at}, registers)
        extent = phase.outer_extent(phase.serial_tile_axis)
        walk = tirx.For(at, 0, extent, tirx.ForKind.SERIAL, sequence(inner))
        return sequence([*binds, *nests, walk])

    def _nests(
        self, groups: Sequence[LoopNest], outer: dict[Atom, ir.Expr], registers: set[Tensor]
    ) -> list[tirx.Stmt]:
        out: list[tirx.Stmt] = []
        for group in groups:
            nest = Nest(self._plan.space, self._phase, group, self._storage, outer)
            out.append(NestEmitter(nest, registers).emit())
            if any(group is other for other in self._phase.products()[:-1]):
                out += compiler_fence(self._storage.tiles_of(group))
        return out

    def _combine(self) -> tirx.Stmt:
        nests = [emit_combine(g, self._storage) for g in self._phase.groups]
        return tasks_loop(tirx.Var("task", INDEX), 1, sequence(nests), self._plan)

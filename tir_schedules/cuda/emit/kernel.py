"""Assemble a PrimFunc from a plan: a grid of blocks for each launch, in it the nests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from tvm import ir, s_tir, tirx

from ...kernel_ir.expr import Tensor
from ...tensor_ir.numbers import INDEX
from ..plan.axes import Axis
from ..plan.fragments import fragments_of
from ..plan.kernel_plan import Phase, Plan
from ..plan.nest import HeldKey, Nest
from .code import barrier, bound, guarded, number, sequence
from .combine import combine
from .fragments import FragmentEmitter
from .nest import NestEmitter
from .point import Point
from .stage import stage
from .storage import BlockMemory, Parameters, Storage
from .tiles import AheadEmitter, TileEmitter


def emit_prim_func(
    plan: Plan, attrs: dict[str, object], over: Mapping[Tensor, Tensor]
) -> tirx.PrimFunc:
    """Return the kernel as a scheduled PrimFunc with the parameters of the plan's kernel.

    Results are written `over` others, and are no parameters then.
    """
    parameters = Parameters(plan.space.kernel.params, over)
    between = [parameters.keep(tensor) for tensor in plan.workspace]
    launches = [_launch(phases, parameters) for phases in plan.launches()]
    whole = sequence([*parameters.declared, *between, *launches])
    root = s_tir.SBlock([], [], [], "root", whole)
    realize = s_tir.SBlockRealize([], tirx.IntImm("bool", 1), root)
    func = tirx.PrimFunc(parameters.buffers, realize)
    return func.with_attr({**attrs, "s_tir": True, "tirx.noalias": True})


def _launch(phases: Sequence[Phase], parameters: Parameters) -> tirx.Stmt:
    """Return a grid whose blocks are those of one phase after the other."""
    block, thread = tirx.Var("block", INDEX), tirx.Var("thread", INDEX)
    memory, parts, first = BlockMemory(phases), [], 0
    for phase in phases:
        number = block if first == 0 else block - tirx.IntImm(INDEX, first)
        storage = Storage(phase, parameters, memory)
        body = _Body(phase, storage, _numbers(number, phase), thread).emit()
        parts.append(_in_blocks(block, first, phase, sequence([*storage.declared, *body])))
        first += phase.blocks
    body = parts if len(parts) > 1 else [parts[0].body]
    threads = bound(thread, phases[0].threads, "threadIdx.x", sequence([*memory.declared, *body]))
    return bound(block, first, "blockIdx.x", threads)


def _in_blocks(block: ir.Var, first: int, phase: Phase, body: tirx.Stmt) -> tirx.Stmt:
    """Return what the blocks of a phase do, and others do not: a loop of one trip, or of none.

    No condition: where TVM gives two arrays one memory it puts barriers between them, which it
    refuses to do within one.
    """
    number = block - tirx.IntImm(INDEX, first)
    inside = tirx.And(number >= tirx.IntImm(INDEX, 0), number < tirx.IntImm(INDEX, phase.blocks))
    trips = tirx.Cast(INDEX, inside)
    return tirx.For(tirx.Var("once", INDEX), 0, trips, tirx.ForKind.SERIAL, body)


class _Body:
    """What a thread does: nests in order, those in steps in a loop, barriers between them."""

    def __init__(
        self, phase: Phase, storage: Storage, blocks: dict[Axis, ir.Expr], thread: ir.Var
    ) -> None:
        self._phase, self._storage, self._blocks = phase, storage, blocks
        self._thread = thread
        self._held: set[HeldKey] = set()
        self._unread: set[Tensor] = set()  # written to shared memory since the last barrier
        for axis in (axis for axis in phase.axes if axis.serial):
            blocks[axis] = tirx.Var("step", INDEX)

    def emit(self) -> list[tirx.Stmt]:
        out: list[tirx.Stmt] = []
        nests = list(self._phase.nests)
        while nests:
            axis = self._phase.serial_axis(nests[0])
            if axis is not None:
                looped = list(itertools.takewhile(self._goes_along(axis), nests))
                out += self._steps(looped, axis)
                nests = nests[len(looped) :]
                continue
            nest = nests.pop(0)
            emitter = self._emitter(nest)
            out += [*self._ahead(nest), *emitter.start(), *emitter.body(self._held)]
            out += self._close(nest, emitter)
        return out

    def _goes_along(self, axis: Axis) -> Callable[[Nest], bool]:
        return lambda nest: self._phase.serial_axis(nest) is axis

    def _steps(self, nests: list[Nest], axis: Axis) -> list[tirx.Stmt]:
        """Emit a loop of steps; sums over it begin before, and are whole behind it."""
        at = self._blocks[axis]
        emitters = [(nest, self._emitter(nest)) for nest in nests if nest.warps is None]
        before, body, behind = [], [], []
        ahead = [n for n in nests if self._phase.ahead and self._phase.fills_tiles(n)]
        for nest in ahead:
            before += self._ahead(nest)
        before += self._in_registers(ahead, axis, number(0))
        for nest, emitter in emitters:
            whole = any(self._phase.is_whole_behind(node) for node in nest.nodes)
            (before if whole else body).extend(emitter.start())
            body += self._ahead(nest)
            body += emitter.spill() if nest in ahead else emitter.body(self._held)
            (behind if whole else body).extend(self._close(nest, emitter))
            if ahead and nest is ahead[-1]:
                following = at + number(1)
                inside = following < number(axis.pieces)
                body += guarded(inside, self._in_registers(ahead, axis, following))
        for nest in (nest for nest in nests if nest.warps is not None):
            made = fragments_of(nest, self._phase)
            fragments = FragmentEmitter(made, self._phase, self._storage, self._thread)
            before += fragments.start()
            body += [barrier(), *fragments.body()]
            behind += fragments.store()
        body.append(barrier())  # the next step writes over what this one reads
        self._unread.clear()
        self._unread |= {n.stage.out for nest in nests if nest.warps for n in nest.nodes}
        loop = tirx.For(at, 0, axis.pieces, tirx.ForKind.SERIAL, sequence(body))
        return [*before, loop, *behind]

    def _in_registers(self, nests: list[Nest], axis: Axis, step: ir.Expr) -> list[tirx.Stmt]:
        """Compute the tiles of a step, and leave them in registers."""
        blocks, out = {**self._blocks, axis: step}, []
        for nest in nests:
            point = Point(self._phase, nest, blocks, self._thread)
            out += AheadEmitter(nest, self._storage, point).ahead()
        return out

    def _emitter(self, nest: Nest) -> NestEmitter:
        point = Point(self._phase, nest, self._blocks, self._thread)
        if not self._phase.fills_tiles(nest):
            return NestEmitter(nest, self._storage, point)
        kind = AheadEmitter if self._phase.ahead else TileEmitter
        return kind(nest, self._storage, point)

    def _ahead(self, nest: Nest) -> list[tirx.Stmt]:
        """Load what the nest reads through shared memory, and wait for what others write there."""
        staged = [each for each in self._phase.staged if each.node in nest.nodes]
        out = []
        for each in staged:
            out += stage(each, self._storage, self._blocks, self._thread)
        reads = (load.tensor for node in nest.nodes for load in node.reads)
        if staged or any(tensor in self._unread for tensor in reads):
            out.append(barrier())
            self._unread.clear()
        return out

    def _close(self, nest: Nest, emitter: NestEmitter) -> list[tirx.Stmt]:
        """Make the sums of a nest whole and store them."""
        self._held.update(self._storage.held)
        out = [*combine(nest, self._storage, self._thread), *emitter.finish()]
        self._unread |= {n.stage.out for n in nest.nodes if n in self._storage.shared}
        return out


def _numbers(block: ir.Expr, phase: Phase) -> dict[Axis, ir.Expr]:
    """Return the block's number along each axis; the last axis goes fastest."""
    found: dict[Axis, ir.Expr] = {}
    inner = 1
    for axis in reversed(phase.axes):
        value: ir.Expr = block
        if axis.blocks == 1:
            found[axis] = number(0)
            continue
        if inner > 1:
            value = tirx.FloorDiv(value, number(inner))
        inner *= axis.blocks
        if inner < phase.blocks:
            value = tirx.FloorMod(value, number(axis.blocks))
        found[axis] = value
    return found

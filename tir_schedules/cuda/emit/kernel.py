"""Assemble a PrimFunc from a plan: a grid of blocks for each launch, in it the nests."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, s_tir, tirx

from ...kernel_ir.expr import Tensor
from ..plan.kernel_plan import Axis, HeldKey, Phase, Plan
from .code import INDEX, barrier, bound, number, sequence
from .combine import combine
from .nest import NestEmitter
from .point import Point
from .stage import stage
from .storage import Parameters, Storage


def emit_prim_func(
    plan: Plan, attrs: dict[str, object], over: Mapping[Tensor, Tensor]
) -> tirx.PrimFunc:
    """Return the kernel as a scheduled PrimFunc with the parameters of the plan's kernel.

    Results are written `over` others, and are no parameters then.
    """
    parameters = Parameters(plan.space.kernel.params, over)
    between = [parameters.keep(tensor) for tensor in plan.workspace]
    launches = [_launch(phase, parameters) for phase in plan.phases]
    whole = sequence([*parameters.declared, *between, *launches])
    root = s_tir.SBlock([], [], [], "root", whole)
    realize = s_tir.SBlockRealize([], tirx.IntImm("bool", 1), root)
    func = tirx.PrimFunc(parameters.buffers, realize)
    return func.with_attr({**attrs, "s_tir": True, "tirx.noalias": True})


def _launch(phase: Phase, parameters: Parameters) -> tirx.Stmt:
    block, thread = tirx.Var("block", INDEX), tirx.Var("thread", INDEX)
    storage = Storage(phase, parameters)
    blocks = _numbers(block, phase)
    stmts: list[tirx.Stmt] = []
    held: set[HeldKey] = set()
    unread: set[Tensor] = set()  # written to shared memory since the last barrier
    for nest in phase.nests:
        ahead = [each for each in phase.staged if each.node in nest.nodes]
        for each in ahead:
            stmts += stage(each, storage, blocks, thread)
        if ahead or any(load.tensor in unread for node in nest.nodes for load in node.reads):
            stmts.append(barrier())
            unread.clear()
        emitter = NestEmitter(nest, storage, Point(phase, nest, blocks, thread))
        stmts += emitter.emit(held)
        held.update(storage.held)
        stmts += combine(nest, storage, thread)
        stmts += emitter.finish()
        unread |= {n.stage.out for n in nest.nodes if n in storage.shared}
    body = sequence([*storage.declared, *stmts])
    threads = bound(thread, phase.threads, "threadIdx.x", body)
    return bound(block, phase.blocks, "blockIdx.x", threads)


def _numbers(block: ir.Var, phase: Phase) -> Mapping[Axis, ir.Expr]:
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

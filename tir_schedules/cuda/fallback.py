"""Kernels that the template declines, bound to threads by TVM's own rules.

Where none of them applies, one thread runs the kernel as it came.
"""

from __future__ import annotations

import functools
import logging

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import IRModule

from ..fallback.alignment import drop_alignment
from ..fallback.bounded import bounded
from ..tensor_ir.numbers import INDEX
from .emit.code import bound

logger = logging.getLogger("tvm_stitch.schedule")


def scheduled_by_tvm(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel with its loops bound to threads of the current target, inside its buffers."""
    kept = drop_alignment(bounded(func))
    if _is_bound(kept):
        return kept
    try:
        made = _rules()(IRModule({"main": kept}))["main"]
    except s_tir.ScheduleError as refusal:
        logger.debug("no rule of dlight applies: %s", refusal)
        return _by_one_thread(kept)
    return made if _is_bound(made) else _by_one_thread(kept)


@functools.cache
def _rules() -> ir.transform.Pass:
    from tvm.s_tir import dlight

    gpu = dlight.gpu
    rules = (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())
    return dlight.ApplyDefaultSchedule(*rules)


def launches_of(func: tirx.PrimFunc) -> int:
    """Return how many kernels a scheduled PrimFunc launches."""
    return max(1, _threads(func).count("blockIdx.x"))


def _is_bound(func: tirx.PrimFunc) -> bool:
    """Return whether a kernel says itself which threads run it."""
    return bool(_threads(func))


def _threads(func: tirx.PrimFunc) -> list[str]:
    """Return the axes of blocks and threads that a kernel is bound to, each as often as it is."""
    found: list[str] = []

    def loop(node: tirx.For) -> None:
        if node.kind == tirx.ForKind.THREAD_BINDING:
            found.append(str(node.thread_binding.thread_tag))

    def attribute(node: tirx.AttrStmt) -> None:
        if node.attr_key == "thread_extent":
            found.append(str(node.node.thread_tag))

    tvm_ffi.structural_walk(func.body, [(tirx.For, loop), (tirx.AttrStmt, attribute)])
    return found


def _by_one_thread(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the kernel as the only thread of the only block runs it."""
    root = func.body.block
    thread = bound(tirx.Var("thread", INDEX), 1, "threadIdx.x", root.body)
    block = bound(tirx.Var("block", INDEX), 1, "blockIdx.x", thread)
    alone = s_tir.SBlock([], [], [], "root", block, alloc_buffers=root.alloc_buffers)
    return func.with_body(s_tir.SBlockRealize([], tirx.IntImm("bool", 1), alone))

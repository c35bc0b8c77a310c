"""Record runs of launches once and replay each by one call: TVM's RewriteCUDAGraph, where it holds.

It records what touches only memory that stays where it is: an arena of its own, kept from call to
call, and parameters behind the first `num_input`.
"""

from __future__ import annotations

import logging

import tvm
from tvm import ir, relax, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.fuel import spend

from ..graph.graph_functions import graph_functions
from .runs import inside, refuse

logger = logging.getLogger("tvm_stitch.launches")

_SWITCH = "relax.backend.use_cuda_graph"
_WITH_CONTEXT, _REPLAY = "relax.call_builtin_with_ctx", "vm.builtin.cuda_graph.run_or_capture"


def captures(mod: IRModule, ctx: PassContext) -> bool:
    """Return whether launches are replayed: where they may be, unless TVM's own switch is off.

    It is `relax.backend.use_cuda_graph` of the PassContext, on where it is not set.
    """
    if not bool(ctx.config.get(_SWITCH, True)):
        return False
    if (reason := refuse(mod)) is not None:
        logger.debug("launches are not replayed: %s", reason)
    return reason is None


@tvm.transform.module_pass(opt_level=0, name="CaptureLaunches")
class CaptureLaunches:
    """Let runs of kernels that read no input and write no result be replayed as one.

    rewrite:
        a = place(arena, 0); f(x, a); b = place(arena, n); g(a, w, b); c = place(arena, 0); h(b, c)
        r = alloc_tensor(); k(c, r)
      -> a = place(arena, 0); f(x, a)
         c = run_or_capture(graph, (a, w, arena), 0)
         r = alloc_tensor(); k(c, r)
         graph(a, w, arena): b = place(arena, n); g(a, w, b); c = place(arena, 0); h(b, c)

    Runs behind PlanMemory. A single kernel is launched as it was.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not captures(mod, ctx):
            return mod
        # TVM takes a tensor's place for a launch; what has fewer than two kernels is called as is.
        with PassContext(opt_level=ctx.opt_level, config={**ctx.config, _SWITCH: True}):
            captured = relax.transform.RewriteCUDAGraph()(mod)
        graphs = [g for _, f in graph_functions(captured) for g in map(_graph, _calls(f)) if g]
        lone = {g.name_hint for g in graphs if sum(_launches(captured[g], captured)) < 2}
        if len(lone) == len(graphs) or not spend("CaptureLaunches"):
            return mod
        direct = _Direct(captured, lone)
        for gvar, func in graph_functions(captured):
            direct.builder_.update_func(gvar, direct.visit_expr(func))
        return direct.builder_.get()


def _calls(func: relax.Function) -> list[relax.Call]:
    return inside(func.body, relax.Call)


def _graph(call: relax.Call) -> ir.GlobalVar | None:
    """Return the function that a call records and replays."""
    if getattr(call.op, "name", "") != _WITH_CONTEXT or call.args[0].global_symbol != _REPLAY:
        return None
    return call.args[1].fields[0]


def _launches(func: relax.Function, mod: IRModule) -> list[bool]:
    called = [call.op for call in _calls(func) if isinstance(call.op, ir.GlobalVar)]
    return [isinstance(mod[gvar], tirx.PrimFunc) for gvar in called]


@relax.expr_functor.mutator
class _Direct(relax.PyExprMutator):
    """Calls functions of these names where they were to be replayed."""

    def __init__(self, mod: IRModule, names: set[str]) -> None:
        super().__init__(mod)
        self._names = names

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        graph = _graph(call)
        if graph is None or graph.name_hint not in self._names:
            return super().visit_call_(call)
        arguments = call.args[1].fields[1]
        return self.visit_expr(relax.Call(graph, list(arguments.fields)))

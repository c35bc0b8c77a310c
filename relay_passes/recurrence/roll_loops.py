"""Put a kernel, or all steps, in the place of each loop that a graph has one step of."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.apply import OPAQUE_PATTERN
from tir_schedules.backend import backend, current_device
from tir_schedules.device import Device
from tir_schedules.fuel import spend
from tir_schedules.recurrence import LoopPlan, serial_steps
from tir_schedules.reference import with_reference

from ..graph.graph_functions import graph_functions
from ..policy import POLICY, LoopPolicy
from ..rewrites.legalize.named_legalize import NotLegalized
from .loops import Loop, first_loop, operands
from .step import one_step
from .unroll import unrolled

logger = logging.getLogger("tvm_stitch.loops")


@tvm.transform.module_pass(opt_level=0, name="RollLoops")
class RollLoops:
    """Run each loop as one kernel where the backend has one for it, else write all steps out.

    rewrite:
        x = each(xs); h = carry(h0); h1 = call_tir(f, (x, h, w)); last, ys = end(h1, h1)
      -> last, ys = call_tir(loop_f, (xs, h0, w))           # for t: f
    Operators are PrimFuncs here. A scheduled kernel is left alone by all passes behind this one.
    `plans` has their plans, by their names. `unrolled` says why of loops that were written out, by
    the names of their results. A loop that is too long for that is raised as a `refusal`, of which
    TVM, which calls this, makes another exception.
    """

    def __init__(self, device: Device | None = None, policy: LoopPolicy = POLICY.loops) -> None:
        self._device = device
        self._policy = policy
        self.unrolled: dict[str, str] = {}
        self.plans: dict[str, LoopPlan] = {}
        self.refusal: NotLegalized | None = None

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or current_device()
        for gvar, func in graph_functions(mod):
            graph = func
            while (found := _first(graph)) is not None:
                mod, graph = self._without(mod, gvar, graph, found, device)
        return mod

    def _without(
        self,
        mod: IRModule,
        gvar: tvm.ir.GlobalVar,
        func: relax.Function,
        loop: Loop,
        device: Device | None,
    ) -> tuple[IRModule, relax.Function]:
        name = loop.end.var.name
        kernel = _kernel(mod, loop, device)
        if isinstance(kernel, str):
            self.unrolled[name] = kernel
            logger.debug("%s: written out: %s", name, kernel)
            if loop.steps > (most := self._policy.written):
                reason = f"it has {loop.steps} steps, more than {most}, and {kernel}"
                self.refusal = NotLegalized("loop", name, reason)
                raise self.refusal
        replacer = _Replacer(mod, loop, kernel)
        body = relax.analysis.remove_all_unused(replacer.visit_expr(func))
        replacer.builder_.update_func(gvar, body)
        self.plans |= replacer.plans
        mod = replacer.builder_.get()
        return mod, mod[gvar]


def _first(func: relax.Function) -> Loop | None:
    if not isinstance(func.body, relax.SeqExpr):
        return None
    blocks = (b for b in func.body.blocks if isinstance(b, relax.DataflowBlock))
    return next((found for b in blocks if (found := first_loop(b.bindings)) is not None), None)


@dataclass(frozen=True)
class _Kernel:
    """A scheduled loop, and what it reads behind the tensors of its markers."""

    name: str
    func: tirx.PrimFunc
    fixed: tuple[relax.Expr, ...]
    plan: LoopPlan


def _kernel(mod: IRModule, loop: Loop, device: Device | None) -> _Kernel | str:
    """Return a loop as one kernel, or why it is none."""
    if device is None:
        return "the target has no backend"
    step = one_step(mod, loop, device)
    if isinstance(step, str):
        return step
    made = backend(device).recurrent(step.func, step.recurrence, device)
    if isinstance(made, str):
        return made
    if not spend("roll_loops", loop.end.var.name):
        return "no fuel is left"
    marked = made.func.with_attrs({"tirx.is_scheduled": True, "op_pattern": OPAQUE_PATTERN})
    marked = with_reference(marked, serial_steps(step.func, step.recurrence))
    return _Kernel(f"loop_{loop.steps}_{step.name}", marked, step.fixed, made.plan)


@mutator
class _Replacer(PyExprMutator):
    """Drops a loop's step, which nothing reads any more, and makes its end what it is."""

    def __init__(self, mod: IRModule, loop: Loop, kernel: _Kernel | str) -> None:
        super().__init__(mod)
        self._loop, self._kernel = loop, kernel
        self.plans: dict[str, LoopPlan] = {}
        self._dropped = {b.var for b in (*loop.each, *loop.carries, *loop.body)}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self._dropped:
            return
        if binding.var.same_as(self._loop.end.var):
            binding = relax.VarBinding(binding.var, self._whole())
        super().visit_var_binding_(binding)

    def _whole(self) -> relax.Expr:
        loop, kernel = self._loop, self._kernel
        if isinstance(kernel, str):
            return unrolled(self.builder_, loop)
        gvar = self.builder_.add_func(kernel.func, kernel.name)
        self.plans[gvar.name_hint] = kernel.plan
        first = [operands(b)[0] for b in (*loop.each, *loop.carries)]
        kinds = loop.end.var.ty
        types = list(kinds.fields) if isinstance(kinds, relax.TupleType) else kinds
        return relax.call_tir(gvar, relax.Tuple([*first, *kernel.fixed]), types)

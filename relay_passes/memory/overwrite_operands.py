"""Let kernels write results over operands that nothing reads afterwards.

The results take no memory of their own, and their lines are in a cache already when they are
written. Runs after ApplyStitchSchedules, whose plans tell which kernels may.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules import ApplyStitchSchedules
from tir_schedules.backend import Backend, Plan
from tir_schedules.fuel import spend

from ..graph.graph_functions import graph_functions
from .lifetimes import Lifetimes, kernel_calls

logger = logging.getLogger("tvm_stitch.schedule")

# The operand that each result is written over, by its place among the arguments; -1 for none.
Places = tuple[int, ...]


@tvm.transform.module_pass(opt_level=0, name="OverwriteOperands")
class OverwriteOperands:
    """Give results the memory of operands of their type that die at the call.

    rewrite:
        lv1 = call_tir(add, (lv, x), out_ty=T)                        # reads lv last
      -> lv1 = call_tir_inplace(add, (lv, x), out_ty=T, inplace_indices=[0])
         add(lv, x): writes lv

    Inputs, weights, constants, results of the function and views of them are never written.
    `originals` names, for each kernel that writes over operands, the one that it is made of.
    """

    def __init__(self, schedule: ApplyStitchSchedules) -> None:
        self._schedule = schedule
        self.originals: dict[str, str] = {}

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        if self._schedule.backend is None:
            return mod
        chooser = _Chooser(self._schedule.plans, self._schedule.backend)
        rewriter = _Rewriter(mod, self._schedule.plans, self._schedule.backend)
        for gvar, func in graph_functions(mod):
            rewriter.places = chooser.places(func)
            if rewriter.places:
                rewriter.builder_.update_func(gvar, rewriter.visit_expr(func))
        self.originals = {made.name_hint: name for (name, _), made in rewriter.kernels.items()}
        if not self.originals:
            return mod
        return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


class _Chooser:
    """Finds operands to write over; what plans allow is known by kernel and places."""

    def __init__(self, plans: Mapping[str, Plan], backend: Backend) -> None:
        self._plans, self._backend = plans, backend
        self._refusals: dict[tuple[str, int, int], str | None] = {}

    def places(self, func: relax.Function) -> dict[relax.Var, Places]:
        """Return the places of the calls in a function that write over operands."""
        lifetimes = Lifetimes(func)
        found = {b.var: self._places(b, lifetimes) for b in kernel_calls(func)}
        return {
            var: places
            for var, places in found.items()
            if max(places, default=-1) >= 0 and spend("OverwriteOperands", var.name)
        }

    def _places(self, binding: relax.VarBinding, lifetimes: Lifetimes) -> Places:
        var, (gvar, arguments) = binding.var, binding.value.args
        read = [lifetimes.made(argument) for argument in arguments.fields]
        free = [
            place
            for place, made in enumerate(read)
            if made is not None and read.count(made) == 1 and lifetimes.dies_at(made, var)
        ]
        places: list[int] = []
        for number, made in enumerate(lifetimes.results(var)):
            fits = (p for p in free if made is not None and self._allows(gvar.name_hint, p, number))
            place = next(fits, -1)
            places.append(place)
            if place >= 0:
                free.remove(place)
        return tuple(places)

    def _allows(self, name: str, place: int, number: int) -> bool:
        if (name, place, number) not in self._refusals:
            self._refusals[name, place, number] = reason = self._refuse(name, place, number)
            if reason is not None:
                logger.debug("%s: result %d not over operand %d: %s", name, number, place, reason)
        return self._refusals[name, place, number] is None

    def _refuse(self, name: str, place: int, number: int) -> str | None:
        if name not in self._plans:
            return "it is not of a template"
        plan = self._plans[name]
        params, results = plan.kernel.params, len(plan.kernel.outputs)
        result = params[len(params) - results + number]
        return self._backend.refuse_overwrite(plan, params[place], result)


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    """Rewrites calls that have `places`; `kernels` are the functions made for them."""

    def __init__(self, mod: IRModule, plans: Mapping[str, Plan], backend: Backend) -> None:
        super().__init__(mod)
        self._mod, self._plans, self._backend = mod, plans, backend
        self.places: dict[relax.Var, Places] = {}
        self.kernels: dict[tuple[str, Places], ir.GlobalVar] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self.places:
            places, call = self.places[binding.var], binding.value
            kernel = self._kernel(call.args[0], places)
            kind = call.ty_args[0]
            kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
            call = relax.op.call_tir_inplace(kernel, call.args[1], list(places), kinds)
            binding = relax.VarBinding(binding.var, call)
        super().visit_var_binding_(binding)

    def _kernel(self, gvar: ir.GlobalVar, places: Places) -> ir.GlobalVar:
        key = (gvar.name_hint, places)
        if key not in self.kernels:
            plan, func = self._plans[gvar.name_hint], self._mod[gvar]
            params = plan.kernel.params
            results = params[len(params) - len(places) :]
            over = {t: params[p] for t, p in zip(results, places, strict=True) if p >= 0}
            made = self._backend.emit(plan, func, over).with_attr("tirx.is_scheduled", True)
            self.kernels[key] = self.builder_.add_func(made, f"{gvar.name_hint}_in_place")
        return self.kernels[key]

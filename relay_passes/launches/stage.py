"""Copy inputs that kernels read late, and results that they make early, from and to one place.

A kernel that reads an input or writes a result is launched by itself, and parts those before it
from those behind: a mask that each layer reads leaves a run of launches between two layers.
"""

from __future__ import annotations

import tvm
from tvm import relax, te, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.backend import backend
from tir_schedules.device import Device
from tir_schedules.fuel import spend

from ..graph.graph_functions import graph_functions
from .capture import captures
from .runs import Moving, Runs


@tvm.transform.module_pass(opt_level=0, name="StageTensors")
class StageTensors:
    """Let kernels read copies of inputs and make results of copies, where that saves launches.

    rewrite:
        main(x, mask): a = f(x); b = g(a, mask); c = h(b); d = g(c, mask); return k(d)
      -> main(x, mask):
             m = copy(mask); a = f(x); b = g(a, m); c = h(b); d = g(c, m); return k(d)

    Runs in front of ApplyStitchSchedules, which schedules the copies.
    """

    def __init__(self, device: Device) -> None:
        self._device = device

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not captures(mod, ctx):
            return mod
        for gvar, func in graph_functions(mod):
            chosen = [m for m in self._chosen(func) if spend("StageTensors", m.leaf.name)]
            if chosen:
                stager = _Stager(mod, func, chosen)
                stager.builder_.update_func(gvar, stager.visit_expr(func))
                mod = stager.builder_.get()
        return mod

    def _chosen(self, func: relax.Function) -> list[Moving]:
        """Return what is copied: of all, those are left out that cost more than they save."""
        runs = Runs(func)
        chosen = sorted([*runs.inputs, *runs.results], key=lambda m: -m.bytes)
        costs = backend(self._device).costs
        launch_ns = costs.kernel_ns(0, 0, self._device)

        def total_ns(staged: list[Moving]) -> float:
            moved = [2 * m.bytes for m in staged]
            copies = (costs.kernel_ns(0, n * costs.read_ns(n, self._device), self._device)
                      for n in moved)  # fmt: skip
            return runs.launches({m.root for m in staged}) * launch_ns + sum(copies)

        while True:
            fewer = [[m for m in chosen if m is not out] for out in chosen]
            best = min(fewer, key=total_ns, default=None)
            if best is None or total_ns(best) > total_ns(chosen):
                return chosen
            chosen = best


@relax.expr_functor.mutator
class _Stager(relax.PyExprMutator):
    """Copies inputs before the first binding, results behind the last."""

    def __init__(self, mod: IRModule, func: relax.Function, chosen: list[Moving]) -> None:
        super().__init__(mod)
        self._inputs = [m.leaf for m in chosen if m.leaf in func.params]
        self._results = {m.leaf for m in chosen if m.leaf not in func.params}
        self._returned = func.body.body

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        for param in self._inputs:
            self.set_var_remap(param, self.builder_.emit(self._copied(param), "staged"))
        self._inputs = []
        if binding.var != self._returned or not self._results:
            super().visit_var_binding_(binding)
        elif isinstance(binding.value, relax.Tuple):
            fields = [self._result(field) for field in binding.value.fields]
            super().visit_var_binding_(relax.VarBinding(binding.var, relax.Tuple(fields)))
        else:
            made = self.builder_.emit(self.visit_expr(binding.value), "made")
            super().visit_var_binding_(relax.VarBinding(binding.var, self._copied(made)))

    def _result(self, field: relax.Expr) -> relax.Expr:
        if not isinstance(field, relax.Var) or field not in self._results:
            return field
        return self.builder_.emit(self._copied(self.visit_expr(field)), "result")

    def _copied(self, tensor: relax.Var) -> relax.Expr:
        return self.builder_.call_te(_copy, tensor, primfunc_name_hint="copy")


def _copy(x: te.Tensor) -> te.Tensor:
    def element(*index: tirx.Var) -> tirx.PrimExpr:
        return x(*index)

    return te.compute(x.shape, element, name="copy")

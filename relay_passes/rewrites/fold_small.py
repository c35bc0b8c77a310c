"""Compute calls on small constants at compile time: index arithmetic that exporters leave behind.

Runs after LegalizeOps. Relax's FoldConstant builds and runs a kernel a binding, 0.1 s each.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import ir, relax, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.fuel import spend
from tir_schedules.kernel_ir.evaluate import NotEvaluable, evaluate, points
from tir_schedules.kernel_ir.stage import Kernel

from ..graph.graph_functions import graph_functions
from ..policy import POLICY, LayoutPolicy


@tvm.transform.module_pass(opt_level=0, name="FoldSmallConstants")
class FoldSmallConstants:
    """Replace calls whose arguments are all small constants by their results.

    rewrite:
        lv = call_tir(less, (const(3), const(0))); lv1 = call_tir(where, (lv, a, b))
      -> lv1 = call_tir(where, (const(False), a, b))
    """

    def __init__(self, policy: LayoutPolicy = POLICY.layout) -> None:
        self._most = policy.folded_points

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        folder = _Folder(mod, self._most)
        for gvar, func in graph_functions(mod):
            folder.builder_.update_func(gvar, folder.visit_expr(func))
        return folder.builder_.get()


@relax.expr_functor.mutator
class _Folder(relax.PyExprMutator):
    def __init__(self, mod: IRModule, most: int) -> None:
        super().__init__(mod)
        self._mod, self._most, self._kernels = mod, most, {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if getattr(call.op, "name", "") != "relax.call_tir" or len(call.args) != 2:
            return call
        values = [self._constant(arg) for arg in _fields(call.args[1])]
        if any(v is None for v in values) or not isinstance(call.ty, relax.TensorType):
            return call
        kernel = self._kernel(call.args[0])
        if (
            not isinstance(kernel, Kernel)
            or points(kernel) > self._most
            or len(kernel.outputs) != 1
        ):
            return call
        try:
            (result,) = evaluate(kernel, values)
        except NotEvaluable:
            return call
        if not spend("FoldSmallConstants", call.args[0].name_hint):
            return call
        return relax.const(result, str(result.dtype))

    def _constant(self, expr: relax.Expr) -> np.ndarray | None:
        if isinstance(expr, relax.Var):
            expr = self.lookup_binding(expr)
        if not isinstance(expr, ir.Constant) or not isinstance(expr.ty, relax.TensorType):
            return None
        if str(expr.ty.dtype) == "bfloat16":
            return None
        return expr.value.numpy()

    def _kernel(self, gvar: ir.GlobalVar) -> object:
        if gvar.name_hint not in self._kernels:
            func = self._mod[gvar]
            self._kernels[gvar.name_hint] = (
                summarize(func) if isinstance(func, tirx.PrimFunc) else None
            )
        return self._kernels[gvar.name_hint]


def _fields(args: relax.Expr) -> list[relax.Expr]:
    return list(args.fields) if isinstance(args, relax.Tuple) else [args]

"""Logarithms of 1 + x that keep the digits of a small x, wherever fusion cuts them."""

from __future__ import annotations

import tvm
from tvm import ir, relax, te, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.fuel import spend

from ..graph.graph_functions import rewritten
from .weights import static_shape

_FLOATS = ("float32", "float64")


@tvm.transform.module_pass(opt_level=0, name="LogOfSums")
class LogOfSums:
    """Make log(1 + x) one operator.

    rewrite: lv = add(1, x); lv1 = log(lv) -> lv1 = log1p(x)

    The importers write softplus so. In a kernel of its own the sum is rounded: to 1 for every x
    below 6e-8, so that softplus(-20) would be 0 under a fusion that cuts there.
    """

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        return rewritten(mod, lambda mod, _: _Rewriter(mod))


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.found = False
        self._sums: dict[relax.Var, relax.Expr] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if (other := _more_than_one(binding.value)) is not None:
            self._sums[binding.var] = other
        other = self._sums.get(_logged(binding.value))
        if other is not None and spend("log_of_sums", binding.var.name):
            self.found = True
            made = self.builder_.call_te(_log1p, self.visit_expr(other))
            binding = relax.VarBinding(binding.var, made)
        super().visit_var_binding_(binding)


def _more_than_one(value: relax.Expr) -> relax.Expr | None:
    """Return the x of 1 + x, which has the shape of the sum; None of anything else."""
    if not _calls(value, "relax.add") or str(value.ty.dtype) not in _FLOATS:
        return None
    for one, other in (value.args, (value.args[1], value.args[0])):
        shape = static_shape(other)
        if _is_one(one) and shape is not None and shape == static_shape(value):
            return other
    return None


def _logged(value: relax.Expr) -> relax.Expr | None:
    return value.args[0] if _calls(value, "relax.log") else None


def _calls(value: relax.Expr, name: str) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == name


def _is_one(value: relax.Expr) -> bool:
    if not isinstance(value, ir.Constant) or not isinstance(value.ty, relax.TensorType):
        return False
    numbers = value.value.numpy()
    return numbers.size == 1 and bool((numbers == 1).all())


def _log1p(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: tirx.log1p(x(*i)), "log1p")

"""Batch normalisation at inference, in Relax, as one multiply-add per channel."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.fuel import spend


def fold_batch_norm(
    main: relax.Function, inputs: int, weights: Sequence[np.ndarray]
) -> tuple[relax.Function, list[np.ndarray]]:
    """Fold scale and shift in float64 into trailing parameters.

    rewrite:
        lv = batch_norm(x, gamma, beta, mean, var); y = lv[0]
      -> y = add(multiply(x, scale), shift)
    """
    folder = _Folder(main, dict(zip(main.params[inputs:], weights, strict=True)))
    if not folder.norms:
        return main, list(weights)
    body = folder.visit_expr(main.body)
    params = [*main.params, *folder.added]
    folded = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return folded, [*weights, *folder.added.values()]


@mutator
class _Folder(PyExprMutator):
    """`norms`: foldable calls by the variable they are bound to; `added`: new parameters."""

    def __init__(self, main: relax.Function, arrays: dict[relax.Var, np.ndarray]) -> None:
        super().__init__()
        self._arrays = arrays
        bindings = [b for block in main.body.blocks for b in block.bindings]
        calls = {b.var: b.value for b in bindings if isinstance(b, relax.VarBinding)
                 and self._folds(b.value)}  # fmt: skip
        for binding in bindings:
            value = binding.value
            if isinstance(value, relax.TupleGetItem) and value.index == 0:
                continue
            for var in relax.analysis.free_vars(value):
                calls.pop(var, None)
        self.norms: dict[relax.Var, relax.Call] = {
            var: call for var, call in calls.items() if spend("fold_batch_norm", var.name)
        }
        self.added: dict[relax.Var, np.ndarray] = {}

    def _folds(self, value: relax.Expr) -> bool:
        if (
            not isinstance(value, relax.Call)
            or getattr(value.op, "name", "") != "relax.nn.batch_norm"
        ):
            return False
        return not value.attrs.training and all(arg in self._arrays for arg in value.args[1:])

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var not in self.norms:
            super().visit_var_binding_(binding)

    def visit_tuple_getitem_(self, op: relax.TupleGetItem) -> relax.Expr:
        call = self.norms.get(op.tuple_value)
        if call is None:
            return super().visit_tuple_getitem_(op)
        attrs, x = call.attrs, self.visit_expr(call.args[0])
        gamma, beta, mean, variance = (self._arrays[a].astype(np.float64) for a in call.args[1:])
        scale = gamma / np.sqrt(variance + float(attrs.epsilon))
        if not attrs.scale:
            scale = 1 / np.sqrt(variance + float(attrs.epsilon))
        shift = (beta if attrs.center else 0) - mean * scale
        trailing = len(x.ty.shape) - int(attrs.axis) - 1
        scale, shift = (self._param(a.reshape(-1, *[1] * trailing), x) for a in (scale, shift))
        return relax.op.add(self.builder_.emit(relax.op.multiply(x, scale)), shift)

    def _param(self, array: np.ndarray, like: relax.Expr) -> relax.Var:
        dtype = like.ty.dtype.dtype
        var = relax.Var(f"batch_norm_{len(self.added)}", relax.TensorType(array.shape, dtype))
        self.added[var] = array.astype(_numpy_dtype(str(dtype)))
        return var


def _numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)

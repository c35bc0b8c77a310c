"""Scale the weights of products instead of their results: batch norms at inference, above all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from tvm import ir, relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.fuel import spend
from tvm_stitch.frontend.relax_graph.affine import (
    Affine,
    Readers,
    affine,
    readers,
    weights_of,
)
from tvm_stitch.frontend.relax_graph.fold_weights import keep_used

logger = logging.getLogger(__name__)


def fold_scales(
    main: relax.Function, inputs: int, weights: Sequence[np.ndarray]
) -> tuple[relax.Function, list[np.ndarray]]:
    """Fold what scales products along the channels of their weights into these, in float64.

    The weights are the parameters from `inputs` on. One that something else reads stays as it is:
    it would be stored twice.

    rewrite:
        lv = conv2d(x, w); lv1 = add(lv, b); lv2 = multiply(lv1, scale); gv = add(lv2, shift)
      -> lv = conv2d(x, w * scale); gv = add(lv, b * scale + shift)
    """
    arrays = dict(zip(main.params[inputs:], weights, strict=True))
    reads = readers(main)
    folds: list[_Fold] = []
    for weight, several in _affines(main, arrays, reads).items():
        with np.errstate(over="ignore", invalid="ignore"):
            made = _folds(weight, arrays[weight], several)
        if reason := _refuse(weight, several, reads) or _refuse_numbers(arrays[weight], made):
            logger.debug("fold_scales: %s: %s", weight.name, reason)
        elif spend("fold_scales", *(fold.affine.last.name for fold in made)):
            folds += made
    if not folds:
        return main, list(weights)
    body = _Folder(folds).visit_expr(main.body)
    for fold in folds:
        arrays[fold.weight] = fold.array
        if fold.shift is not None:
            arrays[fold.shift] = fold.offsets
    return keep_used(main, inputs, body, arrays)


@dataclass(frozen=True)
class _Fold:
    """A product of the parameter `weight`, `array`, to which `shift`, `offsets`, is added."""

    affine: Affine
    weight: relax.Var
    array: np.ndarray
    shift: relax.Var | None
    offsets: np.ndarray


def _folds(weight: relax.Var, array: np.ndarray, several: list[Affine]) -> list[_Fold]:
    """Return the folds of a weight's products; those of equal arrays have one parameter."""
    made: list[_Fold] = []
    for each in several:
        scaled = each.weight.scaled(each.call, array, each.scale).astype(array.dtype)
        param = relax.Var(f"{weight.name}_scaled", weight.ty)
        for other in made:
            if np.array_equal(other.array, scaled):
                param, scaled = other.weight, other.array
        trailing = each.call.ty.ndim - each.weight.axis - 1
        offsets = each.shift.astype(array.dtype).reshape(-1, *[1] * trailing)
        ty = relax.TensorType(offsets.shape, each.call.ty.dtype.dtype)
        shift = relax.Var(f"{weight.name}_shift", ty) if each.shifts else None
        made.append(_Fold(each, param, scaled, shift, offsets))
    return made


def _affines(
    main: relax.Function, arrays: Mapping[relax.Var, np.ndarray], reads: Readers
) -> dict[relax.Var, list[Affine]]:
    """Return what scales products, by their weights."""

    def array(expr: relax.Expr) -> np.ndarray | None:
        if isinstance(expr, ir.Constant) and isinstance(expr.ty, relax.TensorType):
            return expr.value.numpy()
        return arrays.get(expr) if isinstance(expr, relax.Var) else None

    found: dict[relax.Var, list[Affine]] = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                continue
            call = binding.value
            for weight in weights_of(call) if isinstance(call, relax.Call) else ():
                var = call.args[weight.position]
                if not isinstance(var, relax.Var) or var not in arrays or not arrays[var].size:
                    continue
                if (scaling := affine(binding, weight, reads, array)) is not None:
                    found.setdefault(var, []).append(scaling)
                    break
    return found


def _refuse(weight: relax.Var, several: list[Affine], reads: Readers) -> str | None:
    """Return why the products of a weight are left, or None."""
    if len(reads[weight]) > len(several):
        return "something else reads it"
    if any(a.call.args[0].same_as(a.call.args[1]) for a in several):
        return "it is multiplied with itself"
    if any(a.call.ty.dtype != weight.ty.dtype for a in several):
        return "its products are of another dtype"
    return None


def _refuse_numbers(array: np.ndarray, folds: list[_Fold]) -> str | None:
    """Return why a weight is not stored scaled, or None."""
    if len({fold.weight for fold in folds}) > 1:
        return "its readers scale it differently"
    if not all(_is_finite(fold.array) and _is_finite(fold.offsets) for fold in folds):
        return "a number is not finite"
    first = folds[0].affine
    peaks = first.weight.peaks(first.call, array) * np.abs(first.scale)
    if np.any((peaks > 0) & (peaks < float(ml_dtypes.finfo(array.dtype).tiny))):
        return "a channel's weights are subnormal"
    return None


def _is_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all())


@mutator
class _Folder(PyExprMutator):
    """Emits scaled products where the last of their readers was."""

    def __init__(self, folds: Sequence[_Fold]) -> None:
        super().__init__()
        self._folds = {fold.affine.last: fold for fold in folds}
        self._dropped = {var for fold in folds for var in fold.affine.between}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self._dropped:
            return
        if binding.var in self._folds:
            value = self._product(self._folds[binding.var])
            binding = relax.VarBinding(binding.var, value)
        super().visit_var_binding_(binding)

    def _product(self, fold: _Fold) -> relax.Expr:
        call, position = fold.affine.call, fold.affine.weight.position
        args = [self.visit_expr(arg) for arg in call.args]
        args[position] = fold.weight
        product = relax.Call(call.op, args, call.attrs, call.ty_args)
        if fold.shift is None:
            return product
        return relax.op.add(self.builder_.emit(product), fold.shift)

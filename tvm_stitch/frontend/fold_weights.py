"""Compute in NumPy the layout operators that importers leave between weights and their users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax
from tvm.ir import Constant
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_stitch.frontend.dedupe import find_twins
from tvm_stitch.frontend.fold import DUPLICATE_SHARE, GROWTH_FREE_BYTES


def fold_weights(
    main: relax.Function,
    inputs: int,
    weights: Sequence[np.ndarray],
    duplicate_share: float = DUPLICATE_SHARE,
    growth_bytes: int = 0,
) -> tuple[relax.Function, list[np.ndarray]]:
    """Fold over the parameters from `inputs` on; the result keeps each used weight once.

    Copies of weights that stay in use may add `duplicate_share` of all weights' bytes. Weights
    themselves may grow by as much, and by the `growth_bytes` that a pass has decided on.

    rewrite:
        main(x, w): lv = permute_dims(w); gv = matmul(x, lv)
      -> main(x, lv): gv = matmul(x, lv)
    """
    arrays = dict(zip(main.params[inputs:], weights, strict=True))
    budget = int(duplicate_share * sum(array.nbytes for array in weights))
    folder = _Folder(arrays, _uses(main), budget, budget + growth_bytes)
    folder.share_twins()
    body = folder.visit_expr(main.body)
    used = relax.analysis.free_vars(relax.Function([], body, main.ret_ty, main.is_pure))
    kept = [var for var in folder.arrays if any(var.same_as(other) for other in used)]
    params = [*main.params[:inputs], *kept]
    folded = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return folded, [folder.arrays[var] for var in kept]


def _uses(main: relax.Function) -> Counter[relax.Var]:
    count: Counter[relax.Var] = Counter()
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value
            parts = [value] if isinstance(value, relax.Var) else _parts(value)
            count.update(part for part in parts if isinstance(part, relax.Var))
    return count


def _parts(value: relax.Expr) -> list[relax.Expr]:
    if isinstance(value, relax.Call):
        return [part for arg in value.args for part in [arg, *_parts(arg)]]
    if isinstance(value, relax.Tuple):
        return [part for item in value.fields for part in [item, *_parts(item)]]
    return []


def _evaluator(value: relax.Expr) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return how to compute an operator that moves, reshapes or pads its first argument.

    Or multiplies it by a constant: a kernel transformed for minimal filtering.
    """
    if not isinstance(value, relax.Call):
        return None
    shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
    if not isinstance(shape, relax.ShapeExpr):
        return None
    match getattr(value.op, "name", ""):
        case "relax.permute_dims":
            axes = value.attrs.axes
            order = None if axes is None else [int(axis) for axis in axes]
            return lambda array: np.ascontiguousarray(np.transpose(array, order))
        case "relax.matmul" if isinstance(value.args[1], Constant):
            by, dtype = value.args[1].value.numpy().astype("float64"), str(value.ty.dtype)
            return lambda array: (array.astype("float64") @ by).astype(dtype)
        case "relax.reshape" | "relax.expand_dims" | "relax.squeeze" | "relax.flatten":
            target = [int(extent) for extent in shape.values]
            return lambda array: array.reshape(target)
        case "relax.nn.pad" if value.attrs.pad_mode == "constant" and value.attrs.pad_value == 0:
            edges = [int(width) for width in value.attrs.pad_width]
            widths = list(zip(edges[::2], edges[1::2], strict=True))
            return lambda array: np.pad(array, widths)
    return None


@mutator
class _Folder(PyExprMutator):
    """Turns bindings over weights into parameters; `arrays` holds all weights, folded ones too."""

    def __init__(
        self,
        arrays: dict[relax.Var, np.ndarray],
        uses: Counter[relax.Var],
        copies_bytes: int,
        growth_bytes: int,
    ) -> None:
        super().__init__()
        self.arrays, self._uses = arrays, uses
        self._copies, self._growth = copies_bytes, growth_bytes

    def share_twins(self) -> None:
        """Let equal weights be one parameter."""
        for twin, first in find_twins(self.arrays).items():
            self.set_var_remap(twin, first)
            self._uses[first] += self._uses[twin]

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        evaluate = _evaluator(binding.value)
        source = None if evaluate is None else self.visit_expr(binding.value.args[0])
        if source not in self.arrays or not isinstance(binding.var, relax.DataflowVar):
            super().visit_var_binding_(binding)
            return
        array = evaluate(self.arrays[source])
        if not self._affords(binding.value.args[0], self.arrays[source], array):
            super().visit_var_binding_(binding)
            return
        param = relax.Var(f"folded_{len(self.arrays)}", binding.var.ty)
        self.arrays[param] = array
        self.set_var_remap(binding.var, param)

    def _affords(self, var: relax.Var, source: np.ndarray, array: np.ndarray) -> bool:
        """Refuse large copies of a weight that others still read, or growth, beyond the budget."""
        alone = self._uses[self.visit_expr(var)] <= 1 or np.shares_memory(source, array)
        added = array.nbytes - (source.nbytes if alone else 0)
        if added <= GROWTH_FREE_BYTES:
            return True
        if alone:
            self._growth -= added
            return self._growth >= 0
        self._copies -= added
        return self._copies >= 0

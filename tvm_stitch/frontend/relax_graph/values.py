"""What the variables of a Relax function are bound to, and the integers that are known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.ir import Constant


@dataclass(frozen=True)
class Values:
    """`bindings` of a function's variables, and the arrays of parameters that are `constants`."""

    bindings: Mapping[relax.Var, relax.Expr]
    constants: Mapping[relax.Var, np.ndarray]

    @classmethod
    def of(cls, main: relax.Function, weights: Sequence[np.ndarray]) -> Values:
        """Return those of a function whose last parameters are `weights`."""
        params = main.params[len(main.params) - len(weights) :]
        bound = {b.var: b.value for block in main.body.blocks for b in block.bindings
                 if isinstance(b, relax.VarBinding)}  # fmt: skip
        return cls(bound, dict(zip(params, weights, strict=True)))

    def __call__(self, expr: relax.Expr) -> relax.Expr:
        """Return what a variable is bound to, anything else as itself."""
        return self.bindings.get(expr, expr)

    def integers(self, expr: relax.Expr) -> np.ndarray | None:
        """Return the array that a tensor of integers is known to be."""
        expr = self(expr)
        if not is_integer(expr):
            return None
        if expr in self.constants:
            return self.constants[expr]
        return expr.value.numpy() if isinstance(expr, Constant) else None


def is_integer(expr: relax.Expr) -> bool:
    ty = expr.ty
    return isinstance(ty, relax.TensorType) and str(ty.dtype).startswith(("int", "uint"))


def op_name(expr: relax.Expr) -> str:
    """Return the name of the operator that is called, "" if none is."""
    return getattr(expr.op, "name", "") if isinstance(expr, relax.Call) else ""

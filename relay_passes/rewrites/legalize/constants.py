"""What a value is that depends on constants alone, through kernels made by now."""

from __future__ import annotations

import numpy as np
from tvm import ir, relax, tirx

from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.kernel_ir.evaluate import NotEvaluable, evaluate, points
from tir_schedules.kernel_ir.stage import Kernel


class KnownValues:
    """Values of a function that a builder is making; each is computed once, when asked for."""

    def __init__(self, builder: relax.BlockBuilder, most_points: int) -> None:
        self._builder, self._most = builder, most_points
        self._found: dict[relax.Var, np.ndarray | None] = {}
        self._mod: ir.IRModule | None = None

    def __call__(self, value: relax.Expr) -> np.ndarray | None:
        """Return what `value` is whatever the inputs, None if nobody knows."""
        if isinstance(value, ir.Constant):
            known = isinstance(value.ty, relax.TensorType) and str(value.ty.dtype) != "bfloat16"
            return value.value.numpy() if known else None
        if not isinstance(value, relax.Var):
            return None
        if value not in self._found:
            self._found[value] = self._computed(self._builder.lookup_binding(value))
        return self._found[value]

    def _computed(self, value: relax.Expr | None) -> np.ndarray | None:
        if isinstance(value, (ir.Constant, relax.Var)):
            return self(value)
        kernel = self._kernel(value)
        if kernel is None or len(kernel.outputs) != 1:
            return None
        self._most -= points(kernel)
        if self._most < 0:
            return None
        inputs = [self(argument) for argument in value.args[1].fields]
        if any(each is None for each in inputs):
            return None
        try:
            return evaluate(kernel, inputs)[0]
        except NotEvaluable:
            return None

    def _kernel(self, value: relax.Expr | None) -> Kernel | None:
        called = isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"
        if not called or len(value.args) != 2 or not isinstance(value.args[1], relax.Tuple):
            return None
        self._mod = self._mod or self._builder.get()
        func = self._mod[value.args[0]]
        found = summarize(func) if isinstance(func, tirx.PrimFunc) else None
        return found if isinstance(found, Kernel) else None

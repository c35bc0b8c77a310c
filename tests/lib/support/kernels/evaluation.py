"""Evaluate kernels and their expressions point by point: what the analysis must agree with."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator

import numpy as np

from support.kernels.tir import ARITHMETIC
from tir_schedules.kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor
from tir_schedules.kernel_ir.stage import Kernel, Stage

Point = dict[Axis, int]
Arrays = dict[int, np.ndarray]  # by id of the tensor

_BINARY = {
    **ARITHMETIC,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
}
_UNARY = {
    "Not": operator.not_,
    "call:tirx.exp": math.exp,
    "call:tirx.sqrt": math.sqrt,
    "call:tirx.tanh": math.tanh,
    "call:tirx.fabs": abs,
}
_COMBINE = {"sum": operator.add, "prod": operator.mul, "max": max, "min": min}


def evaluate(expr: Expr, point: Point, arrays: Arrays | None = None) -> object:
    """Return the value of `expr` where each axis stands at `point`."""
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, AxisRef):
        return point[expr.axis]
    if isinstance(expr, Load):
        index = tuple(int(evaluate(i, point, arrays)) for i in expr.index)
        assert all(0 <= i < n for i, n in zip(index, expr.tensor.shape, strict=True)), index
        return arrays[id(expr.tensor)][index]
    assert isinstance(expr, Op)
    if expr.name in ("Select", "call:tirx.if_then_else"):
        taken = expr.args[1] if evaluate(expr.args[0], point, arrays) else expr.args[2]
        return evaluate(taken, point, arrays)
    values = [evaluate(a, point, arrays) for a in expr.args]
    if expr.name == "Cast":
        return int(values[0]) if expr.dtype.startswith("int") else float(values[0])
    if expr.name in ("Div", "Mod"):
        if isinstance(values[0], (int, np.integer)):
            quotient = int(values[0] / values[1])
            return quotient if expr.name == "Div" else values[0] - quotient * values[1]
        return values[0] / values[1]
    return (_BINARY.get(expr.name) or _UNARY[expr.name])(*values)


def points(axes: tuple[Axis, ...]) -> Iterator[Point]:
    for values in itertools.product(*(range(a.extent) for a in axes)):
        yield dict(zip(axes, values, strict=True))


def run_kernel(kernel: Kernel, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Run the stages one after the other; return the outputs in order."""
    arrays = {id(t): a for t, a in zip(kernel.inputs, inputs, strict=True)}
    for stage in kernel.stages:
        arrays[id(stage.out)] = run_stage(stage, arrays)
    return [arrays[id(t)] for t in kernel.outputs]


def run_stage(stage: Stage, arrays: Arrays) -> np.ndarray:
    out = np.full(stage.out.shape, np.nan)
    if stage.reduction is not None:
        out[...] = stage.reduction.identity
    for point in points(stage.axes):
        index = tuple(int(evaluate(i, point, arrays)) for i in stage.out_index)
        value = evaluate(stage.value, point, arrays)
        if stage.reduction is not None:
            value = _COMBINE[stage.reduction.kind](out[index], value)
        out[index] = value
    return out


def tensors(kernel: Kernel) -> list[Tensor]:
    made = [s.out for s in kernel.stages]
    return list({id(t): t for t in (*kernel.params, *made)}.values())

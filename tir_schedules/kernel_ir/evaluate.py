"""Evaluate a small kernel point by point in Python: for constants that should never be launched."""

from __future__ import annotations

import itertools

import numpy as np

from .expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor
from .stage import Kernel, Stage

_BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Mod": np.fmod,
    "Min": np.minimum,
    "Max": np.maximum,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
}
_COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class NotEvaluable(Exception):
    """The kernel holds an operation that this evaluator does not know."""


def evaluate(kernel: Kernel, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of `kernel`.

    Raises: NotEvaluable for a dtype or operation outside plain NumPy arithmetic.
    """
    memory = dict(zip(kernel.inputs, inputs, strict=True))
    for stage in kernel.stages:
        memory[stage.out] = np.zeros(stage.out.shape, _dtype(stage.out.dtype))
        _run(stage, memory)
    return [memory[t] for t in kernel.outputs]


def points(kernel: Kernel) -> int:
    return sum(s.domain for s in kernel.stages)


def _run(stage: Stage, memory: dict[Tensor, np.ndarray]) -> None:
    out, rule = memory[stage.out], stage.reduction
    if rule is not None and rule.kind not in _COMBINE:
        raise NotEvaluable(rule.kind)
    started: set[tuple[int, ...]] = set()
    with np.errstate(all="ignore"):
        for point in itertools.product(*(range(a.extent) for a in stage.axes)):
            env = dict(zip(stage.axes, point, strict=True))
            place = tuple(int(_value(i, env, memory)) for i in stage.out_index)
            value = _value(stage.value, env, memory)
            if rule is not None and place in started:
                value = _COMBINE[rule.kind](out[place], value)
            started.add(place)
            out[place] = value


def _value(expr: Expr, env: dict[Axis, int], memory: dict[Tensor, np.ndarray]) -> np.generic:
    if isinstance(expr, Const):
        return _dtype(expr.dtype).type(expr.value)
    if isinstance(expr, AxisRef):
        return np.int64(env[expr.axis])
    if isinstance(expr, Load):
        place = tuple(int(_value(i, env, memory)) for i in expr.index)
        return memory[expr.tensor][_inside(place, expr.tensor)]
    assert isinstance(expr, Op)
    if expr.name in ("Select", "call:tirx.if_then_else"):
        chosen = expr.args[1] if _value(expr.args[0], env, memory) else expr.args[2]
        return _value(chosen, env, memory)
    args = [_value(a, env, memory) for a in expr.args]
    return _apply(expr, args)


def _apply(expr: Op, args: list[np.generic]) -> np.generic:
    if expr.name == "Cast":
        return args[0].astype(_dtype(expr.dtype))
    if expr.name == "call:tirx.reinterpret":
        return args[0].view(_dtype(expr.dtype))
    if expr.name == "Not":
        return np.logical_not(args[0])
    if expr.name == "Div" and expr.dtype.startswith("float"):
        return np.divide(*args)
    if expr.name in _BINARY:
        return _BINARY[expr.name](*args).astype(_dtype(expr.dtype))
    if expr.name in ("call:tirx.sqrt", "call:tirx.fabs"):
        return (np.sqrt if expr.name.endswith("sqrt") else np.abs)(args[0])
    raise NotEvaluable(expr.name)


def _inside(place: tuple[int, ...], tensor: Tensor) -> tuple[int, ...]:
    if any(not 0 <= p < d for p, d in zip(place, tensor.shape, strict=True)):
        raise NotEvaluable("an index is out of range")
    return place


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        raise NotEvaluable(name)
    return np.dtype(name)

"""Evaluate a kernel in NumPy, all points of a stage at once: for constants never to be launched."""

from __future__ import annotations

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
    rule, shape = stage.reduction, tuple(a.extent for a in stage.axes)
    if rule is not None and rule.kind not in _COMBINE:
        raise NotEvaluable(rule.kind)
    env = {axis: _counted(shape, number) for number, axis in enumerate(stage.axes)}
    out, everywhere, place = memory[stage.out].reshape(-1), np.True_, np.zeros(shape, np.intp)
    with np.errstate(all="ignore"):
        value = np.broadcast_to(_value(stage.value, env, memory, everywhere), shape)
        for index, extent in zip(stage.out_index, stage.out.shape, strict=True):
            place = place * extent + _value(index, env, memory, everywhere)
        if rule is None:
            out[place] = value
            return
        found = np.full(out.shape, _neutral(rule.kind, out.dtype))
        _COMBINE[rule.kind].at(found, place, value.astype(out.dtype))
    out[place] = found[place]


def _counted(shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Return where an axis stands at each point of the others, which it is broadcast over."""
    return np.arange(shape[axis]).reshape([-1 if n == axis else 1 for n in range(len(shape))])


def _neutral(kind: str, dtype: np.dtype) -> object:
    """Return what changes nothing that it is combined with; zeros keep their sign."""
    if kind in ("sum", "prod"):
        return 1 if kind == "prod" else dtype.type(-0.0)
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    if dtype.kind == "b":
        return kind == "min"
    return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max


def _value(
    expr: Expr, env: dict[Axis, np.ndarray], memory: dict[Tensor, np.ndarray], live: np.ndarray
) -> np.ndarray:
    """Return an expression at all points; those that are not `live` read nothing and mean nothing.

    Raises: NotEvaluable.
    """
    if isinstance(expr, Const):
        return np.asarray(expr.value).astype(_dtype(expr.dtype))
    if isinstance(expr, AxisRef):
        return env[expr.axis]
    if isinstance(expr, Load):
        place = [_value(i, env, memory, live) for i in expr.index]
        return memory[expr.tensor][_inside(place, expr.tensor, live)]
    assert isinstance(expr, Op)
    if expr.name in ("Select", "call:tirx.if_then_else"):
        asked = _value(expr.args[0], env, memory, live).astype(bool)
        yes = _value(expr.args[1], env, memory, live & asked)
        no = _value(expr.args[2], env, memory, live & ~asked)
        return np.where(asked, yes, no)
    args = [_value(a, env, memory, live) for a in expr.args]
    return _apply(expr, args)


def _apply(expr: Op, args: list[np.ndarray]) -> np.ndarray:
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


def _inside(place: list[np.ndarray], tensor: Tensor, live: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return where a tensor is read. Raises: NotEvaluable if that is outside at a live point."""
    found = []
    for at, extent in zip(place, tensor.shape, strict=True):
        if np.any(live & ((at < 0) | (at >= extent))):
            raise NotEvaluable("an index is out of range")
        found.append(np.clip(at, 0, max(extent - 1, 0)).astype(np.intp))
    if 0 in tensor.shape and np.broadcast(*found).size:
        raise NotEvaluable("a tensor has no elements")
    return tuple(found)


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        raise NotEvaluable(name)
    return np.dtype(name)

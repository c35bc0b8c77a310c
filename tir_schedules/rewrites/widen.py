"""Compute half-precision values in float32: only loads and stores round.

f16 sums stick at 2048 and AVX-512 has no half arithmetic, so float16 and bfloat16 live in memory
alone. A cast the model asked for still rounds. What the kernel itself reads of an output is the
value before its rounding: x - relu(x) stays 0 where both are positive, whichever is an output.
"""

from __future__ import annotations

import functools

from ..kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor, walk
from ..kernel_ir.stage import Kernel, Stage, substitute_axes

_HALF = ("float16", "bfloat16")


def widen(kernel: Kernel) -> Kernel:
    """Return the kernel with every half-precision intermediate and operation in float32."""
    params = set(kernel.params)
    wide = {
        s.out: Tensor(s.out.name, s.out.shape, "float32")
        for s in kernel.stages
        if s.out not in params and s.out.dtype in _HALF
    }
    read = {load.tensor for stage in kernel.stages for load in stage.loads()}
    stages = [s for stage in kernel.stages for s in _widen_stage(stage, wide, read)]
    return Kernel(kernel.name, kernel.params, kernel.outputs, tuple(stages))


def _widen_stage(stage: Stage, wide: dict[Tensor, Tensor], read: set[Tensor]) -> list[Stage]:
    """Return the stage in float32, and behind what is summed or read here the rounding of it."""
    if _is_wide(stage):
        return [stage]
    value = _visit(stage.value, wide, {})
    out = wide.get(stage.out, stage.out)
    if value.dtype == out.dtype:
        return [Stage(stage.name, out, stage.axes, stage.out_index, value, stage.reduction)]
    if stage.reduction is None and (out not in read or _is_rounded(value, out.dtype)):
        value = _narrowed(value, out.dtype)
        return [Stage(stage.name, out, stage.axes, stage.out_index, value)]
    sums = Tensor(out.name, out.shape, value.dtype)
    wide[out] = sums
    axes = {a: Axis(a.name, a.extent) for a in stage.spatial}
    places = {axis: AxisRef(own) for axis, own in axes.items()}
    index = tuple(substitute_axes(i, places) for i in stage.out_index)
    rounded = Op("Cast", (Load(sums, index),), out.dtype)
    return [
        Stage(stage.name, sums, stage.axes, stage.out_index, value, stage.reduction),
        Stage(stage.name, out, tuple(axes.values()), index, rounded),
    ]


@functools.lru_cache(maxsize=1 << 12)
def _is_wide(stage: Stage) -> bool:
    """Return whether nothing in a stage is of half precision, nor a cast to what it is already."""
    if stage.value.dtype != stage.out.dtype:
        return False
    return not any(
        node.dtype in _HALF
        or (isinstance(node, Op) and node.name == "Cast" and node.args[0].dtype == node.dtype)
        for node in walk(stage.value)
    )


def _narrowed(value: Expr, dtype: str) -> Expr:
    """Return `value` rounded to `dtype`; what was only moved keeps its bits."""
    return value.args[0] if _is_rounded(value, dtype) else Op("Cast", (value,), dtype)


def _is_rounded(value: Expr, dtype: str) -> bool:
    return isinstance(value, Op) and value.name == "Cast" and value.args[0].dtype == dtype


def _visit(node: Expr, wide: dict[Tensor, Tensor], memo: dict[int, Expr]) -> Expr:
    if id(node) not in memo:
        memo[id(node)] = _widen_node(node, wide, memo)
    return memo[id(node)]


def _widen_node(node: Expr, wide: dict[Tensor, Tensor], memo: dict[int, Expr]) -> Expr:
    if isinstance(node, Load):
        index = tuple(_visit(i, wide, memo) for i in node.index)
        load = Load(wide.get(node.tensor, node.tensor), index)
        return Op("Cast", (load,), "float32") if load.dtype in _HALF else load
    if isinstance(node, Const):
        return Const(node.value, "float32") if node.dtype in _HALF else node
    if not isinstance(node, Op):
        return node
    args = tuple(_visit(a, wide, memo) for a in node.args)
    if node.name == "call:tirx.reinterpret" and (
        node.dtype in _HALF or node.args[0].dtype in _HALF
    ):
        return _reinterpret_half(node, args)
    if node.name == "Cast" and node.dtype in _HALF:
        if node.args[0].dtype in _HALF and node.args[0].dtype == node.dtype:
            return args[0]
        return Op("Cast", (Op("Cast", args, node.dtype),), "float32")
    if node.name == "Cast" and node.dtype == args[0].dtype:
        return args[0]
    dtype = "float32" if node.dtype in _HALF else node.dtype
    return Op(node.name, args, dtype, node.extra)


def _reinterpret_half(node: Op, args: tuple[Expr, ...]) -> Expr:
    source = args[0]
    if node.args[0].dtype in _HALF:
        source = Op("Cast", (source,), node.args[0].dtype)
    out = Op(node.name, (source,), node.dtype, node.extra)
    return Op("Cast", (out,), "float32") if node.dtype in _HALF else out

"""Arguments of exp that are never above 0: a value less the largest of its row, as in softmax."""

from __future__ import annotations

from ..kernel_ir.expr import (
    NEVER_ABOVE_ZERO,
    Axis,
    AxisRef,
    Expr,
    Load,
    Op,
    Tensor,
    transform,
)
from ..kernel_ir.stage import Kernel, Stage


def mark_signs(kernel: Kernel) -> Kernel:
    """Return the kernel with the arguments of exp that are never above 0 marked.

    rewrite: exp(x[i, j] - m[i]) -> exp(NeverAboveZero(x[i, j] - m[i]))   # m[i] max= x[i, k] over k
    """
    largest = {s.out: s for s in kernel.stages if s.reduction and s.reduction.kind == "max"}
    if not largest:
        return kernel
    return Kernel(
        kernel.name,
        kernel.params,
        kernel.outputs,
        tuple(_marked(stage, largest) for stage in kernel.stages),
    )


def _marked(stage: Stage, largest: dict[Tensor, Stage]) -> Stage:
    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Op) and node.name == "call:tirx.exp":
            (argument,) = node.args
            if _is_below_largest(argument, largest):
                mark = Op(NEVER_ABOVE_ZERO, (transform(argument, rule),), argument.dtype)
                return Op(node.name, (mark,), node.dtype)
        return None

    value = transform(stage.value, rule)
    if value is stage.value:
        return stage
    return Stage(stage.name, stage.out, stage.axes, stage.out_index, value, stage.reduction)


def _is_below_largest(argument: Expr, largest: dict[Tensor, Stage]) -> bool:
    if not isinstance(argument, Op) or argument.name != "Sub":
        return False
    value, bound = argument.args
    if not isinstance(bound, Load) or bound.tensor not in largest:
        return False
    stage = largest[bound.tensor]
    return Match(stage, bound).holds(stage.value, value)


class Match:
    """Finds the point of a reduction, read by `load`, where its value is another's expression."""

    def __init__(self, stage: Stage, load: Load) -> None:
        self._at: dict[Axis, Expr] = {
            place.axis: index
            for place, index in zip(stage.out_index, load.index, strict=True)
            if isinstance(place, AxisRef)
        }

    def holds(self, pattern: Expr, value: Expr) -> bool:
        """Return whether `value` is `pattern` at some point of the reduction's domain."""
        if isinstance(pattern, AxisRef):
            return self._is_at(pattern, value)
        if pattern.dtype != value.dtype or type(pattern) is not type(value):
            return False
        if isinstance(pattern, Load) and pattern.tensor is not value.tensor:
            return False
        if isinstance(pattern, Op) and (pattern.name, pattern.extra) != (value.name, value.extra):
            return False
        parts, others = pattern.children(), value.children()
        if not parts:
            return pattern == value
        return len(parts) == len(others) and all(map(self.holds, parts, others))

    def _is_at(self, pattern: AxisRef, value: Expr) -> bool:
        known = self._at.get(pattern.axis)
        if known is not None:
            return known == value
        inside = isinstance(value, AxisRef) and value.axis.extent <= pattern.axis.extent
        if inside:
            self._at[pattern.axis] = value
        return inside

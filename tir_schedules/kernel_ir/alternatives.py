"""Two ways to one result: a usual one, and another for operands that it is wrong for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .expr import Const, Expr, Load, Op, Tensor
from .stage import Kernel, Stage, drop_dead

_CHOICE = "call:tirx.if_then_else"


@dataclass(frozen=True)
class Alternatives:
    """`usual` is the kernel where the one number `made` by `check` is 0, `other` where it is not.

    `other` is None if it is no other.
    """

    check: Kernel
    made: Tensor
    usual: Kernel
    other: Kernel | None


def alternatives(kernel: Kernel) -> Alternatives | None:
    """Return the two ways of a kernel that chooses between them, None if it does not.

    Of several choices the first; the others are in `usual` and `other`.

    rewrite: y[i] = if_then_else(made[0] == 0, a[i], b[i]) -> y[i] = a[i], and y[i] = b[i]
    """
    for stage in kernel.stages:
        choice = _choice(stage, kernel)
        if choice is None:
            continue
        made, one, other = choice
        usual, rest = (_with(kernel, stage, value) for value in (one, other))
        return Alternatives(_making(kernel, made), made, usual, None if one == other else rest)
    return None


def usual_way(kernel: Kernel) -> Kernel:
    """Return the kernel with choices between the usual way and itself: as fusion judges it."""
    for stage in kernel.stages:
        choice = _choice(stage, kernel)
        if choice is not None and choice[1] != choice[2]:
            _, one, _ = choice
            condition = stage.value.args[0]
            chosen = Op(_CHOICE, (condition, one, one), stage.value.dtype)
            return usual_way(_with(kernel, stage, chosen))
    return kernel


def _choice(stage: Stage, kernel: Kernel) -> tuple[Tensor, Load, Load] | None:
    """Return the number that a stage's choice depends on, and what it chooses from, or None."""
    value = stage.value
    if stage.reduction is not None or not isinstance(value, Op) or value.name != _CHOICE:
        return None
    condition, one, other = value.args
    if not isinstance(condition, Op) or condition.name != "EQ":
        return None
    load, zero = condition.args
    if not isinstance(load, Load) or not isinstance(zero, Const) or zero.value != 0:
        return None
    made = load.tensor
    if made.elements != 1 or not any(s.out is made and s.reduction for s in kernel.stages):
        return None
    if not isinstance(one, Load) or not isinstance(other, Load):
        return None
    return made, one, other


def _with(kernel: Kernel, stage: Stage, value: Expr) -> Kernel:
    """Return the kernel with another value of a stage, and none that nothing reads then."""
    stages = [replace(s, value=value) if s is stage else s for s in kernel.stages]
    return replace(kernel, stages=tuple(drop_dead(stages, kernel.outputs)))


def _making(kernel: Kernel, made: Tensor) -> Kernel:
    """Return the kernel of what makes a tensor."""
    stages = tuple(drop_dead(list(kernel.stages), (made,)))
    read = {ld.tensor for s in stages for ld in s.loads()}
    params = tuple(p for p in kernel.params if p in read)
    return Kernel(f"{kernel.name}_check", (*params, made), (made,), stages)

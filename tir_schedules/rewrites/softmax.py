"""A softmax by what it computes: exps of no more than 0, and each by the sum of its row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..kernel_ir.expr import NEVER_ABOVE_ZERO, AxisRef, Expr, Load, Op
from ..kernel_ir.stage import Kernel, Stage
from .inline import inline_into, is_identity
from .mark_signs import Match


@dataclass(frozen=True)
class Softmax:
    """The stages of `weights = power / total`, power being exp(x - largest) and total its sum."""

    largest: Stage
    power: Stage
    total: Stage
    weights: Stage


def softmax_of(weights: Stage, kernel: Kernel) -> Softmax | None:
    """Return the softmax whose weights a stage makes, None if it makes none.

    Its sum is over the row whose largest e is 1, of as many elements: of a part of a row the
    largest e may be as small as it likes.
    """
    value = weights.value
    if weights.reduction is not None or not isinstance(value, Op) or value.name != "Div":
        return None
    made = {s.out: s for s in kernel.stages}
    part, whole = value.args
    if not isinstance(part, Load) or not isinstance(whole, Load):
        return None
    power, total = made.get(part.tensor), made.get(whole.tensor)
    if power is None or total is None or not is_identity(power) or power.reduction is not None:
        return None
    if total.reduction is None or total.reduction.kind != "sum":
        return None
    bound = softmax_bound(inline_into(weights, power).value, inline_into(total, power))
    if bound is None or _axes(bound) != _axes(whole):
        return None
    largest = made[bound.tensor]
    found = Softmax(largest, power, total, weights)
    return found if _terms(largest) == _terms(total) else None


def softmax_bound(weight: Expr, total: Stage) -> Load | None:
    """Return what a weight exp(x - bound) / total is off by, `total` being the sum of such exps.

    `mark_signs` has seen to it that the bound is the largest x of a row. None if it is no softmax.
    """
    if not isinstance(weight, Op) or weight.name != "Div":
        return None
    part, whole = weight.args
    if not isinstance(whole, Load) or whole.tensor is not total.out:
        return None
    if not isinstance(part, Op) or part.name != "call:tirx.exp":
        return None
    (mark,) = part.args
    if not isinstance(mark, Op) or mark.name != NEVER_ABOVE_ZERO:
        return None
    bound = mark.args[0].args[1]
    return bound if Match(total, whole).holds(total.value, part) else None


def drop_nan(kernel: Kernel) -> Kernel:
    """Return the kernel with largest elements that only softmaxes read free to leave out a NaN.

    The sum of such a row is NaN, and so are all of its weights. That saves a compare of each
    element: x86's max is one instruction if it may drop a NaN.
    """
    free = {s.largest for s in _softmaxes(kernel) if _is_read_alone(s, kernel)}
    stages = tuple(_without_nan(s) if s in free else s for s in kernel.stages)
    return Kernel(kernel.name, kernel.params, kernel.outputs, stages) if free else kernel


def _softmaxes(kernel: Kernel) -> list[Softmax]:
    found = (softmax_of(stage, kernel) for stage in kernel.stages)
    return [softmax for softmax in found if softmax is not None]


def _is_read_alone(softmax: Softmax, kernel: Kernel) -> bool:
    """Return whether nothing else reads what a NaN would be missed in."""
    largest, power = softmax.largest, softmax.power
    outputs = set(kernel.outputs)
    if largest.out in outputs or power.out in outputs:
        return False
    if _readers(largest, kernel) != [power]:
        return False
    return set(_readers(power, kernel)) == {softmax.total, softmax.weights}


def _readers(stage: Stage, kernel: Kernel) -> list[Stage]:
    return [s for s in kernel.stages if s.reads(stage.out)]


def _without_nan(stage: Stage) -> Stage:
    return replace(stage, reduction=replace(stage.reduction, drops_nan=True))


def _axes(load: Load) -> set[Expr]:
    return {index for index in load.index if isinstance(index, AxisRef)}


def _terms(stage: Stage) -> int:
    return math.prod(axis.extent for axis in stage.reduced)

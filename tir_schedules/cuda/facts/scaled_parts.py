"""Rows of exps in parts, each less the largest of its part: sums are scaled when they are added up.

rewrite: m[i] = max_k x(i, k); s[i] = sum_k exp(x(i, k) - m[i]) * v(i, k)
      -> mp[p, i] = max_k x(i, pk); sp[p, i] = sum_k exp(x(i, pk) - mp[p, i]) * v(i, pk)
         m[i] = max_p mp[p, i]; c[p, i] = exp(mp[p, i] - m[i]); s[i] = sum_p sp[p, i] * c[p, i]
A divisor of all terms divides the sum (`rewrites.late_division`).
Nothing waits for the whole row, whose exps are read once: a softmax takes two launches, attention
of any length keeps its scores in blocks. Source: online softmax (arXiv 1805.02867, section 3) with
parts side by side (Flash-Decoding). An infinite v whose weight is no float may give an infinity in
the place of NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import ml_dtypes

from ...kernel_ir.expr import (
    NEVER_ABOVE_ZERO,
    Axis,
    AxisRef,
    Const,
    Expr,
    Load,
    Op,
    Tensor,
    transform_loads,
)
from ...kernel_ir.stage import Kernel, Reduction, Stage, fresh_axes, substitute_axes
from ...rewrites.inline import inline_into
from ..plan.parts import Parts
from .cut import Cut
from .given_away import given_away
from .scaled_rows import EXP, ScaledRow, axes_along, factors_of, is_load, moves

_SUM = Reduction("sum", 0.0)


def in_scaled_parts(kernel: Kernel, row: ScaledRow, count: int) -> Kernel:
    """Return the kernel with the sums of a row in about so many parts."""
    made = _Parts(row, count)
    stages: list[Stage] = []
    for stage in kernel.stages:
        if stage is row.largest:
            stages += made.largest()
        elif stage in row.powers:
            stages += [made.power(stage), stage]
        elif stage in row.sums:
            stages += made.sums(stage)
        else:
            stages.append(stage)
    read = {load.tensor for stage in stages for load in stage.loads()}
    kept = tuple(s for s in stages if s not in row.powers or s.out in {*read, *kernel.outputs})
    return Kernel(kernel.name, kernel.params, kernel.outputs, kept)


class _Parts:
    """The stages of a row in parts: each has its axes to itself."""

    def __init__(self, row: ScaledRow, count: int) -> None:
        self._row = row
        (axis,) = row.largest.reduced
        self._cut = Cut.into(axis.extent, count)
        self._largest = self._tensor(row.largest.out, Parts)
        self._scale = self._tensor(row.largest.out, Tensor, "scale")
        self._powers: dict[Tensor, Tensor] = {}

    def _tensor(self, made: Tensor, kind: type[Tensor], name: str = "parts") -> Tensor:
        return kind(f"{made.name}_{name}", (self._cut.count, *made.shape), made.dtype)

    def largest(self) -> list[Stage]:
        """Return the largest element of each part, that of all, and how parts are scaled."""
        stage, whole = self._row.largest, self._row.largest.out
        rule = stage.reduction
        part, inner = self._axes(stage.reduced[0])
        value = self._placed(stage.value, stage.reduced[0], part, inner)
        value = self._cut.guarded(value, part, inner, rule.start(whole.dtype))
        first = self._stage(stage, self._largest, part, inner, value)
        return [first, self._merged(stage, self._largest, rule, None), self._scaled(stage)]

    def _scaled(self, stage: Stage) -> Stage:
        part, own = Axis("part", self._cut.count), _copies(stage.spatial)
        index = tuple(substitute_axes(i, _refs(own)) for i in stage.out_index)
        here, all_of_it = Load(self._largest, (AxisRef(part), *index)), Load(stage.out, index)
        value = _power(Op("Sub", (here, all_of_it), here.dtype))
        axes = (part, *own.values())
        return Stage(self._scale.name, self._scale, axes, (AxisRef(part), *index), value)

    def power(self, stage: Stage) -> Stage:
        """Return the exps of each part less its own largest."""
        (axis,) = axes_along(stage, self._row.largest)
        part, inner = Axis("part", self._cut.count), Axis(axis.name, self._cut.size)
        shape = tuple(self._cut.size if a is axis else a.extent for a in stage.axes)
        out = Tensor(f"{stage.out.name}_parts", (self._cut.count, *shape), stage.out.dtype)
        self._powers[stage.out] = out
        value = self._placed(stage.value, axis, part, inner)
        value = self._cut.guarded(value, part, inner, 0.0)
        return fresh_axes(self._stage(stage, out, part, inner, value, axis))

    def sums(self, stage: Stage) -> list[Stage]:
        """Return the sums of each part, and what adds them up."""
        part, inner = self._axes(stage.reduced[0])
        factors, (undivided, divisors) = [], factors_of(stage)
        for factor in undivided:
            value = self._placed(factor, stage.reduced[0], part, inner)
            is_guarded = isinstance(value, Load) and value.tensor in self._powers.values()
            factors.append(value if is_guarded else self._cut.guarded(value, part, inner, 0.0))
        value = factors[0] if len(factors) == 1 else Op("Mul", tuple(factors), stage.value.dtype)
        made = self._tensor(stage.out, Parts)
        first = given_away(self._stage(stage, made, part, inner, value))
        whole = self._merged(stage, made, _SUM, self._bound_of(stage))
        if not divisors:
            return [*first, whole]
        kept = Tensor(f"{stage.out.name}_undivided", stage.out.shape, stage.out.dtype)
        return [*first, replace(whole, name=kept.name, out=kept), _divided(stage, kept, divisors)]

    def _bound_of(self, stage: Stage) -> Load:
        """Return the largest element that a sum's exps are less."""
        whole = stage
        for power in self._row.powers:
            if whole.reads(power.out):
                whole = inline_into(whole, power)
        return next(ld for ld in whole.loads() if ld.tensor is self._row.largest.out)

    def _merged(self, stage: Stage, made: Tensor, rule: Reduction, bound: Load | None) -> Stage:
        """Return what a part of each is put together by, scaled if there is a bound."""
        part, own = Axis("part", self._cut.count, is_reduce=True), _copies(stage.spatial)
        refs = _refs(own)
        index = tuple(substitute_axes(i, refs) for i in stage.out_index)
        value: Expr = Load(made, (AxisRef(part), *index))
        if bound is not None:
            place = tuple(substitute_axes(i, refs) for i in bound.index)
            value = Op("Mul", (value, Load(self._scale, (AxisRef(part), *place))), value.dtype)
        return Stage(stage.name, stage.out, (*own.values(), part), index, value, rule)

    def _axes(self, axis: Axis) -> tuple[Axis, Axis]:
        return Axis("part", self._cut.count), Axis(axis.name, self._cut.size, is_reduce=True)

    def _placed(self, value: Expr, axis: Axis, part: Axis, inner: Axis) -> Expr:
        """Return an expression at a place of a part, less the largest of that."""

        def rule(node: Expr) -> Expr | None:
            if is_load(node, self._row.largest.out):
                load = Load(self._largest, (AxisRef(part), *node.index))
                # Of a part that is all -inf the exps are 0, not NaN.
                least = float(ml_dtypes.finfo(load.dtype).min)
                return Op("Max", (load, Const(least, load.dtype)), load.dtype)
            if isinstance(node, Load) and node.tensor in self._powers:
                moved = (AxisRef(inner) if moves(i, axis) else i for i in node.index)
                return Load(self._powers[node.tensor], (AxisRef(part), *moved))
            return None

        return substitute_axes(transform_loads(value, rule), {axis: self._cut.place(part, inner)})

    def _stage(
        self,
        stage: Stage,
        out: Tensor,
        part: Axis,
        inner: Axis,
        value: Expr,
        axis: Axis | None = None,
    ) -> Stage:
        """Return a stage of each part in the place of one, along `inner` where it had an axis."""
        cut = stage.reduced[0] if axis is None else axis
        refs: Mapping[Axis, Expr] = {cut: AxisRef(inner)}
        axes = (part, *(inner if a is cut else a for a in stage.axes))
        index = (AxisRef(part), *(substitute_axes(i, refs) for i in stage.out_index))
        return Stage(out.name, out, axes, index, value, stage.reduction)


def _power(argument: Expr) -> Expr:
    mark = Op(NEVER_ABOVE_ZERO, (argument,), argument.dtype)
    return Op(EXP, (mark,), argument.dtype)


def _divided(stage: Stage, whole: Tensor, divisors: Sequence[Expr]) -> Stage:
    """Return what a stage makes of its sums before they are divided."""
    own = _copies(stage.spatial)
    index = tuple(substitute_axes(i, _refs(own)) for i in stage.out_index)
    value: Expr = Load(whole, index)
    for divisor in divisors:
        value = Op("Div", (value, substitute_axes(divisor, _refs(own))), value.dtype)
    return Stage(stage.name, stage.out, tuple(own.values()), index, value)


def _copies(axes: tuple[Axis, ...]) -> dict[Axis, Axis]:
    return {axis: Axis(axis.name, axis.extent) for axis in axes}


def _refs(axes: Mapping[Axis, Axis]) -> dict[Axis, Expr]:
    return {axis: AxisRef(own) for axis, own in axes.items()}

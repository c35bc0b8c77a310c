"""What of a kernel decides how it runs, as a key: equal for kernels that differ in names alone."""

from __future__ import annotations

from ...kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor
from ...kernel_ir.stage import Kernel, Stage

Row = tuple[object, ...]


def structure_of(kernel: Kernel) -> tuple[Row, ...]:
    """Return a key of stages, tensors and axes by their numbers in the order they are met."""
    made = _Structure()
    tensors = [(made.tensor(t), t.shape, t.dtype) for t in kernel.params]
    outputs = tuple(made.tensor(t) for t in kernel.outputs)
    return (outputs, *tensors, *map(made.stage, kernel.stages), *made.rows)


class _Structure:
    """Numbers what it meets; equal expressions have one row."""

    def __init__(self) -> None:
        self._tensors: dict[Tensor, int] = {}
        self._axes: dict[Axis, int] = {}
        self._known: dict[int, int] = {}  # by the id of an expression, which its kernel keeps
        self._numbers: dict[Row, int] = {}

    @property
    def rows(self) -> list[Row]:
        return list(self._numbers)

    def tensor(self, tensor: Tensor) -> int:
        return self._tensors.setdefault(tensor, len(self._tensors))

    def stage(self, stage: Stage) -> Row:
        out, rule = stage.out, stage.reduction
        for axis in stage.axes:
            self._axes.setdefault(axis, len(self._axes))
        return (
            (self.tensor(out), out.shape, out.dtype),
            tuple((self._axes[axis], axis.extent, axis.is_reduce) for axis in stage.axes),
            tuple(map(self._expr, stage.out_index)),
            self._expr(stage.value),
            None if rule is None else (rule.kind, repr(rule.identity), rule.drops_nan),
        )

    def _expr(self, expr: Expr) -> int:
        if id(expr) not in self._known:
            row = self._row(expr)
            self._known[id(expr)] = self._numbers.setdefault(row, len(self._numbers))
        return self._known[id(expr)]

    def _row(self, expr: Expr) -> Row:
        kids = tuple(map(self._expr, expr.children()))
        match expr:
            case Const():
                return "const", repr(expr.value), expr.dtype
            case AxisRef():
                return "axis", self._axes[expr.axis], expr.dtype
            case Load():
                return "load", self.tensor(expr.tensor), expr.tensor.shape, expr.dtype, kids
            case Op():
                return "op", expr.name, expr.dtype, repr(expr.extra), kids

"""A kernel by its reductions alone: what stands in front of them and behind them is left out.

A product with a bias and one with a bias, a residual and a GELU are alike to whoever decides about
registers and tiles.
"""

from __future__ import annotations

from ..kernel_ir.expr import Axis, AxisRef, Expr, Tensor
from ..kernel_ir.stage import Kernel, Stage

_Made = frozenset[int]  # the numbers of the reductions that a tensor is made of


def skeleton(kernel: Kernel) -> str | None:
    """Return reductions, what they read by which axes, and how they depend; None without any.

    No sizes are in it but whether an axis that is reduced has a single element: a window of 1 x 1
    is none, while a batch of 1 is a batch.
    """
    made: dict[Tensor, _Made] = {}
    lines: list[str] = []
    for stage in kernel.stages:
        of = frozenset().union(*(made.get(load.tensor, frozenset()) for load in stage.loads()))
        if stage.reduction is not None:
            lines.append(_line(stage, made))
            of = frozenset([len(lines) - 1])
        made[stage.out] = made.get(stage.out, frozenset()) | of
    if not lines:
        return None
    results = sorted(_numbers(made.get(out, frozenset())) for out in kernel.outputs)
    return "\n".join([*lines, f"return {' '.join(results)}"])


def _line(stage: Stage, made: dict[Tensor, _Made]) -> str:
    """Return a reduction in a line: its axes in order, and what it reads along which of them."""
    axes = {axis: number for number, axis in enumerate(stage.axes)}
    roles = " ".join(map(_role, stage.axes))

    def along(index: Expr) -> str:
        return str(axes[index.axis]) if isinstance(index, AxisRef) else "*"

    reads = {
        f"{_numbers(made.get(load.tensor, frozenset()))}[{' '.join(map(along, load.index))}]"
        for load in stage.loads()
    }
    kind, dtype = stage.reduction.kind, stage.out.dtype
    return f"{kind} {dtype} over {roles} of {' '.join(sorted(reads))}"


def _role(axis: Axis) -> str:
    if not axis.is_reduce:
        return "s"
    return "r1" if axis.extent == 1 else "r"


def _numbers(made: _Made) -> str:
    return "+".join(map(str, sorted(made))) or "p"

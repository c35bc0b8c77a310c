"""A kernel by what it computes, whatever its tensors are called: the key of what was measured.

TVM's structural hash keeps names of parameters and is of one release; this text is ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor
from ..kernel_ir.stage import Kernel, Stage
from .skeleton import skeleton

FORMAT = 1  # of the text: another text, another number


@dataclass(frozen=True)
class Workload:
    """What a kernel computes, as text.

    Kernels of one key are the same, those of one structure but for their sizes, and if they reduce
    but for what is computed of each point. Both are 64 hexadecimal digits.
    """

    key: str
    structure: str
    text: str


def workload_of(kernel: Kernel) -> Workload:
    """Return a kernel's workload: the same for kernels that differ in names alone."""
    text = _Writer(repr, str).kernel(kernel)
    structure = skeleton(kernel) or _Writer(_alike, _sized).kernel(kernel)
    return Workload(_hash(text), _hash(structure), text)


def _hash(text: str) -> str:
    return hashlib.sha256(f"{FORMAT}\n{text}".encode()).hexdigest()


def _alike(value: Any) -> str:
    """Constants that follow from sizes, as the 1/n of a mean does, are all alike but 1."""
    return "1" if value == 1 else "n"


def _sized(_extent: int) -> str:
    """Sizes are all alike: what has one element and is not read along an axis says so by that."""
    return "n"


class _Writer:
    """Numbers tensors, axes and nodes as they are met; a node that is shared is written once."""

    def __init__(self, number: Callable[[Any], str], size: Callable[[int], str]) -> None:
        self._number, self._size = number, size
        self._tensors: dict[Tensor, int] = {}
        self._axes: dict[Axis, int] = {}
        self._nodes: dict[Expr, int] = {}
        self._lines: list[str] = []

    def kernel(self, kernel: Kernel) -> str:
        for param in kernel.params:
            self._tensor(param)
        for stage in kernel.stages:
            self._stage(stage)
        outputs = " ".join(self._tensor(t) for t in kernel.outputs)
        return "\n".join([*self._lines, f"return {outputs}"])

    def _stage(self, stage: Stage) -> None:
        axes = " ".join(self._axis(axis) for axis in stage.axes)
        out = self._tensor(stage.out)
        index = " ".join(self._expr(each) for each in stage.out_index)
        value, how = self._expr(stage.value), ""
        if (reduction := stage.reduction) is not None:
            drops = " drops nan" if reduction.drops_nan else ""
            how = f" {reduction.kind} from {reduction.identity!r}{drops}"
        self._lines.append(f"for {axes}: {out}[{index}] ={how} {value}")

    def _tensor(self, tensor: Tensor) -> str:
        if tensor not in self._tensors:
            self._tensors[tensor] = len(self._tensors)
            shape = " ".join(map(self._size, tensor.shape))
            self._lines.append(f"t{self._tensors[tensor]} {tensor.dtype}[{shape}]")
        return f"t{self._tensors[tensor]}"

    def _axis(self, axis: Axis) -> str:
        if axis not in self._axes:
            self._axes[axis] = len(self._axes)
        reduced = "r" if axis.is_reduce else ""
        return f"a{self._axes[axis]}{reduced}:{self._size(axis.extent)}"

    def _expr(self, expr: Expr) -> str:
        if isinstance(expr, AxisRef):
            return f"a{self._axes[expr.axis]}"
        if isinstance(expr, Const):
            return f"{self._number(expr.value)}:{expr.dtype}"
        if expr not in self._nodes:
            written = self._written(expr)  # its operands take their numbers first
            self._nodes[expr] = len(self._nodes)
            self._lines.append(f"  n{self._nodes[expr]} = {written}")
        return f"n{self._nodes[expr]}"

    def _written(self, expr: Expr) -> str:
        if isinstance(expr, Load):
            index = " ".join(self._expr(each) for each in expr.index)
            return f"{self._tensor(expr.tensor)}[{index}]"
        if not isinstance(expr, Op):
            raise TypeError(f"{type(expr).__name__} is no expression")
        extra = "".join(f" {each!r}" for each in expr.extra)
        arguments = " ".join(self._expr(each) for each in expr.args)
        return f"{expr.name}{extra} {arguments} {expr.dtype}"

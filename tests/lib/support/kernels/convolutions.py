"""Convolutions of any shape, and the kernel that one becomes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from hypothesis import strategies as st
from zoo.graph import Graph

from support.kernels import stitch_case as sc
from support.kernels.planned import kernels
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.cpu.plan.kernel_plan import Plan


@dataclass(frozen=True)
class Line:
    """One axis of a convolution; `extra` is the output padding of a transposed one."""

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pads: tuple[int, int] = (0, 0)
    extra: int = 0

    def made(self, transposed: bool) -> int:
        reach = (self.kernel - 1) * self.dilation + 1
        if transposed:
            return (self.size - 1) * self.stride + reach - sum(self.pads) + self.extra
        return (self.size + sum(self.pads) - reach) // self.stride + 1


def convolution(
    channels: tuple[int, int],
    lines: list[Line],
    groups: int = 1,
    transposed: bool = False,
    batch: int = 1,
    behind: bool = False,
) -> onnx.ModelProto:
    """A convolution, its bias and a relu; `behind` another one, which leaves channels last."""
    g, (depth, outs) = Graph("convolution"), channels
    x = g.input("x", (batch, depth, *(line.size for line in lines)))
    if behind:
        x = g.op("Conv", x, g.weight("v", (depth, depth, *[1] * len(lines)), std=0.3))
    sides = (depth, outs // groups) if transposed else (outs, depth // groups)
    w = g.weight("w", (*sides, *(line.kernel for line in lines)), std=0.3)
    options = {
        "strides": [line.stride for line in lines],
        "dilations": [line.dilation for line in lines],
        "pads": [line.pads[side] for side in (0, 1) for line in lines],
        "group": groups,
    }
    if transposed:
        options["output_padding"] = [line.extra for line in lines]
    y = g.op("ConvTranspose" if transposed else "Conv", x, w, g.weight("b", (outs,)), **options)
    g.output(g.op("Relu", y), "y", (batch, outs, *(line.made(transposed) for line in lines)))
    return g.model()


@st.composite
def axes(draw: st.DrawFn, transposed: bool, most: int) -> Line:
    """One axis whose result has pixels, of paddings that differ."""
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    dilation = draw(st.integers(1, 3))
    pads = draw(st.tuples(st.integers(0, kernel), st.integers(0, kernel)))
    extra = draw(st.integers(0, stride - 1)) if transposed else 0
    size = draw(st.integers(1, most))
    while Line(size, kernel, stride, dilation, pads, extra).made(transposed) < 1:
        size += 1
    return Line(size, kernel, stride, dilation, pads, extra)


def square(size: int, kernel: int, rank: int = 2, **options: object) -> list[Line]:
    return [Line(size, kernel, **options)] * rank


def convolving(model: onnx.ModelProto) -> tuple[list[str], Plan]:
    """Return the ops that share a kernel with the convolution, and its plan."""
    (group,) = (g for g in kernels(model) if any("conv" in n.name for n in g.nodes))
    reason, plan = accepted_plan(group.kernel(), sc.device(2))
    assert reason is None
    return [node.name for node in group.nodes], plan

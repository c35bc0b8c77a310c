"""Convolutions of mobile, patch, grouped, dilated, transposed, 1-D and 3-D kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import onnx
from bench_compute import Case
from zoo.graph import Graph


@dataclass(frozen=True)
class Conv:
    """A convolution of one image; sizes, strides and dilations are the same along each axis."""

    channels: int
    filters: int
    size: int
    kernel: int
    stride: int = 1
    groups: int = 1
    dilation: int = 1
    rank: int = 2

    def __str__(self) -> str:
        told = f"{self.channels} to {self.filters} of {self.size}^{self.rank} by {self.kernel}"
        told += f", stride {self.stride}" if self.stride > 1 else ""
        told += f", {self.groups} groups" if self.groups > 1 else ""
        return told + (f", dilation {self.dilation}" if self.dilation > 1 else "")

    @property
    def pad(self) -> int:
        return 0 if self.kernel == self.stride else self.dilation * (self.kernel - 1) // 2

    @property
    def out(self) -> int:
        return (self.size + 2 * self.pad - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def flops(self) -> int:
        weights = self.filters * self.channels // self.groups * self.kernel**self.rank
        return 2 * weights * self.out**self.rank

    def model(self) -> onnx.ModelProto:
        graph = Graph("conv")
        x = graph.input("x", (1, self.channels, *[self.size] * self.rank))
        shape = (self.filters, self.channels // self.groups, *[self.kernel] * self.rank)
        weights = graph.weight("weight", shape), graph.weight("bias", (self.filters,))
        y = graph.op(
            "Conv",
            x,
            *weights,
            strides=[self.stride] * self.rank,
            pads=[self.pad] * (2 * self.rank),
            dilations=[self.dilation] * self.rank,
            group=self.groups,
        )
        graph.output(graph.op("Relu", y), "y", (1, self.filters, *[self.out] * self.rank))
        return graph.model()


_2D = [
    *(Conv(24, 144, 56, 1), Conv(40, 240, 28, 1), Conv(240, 40, 28, 1), Conv(24, 58, 28, 1)),
    *(Conv(320, 320, 64, 1), Conv(64, 1, 128, 1), Conv(17, 31, 41, 3), Conv(64, 3, 224, 3)),
    *(Conv(56, 56, 56, 3), Conv(96, 96, 28, 3), Conv(120, 120, 28, 3), Conv(320, 320, 32, 3)),
    *(Conv(3, 32, 224, 3, 2), Conv(3, 96, 224, 7, 2), Conv(3, 48, 224, 4, 4)),
    *(Conv(144, 144, 56, 3, groups=144), Conv(96, 96, 56, 7, groups=96)),
    *(Conv(72, 72, 28, 5, 2, 72), Conv(88, 88, 14, 5, groups=88), Conv(58, 58, 28, 3, groups=58)),
    *(Conv(116, 116, 14, 3, 2, 116), Conv(16, 16, 112, 3, groups=16)),
    *(Conv(128, 128, 28, 3, groups=32), Conv(256, 256, 14, 3, groups=32)),
    *(Conv(48, 48, 56, 3, groups=2), Conv(112, 112, 28, 3, groups=7)),
    *(Conv(256, 256, 32, 3, dilation=2), Conv(256, 256, 32, 3, dilation=4)),
]
_1D = [
    *(Conv(80, 512, 1000, 5), Conv(512, 512, 500, 3, dilation=2), Conv(1, 512, 16000, 10, 5)),
    *(Conv(768, 768, 200, 15, groups=768), Conv(256, 256, 400, 31, groups=256)),
    Conv(64, 64, 2000, 3, dilation=8),
]
_3D = [Conv(16, 32, 24, 3, rank=3), Conv(3, 24, 32, 3, 2, rank=3)]
_TRANSPOSED = [  # channels, filters, size, kernel, stride, pad, rank
    *((256, 128, 16, 2, 2, 0, 2), (128, 64, 32, 4, 2, 1, 2), (64, 21, 56, 16, 8, 4, 2)),
    *((512, 256, 8, 3, 2, 1, 2), (256, 128, 100, 16, 8, 4, 1)),
]


def _transposed(
    channels: int, filters: int, size: int, kernel: int, stride: int, pad: int, rank: int
) -> onnx.ModelProto:
    graph = Graph("conv_transpose")
    x = graph.input("x", (1, channels, *[size] * rank))
    weight = graph.weight("weight", (channels, filters, *[kernel] * rank))
    y = graph.op("ConvTranspose", x, weight, strides=[stride] * rank, pads=[pad] * 2 * rank)
    out = (size - 1) * stride - 2 * pad + kernel
    graph.output(y, "y", (1, filters, *[out] * rank))
    return graph.model()


def cases() -> Iterator[Case]:
    """Yield the convolutions, each with a bias and an activation, but for transposed ones."""
    for each in (*_2D, *(replace(each, rank=1) for each in _1D), *_3D):
        yield Case(f"conv{each.rank}d", str(each), each.flops, each.model)
    for each in _TRANSPOSED:
        channels, filters, size, kernel, stride, _, rank = each
        told = f"{channels} to {filters} of {size}^{rank} by {kernel}, stride {stride}"
        flops = 2 * channels * filters * kernel**rank * size**rank
        yield Case(f"conv_transpose{rank}d", told, flops, partial(_transposed, *each))

"""A reduction over windows of a padded image as a PrimFunc, and what it must give."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.convolutions import Line
from support.kernels.scheduled import run
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = sc.device(2)


@dataclass(frozen=True)
class Image:
    """A window over a padded image of one channel a plane: `kind` is what it reduces by."""

    channels: int
    lines: tuple[Line, ...]
    dtype: str = "float32"
    kind: str = "sum"
    last: bool = False

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        sizes, kernel = [n.size for n in self.lines], [n.kernel for n in self.lines]
        if self.last:
            shapes = ((*sizes, self.channels), (*kernel, self.channels))
        else:
            shapes = ((self.channels, *sizes), (self.channels, *kernel))
        image, weight = (rng.standard_normal(shape).astype(self.dtype) for shape in shapes)
        return image, weight

    def func(self) -> tirx.PrimFunc:
        rank, last, low = len(self.lines), self.last, 0.0 if self.kind == "sum" else -np.inf
        image, weight = (te.placeholder(a.shape, self.dtype, n) for a, n in
                         zip(self.arrays(), ("image", "weight"), strict=True))  # fmt: skip
        fill = tirx.FloatImm(self.dtype, low)
        before = [n.pads[0] for n in self.lines]

        def pixel(at: tuple) -> tuple[tuple, object]:
            return (at[:rank], at[rank]) if last else (at[1:], at[0])

        def place(pixels: list, channel: object) -> tuple:
            return (*pixels, channel) if last else (channel, *pixels)

        def padded(*at: te.Var) -> te.Expr:
            pixels, channel = pixel(at)
            inside = [
                tirx.all(p >= b, p < b + n.size)
                for p, b, n in zip(pixels, before, self.lines, strict=True)
            ]
            here = place([p - b for p, b in zip(pixels, before, strict=True)], channel)
            return tirx.if_then_else(tirx.all(*inside), image[here], fill)

        wide = [n.size + sum(n.pads) for n in self.lines]
        pad = te.compute(place(wide, self.channels), padded, "pad")
        taps = [te.reduce_axis((0, n.kernel), f"k{i}") for i, n in enumerate(self.lines)]

        def value(*at: te.Var) -> te.Expr:
            pixels, channel = pixel(at)
            here = [
                p * n.stride + t * n.dilation
                for p, t, n in zip(pixels, taps, self.lines, strict=True)
            ]
            read = pad[place(here, channel)]
            if self.kind == "max":
                return te.max(read, axis=taps)
            return te.sum(read * weight[place(taps, channel)], axis=taps)

        made = [n.made(False) for n in self.lines]
        out = te.compute(place(made, self.channels), value, "out")
        return te.create_prim_func([image, weight, out])

    def expected(self) -> np.ndarray:
        image, weight = (a.astype("float64") for a in self.arrays())
        if self.last:
            image, weight = np.moveaxis(image, -1, 0), np.moveaxis(weight, -1, 0)
        low = 0.0 if self.kind == "sum" else -np.inf
        pads = [(0, 0), *(n.pads for n in self.lines)]
        image = np.pad(image, pads, constant_values=low)
        out = np.full((self.channels, *(n.made(False) for n in self.lines)), low)
        for taps in itertools.product(*(range(n.kernel) for n in self.lines)):
            cut = [
                slice(t * n.dilation, t * n.dilation + (n.made(False) - 1) * n.stride + 1, n.stride)
                for t, n in zip(taps, self.lines, strict=True)
            ]
            part = image[(slice(None), *cut)]
            if self.kind == "max":
                out = np.maximum(out, part)
            else:
                each = weight[(slice(None), *taps)]
                out += part * each.reshape(-1, *[1] * len(self.lines))
        return np.moveaxis(out, 0, -1) if self.last else out


def emitted(image: Image, device=DEVICE) -> tuple[Plan, tirx.PrimFunc]:
    func = image.func()
    plan = plan_prim_func(func, device)
    assert isinstance(plan, Plan), plan
    return plan, emit_plan(plan, func)


def assert_right(image: Image, device=DEVICE) -> None:
    expected = image.expected()
    got = np.full(expected.shape, 7, image.dtype)
    run(emitted(image, device)[1], *image.arrays(), got)
    sc.assert_close({"y": got}, {"y": expected}, sc.BOUND[image.dtype])

"""Kernels that measure a CPU, and how each is to run: changes of its default decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import te, tirx, topi

F32 = 4  # bytes
LIGHT_OPS = 8  # their constants stay in registers beside the accumulators
SHARE_BYTES = 256 << 10  # of a thread; two of them fit L2
PAGE, PANELS = 4096, 3

Map = Callable[[te.Tensor], te.Tensor]
Change = Callable[[Any], Any]  # of the decisions of a kernel


def prim_func(*tensors: te.Tensor) -> tirx.PrimFunc:
    return te.create_prim_func(list(tensors))


def elementwise(elements: int) -> tirx.PrimFunc:
    x = te.placeholder((elements,), "float32", "x")
    return prim_func(x, te.compute((elements,), lambda i: tirx.abs(x[i]), "out"))


def shares(threads: int, shift: int) -> tirx.PrimFunc:
    """Return an element-wise kernel whose threads read the share of the `shift`-th next one."""
    shape = (threads, SHARE_BYTES // F32)
    x = te.placeholder(shape, "float32", "x")

    def value(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        return tirx.abs(x[tirx.floormod(i + shift, threads), j])

    return prim_func(x, te.compute(shape, value, "out"))


def repeated_rows(body: Map, elements: int, rows: int) -> tirx.PrimFunc:
    x = te.placeholder((elements,), "float32", "x")
    s = te.placeholder((rows,), "float32", "s")
    j = te.reduce_axis((0, elements), "j")
    out = te.compute((rows,), lambda r: te.sum(body(x[j] * s[r]), j), "out")
    return prim_func(x, s, out)


def rows_a_page_apart(rows: int, lanes: int) -> tirx.PrimFunc:
    """Return the product of some rows of a page each and panels of a weight that fits L2."""
    depth = PAGE // F32
    x = te.placeholder((rows, depth), "float32", "x")
    weight = te.placeholder((PANELS, depth, lanes), "float32", "weight")
    k = te.reduce_axis((0, depth), "k")

    def value(row: tirx.Var, panel: tirx.Var, lane: tirx.Var) -> tirx.Expr:
        return te.sum(x[row, k] * weight[panel, k, lane], k)

    return prim_func(x, weight, te.compute((rows, PANELS, lanes), value, "out"))


def phases(threads: int, count: int) -> tirx.PrimFunc:
    """Return a kernel whose threads wait for each other: the largest of columns, of rows, ..."""
    value = x = te.placeholder((threads * 32, 256), "float32", "x")
    for step in range(count):
        value = topi.subtract(value, topi.max(value, step % 2, keepdims=True))
    return prim_func(x, value)


def columns(width: int | None) -> Change:
    """Walk all rows of some columns after the other, or all of each row."""

    def change(decisions: Any) -> Any:
        (phase,) = decisions.phases
        (nest,) = phase.nests
        nest = replace(nest, strip=len(nest.loops) - 1)
        (lane,) = nest.loops[-1:]
        tile = () if width is None else ((lane, width),)
        return replace(
            decisions, parallel=False, phases=(replace(phase, nests=(nest,), tile=tile),)
        )

    return change


def packing(wanted: bool) -> Change:
    def change(decisions: Any) -> Any:
        (phase,) = decisions.phases
        (nest,) = phase.nests
        nest = replace(nest, packed=wanted, next_tile=())
        return replace(decisions, parallel=False, phases=(replace(phase, nests=(nest,)),))

    return change


def parallel(wanted: bool) -> Change:
    return lambda decisions: replace(decisions, parallel=wanted)


def plain_stores(parallel: bool) -> Change:
    return lambda decisions: replace(decisions, parallel=parallel, streamed=())


def _light(value: tirx.Expr) -> tirx.Expr:
    """Return a chain of additions and products that no algebra shortens."""
    for step in range(LIGHT_OPS // 2):
        value = value * tirx.const(1.0 + step / 64, "float32")
        value = value + tirx.const(0.5 - step / 64, "float32")
    return value


MAPS: dict[str, Map] = {
    "light": _light,
    "divide": lambda v: tirx.const(1.5, "float32") / v,
    "sqrt": tirx.sqrt,
    "exp": tirx.exp,
    "log": tirx.log,
    "erf": tirx.erf,
    "tanh": tirx.tanh,
    "sigmoid": tirx.sigmoid,
    "pow": lambda v: tirx.pow(v, tirx.const(1.7, "float32")),
    "libm": tirx.sinh,
}

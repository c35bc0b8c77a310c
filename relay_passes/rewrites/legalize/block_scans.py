"""Cumulative sums and products as reductions of what stands before each element.

TVM's are loops that wait for each element's predecessor, which no template takes: a position of
ids counted in one cut a transformer in three kernels. A short axis is a masked reduction, lanes
beside each other; a long one is cut into blocks, each scanned by itself and what stands before it
added, which are the levels of a scan on wide machines (Blelloch, Prefix Sums and Their
Applications, 1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import ir, relax, te, tirx, topi
from tvm.ir import IRModule, Op
from tvm.ir.transform import PassContext
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.fuel import spend

from ...graph.graph_functions import rewritten
from ...policy import POLICY, GatherPolicy
from ..weights import static_shape

_HALF = ("float16", "bfloat16")


@dataclass(frozen=True)
class Scan:
    """What elements are combined by, and what changes none of them."""

    name: str
    reduce: Callable[..., te.Tensor]
    combine: Callable[[ir.Expr, ir.Expr], ir.Expr]
    neutral: int


SUM = Scan("cumsum", te.sum, lambda one, other: one + other, 0)
PRODUCT = Scan(
    "cumprod",
    te.comm_reducer(lambda one, other: one * other, lambda dtype: tirx.const(1, dtype)),
    lambda one, other: one * other,
    1,
)
SCANS = {f"relax.{scan.name}": scan for scan in (SUM, PRODUCT)}


@tvm.transform.module_pass(opt_level=0, name="BlockScans")
class BlockScans:
    """Make cumulative sums and products reductions. Runs before TVM makes loops of them.

    rewrite:
        cumsum(x) -> out[i] = sum(x[k] for k <= i)                      # up to policy.block of them
                     out[b, i] = cumsum(sum(x[b]), exclusive)[b] + sum(x[b, k] for k <= i)
    """

    def __init__(self, policy: GatherPolicy = POLICY.gathers) -> None:
        self._policy = policy

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        return rewritten(mod, lambda mod, _: _Rewriter(mod, self._policy.block))


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule, most: int) -> None:
        super().__init__(mod)
        self._most, self.found = most, False

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        value = binding.value
        name = value.op.name if isinstance(value, relax.Call) and isinstance(value.op, Op) else ""
        if name in SCANS and _has_elements(value) and spend("BlockScans", binding.var.name):
            self.found = True
            binding = relax.VarBinding(binding.var, self._blocks(value, SCANS[name]))
        super().visit_var_binding_(binding)

    def _blocks(self, call: relax.Call, scan: Scan) -> relax.Call:
        attrs, dtype = call.attrs, str(call.ty.dtype)
        wide = "float32" if dtype in _HALF else dtype

        def compute(x: te.Tensor) -> te.Tensor:
            if attrs.axis is None:
                x = topi.reshape(x, (math.prod(int(n) for n in x.shape),))
            axis = 0 if attrs.axis is None else int(attrs.axis) % len(x.shape)
            x = x if str(x.dtype) == wide else topi.cast(x, wide)
            made = _scanned(x, axis, scan, self._most, bool(attrs.exclusive))
            return made if wide == dtype else topi.cast(made, dtype)

        x = self.visit_expr(call.args[0])
        return self.builder_.call_te(compute, x, primfunc_name_hint=scan.name)


def _has_elements(call: relax.Call) -> bool:
    shape = static_shape(call.args[0])
    return shape is not None and math.prod(shape) > 0 and str(call.ty.dtype) != "bool"


def _scanned(x: te.Tensor, axis: int, scan: Scan, most: int, exclusive: bool) -> te.Tensor:
    extent = int(x.shape[axis])
    if extent <= most:
        return _block(x, axis, scan, exclusive)
    width = block_width(extent, most)
    count = -(-extent // width)
    blocks = _in_blocks(x, axis, (count, width), scan.neutral)
    inner = _block(blocks, axis + 1, scan, exclusive)
    k = te.reduce_axis((0, width), "k")
    whole = te.compute(
        [*x.shape[:axis], count, *x.shape[axis + 1 :]],
        lambda *at: scan.reduce(blocks(*at[: axis + 1], k, *at[axis + 1 :]), axis=k),
        "blocks",
    )
    before = _scanned(whole, axis, scan, most, exclusive=True)

    def element(*at: tirx.Var) -> ir.Expr:
        block, place = at[axis] // width, at[axis] % width
        of_block = before(*at[:axis], block, *at[axis + 1 :])
        return scan.combine(of_block, inner(*at[:axis], block, place, *at[axis + 1 :]))

    return te.compute(x.shape, element, scan.name)


def block_width(extent: int, most: int) -> int:
    """Return the extent of a block: the divisor nearest to half of `most`, or that without one."""
    half = most // 2
    whole = [width for width in range(half // 2, most + 1) if extent % width == 0]
    return min(whole, key=lambda width: abs(width - half), default=half)


def _in_blocks(x: te.Tensor, axis: int, shape: tuple[int, int], neutral: int) -> te.Tensor:
    """Return one axis as blocks, the last filled up with what changes nothing."""
    count, width = shape
    extent = int(x.shape[axis])

    def element(*at: tirx.Var) -> ir.Expr:
        place = at[axis] * width + at[axis + 1]
        value = x(*at[:axis], place, *at[axis + 2 :])
        if extent == count * width:
            return value
        return tirx.if_then_else(place < extent, value, tirx.const(neutral, x.dtype))

    return te.compute([*x.shape[:axis], count, width, *x.shape[axis + 1 :]], element, "in_blocks")


def _block(x: te.Tensor, axis: int, scan: Scan, exclusive: bool) -> te.Tensor:
    k = te.reduce_axis((0, int(x.shape[axis])), "k")
    neutral = tirx.const(scan.neutral, x.dtype)

    def element(*at: tirx.Var) -> ir.Expr:
        seen = k < at[axis] if exclusive else k <= at[axis]
        value = tirx.Select(seen, x(*at[:axis], k, *at[axis + 1 :]), neutral)
        return scan.reduce(value, axis=k)

    return te.compute(x.shape, element, scan.name)

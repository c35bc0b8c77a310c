"""Lay the intermediate tensors of a function out in as little memory as their lifetimes allow.

TVM's planner gives a tensor the first block that is free and not much smaller, and makes the block
larger: MobileNetV2's intermediates take 31 % more than the most that are alive at a time. Here all
lie in one arena. The largest is placed first, each in the smallest gap between those that are alive
with it (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm
from tvm import ir, relax, tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.device import LINE_BYTES
from tir_schedules.fuel import spend
from tir_schedules.kernel_ir.expr import dtype_bytes

from ..graph.graph_functions import graph_functions
from ..rewrites.weights import static_shape

PLACE = "tvm_stitch_place"  # of the runtime: a tensor in the memory of another
_ALLOCATION = "relax.builtin.alloc_tensor"
_PAGE = 4096  # of PooledAllocator
# What a variable holds: a tensor by the variable it is allocated as, a tuple of such, or others.
Held = relax.Var | tuple | None


@tvm.transform.module_pass(opt_level=0, name="PlanMemory")
class PlanMemory:
    """Place tensors that do not leave their function in one arena.

    rewrite:
        a = builtin.alloc_tensor([n]); f(x, a); b = builtin.alloc_tensor([n]); g(a, b)
        c = builtin.alloc_tensor([n]); f(b, c)
      -> arena = memory.alloc_tensor(memory.alloc_storage([2 * n]), [2 * n])
         a = call_packed("tvm_stitch_place", arena, 0, [n]); f(x, a)
         b = call_packed("tvm_stitch_place", arena, n, [n]); g(a, b)
         c = call_packed("tvm_stitch_place", arena, 0, [n]); f(b, c)

    Runs behind CallTIRRewrite, before StaticPlanBlockMemory finds nothing left to do.
    """

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        for gvar, func in graph_functions(mod):
            spans = [s for s in _spans(func, mod) if spend("PlanMemory", s.maker)]
            if spans:
                offsets = _offsets(spans)
                placer = _Placer(mod, offsets, _arena_bytes(func, offsets))
                placer.builder_.update_func(gvar, placer.visit_expr(func))
                mod = placer.builder_.get()
        return mod


@dataclass
class _Span:
    """An allocation, its bytes and the bindings from which to which it is in use.

    `maker` is the kernel that gets it first.
    """

    var: relax.Var
    bytes: int
    first: int
    last: int
    maker: str = ""

    def meets(self, other: _Span) -> bool:
        return self.first <= other.last and other.first <= self.last


def _offsets(spans: list[_Span]) -> dict[relax.Var, tuple[int, int]]:
    """Return where each allocation begins and ends."""
    placed: list[tuple[int, int, _Span]] = []
    for span in sorted(spans, key=lambda s: -s.bytes):
        size = -(-span.bytes // LINE_BYTES) * LINE_BYTES
        taken = sorted((low, high) for low, high, other in placed if other.meets(span))
        end, gaps = 0, []
        for low, high in taken:
            if low - end >= size:
                gaps.append((low - end, end))
            end = max(end, high)
        start = min(gaps)[1] if gaps else end
        placed.append((start, start + size, span))
    return {span.var: (low, high) for low, high, span in placed}


def _arena_bytes(func: relax.Function, offsets: dict[relax.Var, tuple[int, int]]) -> int:
    """Return the bytes of the arena, of other pages than any tensor that leaves the function has.

    TVM's allocator hands out last what came back last, by the number of pages: an arena as large
    as a result would change places with it at every call, and of exp, the sum of its columns and
    their quotient, 8 MiB each, two calls then take 900 us instead of 570 (Zen 4).
    """
    values = [b.value for block in func.body.blocks for b in block.bindings if b.var not in offsets]
    leaving = {-(-size // _PAGE) for value in values if (size := _allocated(value)) is not None}
    size = max(high for _, high in offsets.values())
    while -(-size // _PAGE) in leaving:
        size += _PAGE
    return size


def _spans(func: relax.Function, mod: IRModule) -> list[_Span]:
    """Return the allocations of a function that nothing but its kernels and views of them reads."""
    spans: dict[relax.Var, _Span] = {}
    held: dict[relax.Var, Held] = {}

    def keep(expr: relax.Expr) -> None:
        for var in relax.analysis.free_vars(expr):
            for root in _roots(held.get(var)):
                spans.pop(root, None)

    for number, binding in enumerate(b for block in func.body.blocks for b in block.bindings):
        var, value = binding.var, binding.value
        if (size := _allocated(value)) is not None:
            spans[var] = _Span(var, size, number, number)
            held[var] = var
        elif _calls_kernel(value, mod):
            for argument in value.args:
                for root in _roots(_holding(argument, held)):
                    if root in spans:
                        spans[root].last = number
                        spans[root].maker = spans[root].maker or value.op.name_hint
        elif (holding := _holding(value, held)) is not None:
            held[var] = holding
        else:
            keep(value)
    keep(func.body.body)
    return list(spans.values())


def _holding(expr: relax.Expr, held: dict[relax.Var, Held]) -> Held:
    """Return what an expression holds of allocations, None if it makes something else of them."""
    if isinstance(expr, relax.Var):
        return held.get(expr)
    if isinstance(expr, relax.Tuple):
        return tuple(_holding(part, held) for part in expr.fields)
    if isinstance(expr, relax.TupleGetItem):
        parts = _holding(expr.tuple_value, held)
        return parts[expr.index] if isinstance(parts, tuple) else None
    if isinstance(expr, relax.Call) and getattr(expr.op, "name", "") == "relax.reshape":
        return _holding(expr.args[0], held)
    return None


def _calls_kernel(value: relax.Expr, mod: IRModule) -> bool:
    called = isinstance(value, relax.Call) and isinstance(value.op, ir.GlobalVar)
    return called and isinstance(mod[value.op], tirx.PrimFunc)


def _roots(held: Held) -> list[relax.Var]:
    if isinstance(held, tuple):
        return [root for part in held for root in _roots(part)]
    return [] if held is None else [held]


def _allocated(value: relax.Expr) -> int | None:
    """Return the bytes of a tensor of known shape, with elements, that is allocated here."""
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != _ALLOCATION:
        return None
    shape = static_shape(value)
    if shape is None or 0 in shape:
        return None
    return math.prod(shape) * dtype_bytes(str(value.ty.dtype))


@relax.expr_functor.mutator
class _Placer(relax.PyExprMutator):
    """Takes the arena before the first tensor in it."""

    def __init__(
        self, mod: IRModule, offsets: dict[relax.Var, tuple[int, int]], arena_bytes: int
    ) -> None:
        super().__init__(mod)
        self._offsets, self._arena_bytes, self._arena = offsets, arena_bytes, None

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self._offsets:
            value = self._placed(self._offsets[binding.var][0], binding.value)
            binding = relax.VarBinding(binding.var, value)
        super().visit_var_binding_(binding)

    def _placed(self, offset: int, call: relax.Call) -> relax.Call:
        shape, dtype, device, scope = call.args
        if self._arena is None:
            self._arena = self._allocated(device, scope)
        at = tirx.IntImm("int64", offset)
        place = relax.ExternFunc(PLACE)
        return relax.Call(place, [self._arena, at, shape, dtype], ty_args=[call.ty])

    def _allocated(self, device: relax.Expr, scope: relax.Expr) -> relax.Var:
        size = relax.ShapeExpr([self._arena_bytes])
        storage = relax.op.memory.alloc_storage(size, device, scope, "uint8")
        storage = self.builder_.emit(storage, "storage")
        zero = tirx.IntImm("int64", 0)
        return self.builder_.emit(
            relax.op.memory.alloc_tensor(storage, zero, size, "uint8", device), "arena"
        )

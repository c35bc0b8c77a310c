"""Turn stage expressions into TensorIR: hoist what a loop does not change, bind what is shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from tvm import ir, tirx

from ....kernel_ir.expr import NEVER_ABOVE_ZERO, AxisRef, Const, Expr, Load, Op
from ....kernel_ir.sharing import BRANCH, open_children, used_again
from ....tensor_ir.conditions import opposite
from ....tensor_ir.numbers import INDEX, cast, constant
from ....tensor_ir.unsigned import compared, is_unsigned
from ....vector_math import lower, nan_max, nan_min, opaque_one, opaque_zero
from . import bfloat16, hidden

_BINARY = {
    name: getattr(tirx, name)
    for name in (
        *("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"),
        *("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift", "RShift"),
    )
}
_BOOLEAN = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "NE", "BitwiseNot": "Not"}
_PRIM = frozenset(("if_then_else", "log2", "ceil", "clz"))  # registered as prim.*, not tirx.*
_SMOOTH = frozenset(("call:tirx.erf", "call:tirx.tanh"))
_CHOICES = frozenset((BRANCH, "Select", "Max", "Min", NEVER_ABOVE_ZERO))
_LONG = 64  # operations, written out; TVM's simplifier takes minutes for some thousands of choices


class Scope:
    """Values computed once at one point of a nest, visible to the loops inside it.

    They live in buffers of one element a lane, which LLVM keeps in registers. Bound variables would
    not do: TVM's analyzer puts the value back in place of the variable in every pass.
    """

    def __init__(self, outer: Scope | None = None, lane: ir.Var | None = None, lanes: int = 1):
        self.allocs: list[tirx.Stmt] = []
        self.stores: list[tirx.Stmt] = []
        self._values: dict[Expr, ir.Expr] = {}
        self._outer, self._lanes = outer, lanes
        self._index: ir.Expr = lane if lane is not None else tirx.IntImm(INDEX, 0)

    @property
    def lane(self) -> ir.Var | None:
        return self._index if isinstance(self._index, tirx.Var) else None

    def get(self, expr: Expr) -> ir.Expr | None:
        scope: Scope | None = self
        while scope is not None:
            if expr in scope._values:
                return scope._values[expr]
            scope = scope._outer
        return None

    def bind(self, expr: Expr, value: ir.Expr) -> ir.Expr:
        """Compute `value` here, once, for everything that asks for `expr` from now on."""
        value = rounded(expr, value)
        if isinstance(value, tirx.IntImm | tirx.FloatImm):
            self._values[expr] = value
            return value
        dtype = str(value.ty.dtype)
        memory = "int8" if dtype == "bool" else dtype
        buffer = tirx.decl_buffer((self._lanes,), memory, "t")
        self.allocs.append(tirx.AllocBuffer(buffer))
        self.stores.append(tirx.BufferStore(buffer, cast(value, memory), [self._index]))
        self._values[expr] = cast(tirx.BufferLoad(buffer, [self._index]), dtype)
        return self._values[expr]


class Emitter:
    """Emits expressions at a point; `load` and `axis` resolve what the nest knows."""

    def __init__(
        self,
        load: Callable[[Load, Scope], ir.Expr],
        axis: Callable[[AxisRef], ir.Expr],
        vector_bytes: int,
    ) -> None:
        self._load, self._axis = load, axis
        self._scalef = vector_bytes == 64

    def emit(self, expr: Expr, scope: Scope) -> ir.Expr:
        known = scope.get(expr)
        if known is not None:
            return known
        if isinstance(expr, Const):
            return constant(expr.value, expr.dtype)
        if isinstance(expr, AxisRef):
            return cast(self._axis(expr), expr.dtype)
        if isinstance(expr, Load):
            return self._load(expr, scope)
        assert isinstance(expr, Op)
        if expr.name in _SMOOTH:
            expr = _times_reciprocal(expr, scope)
        if expr.name == "call:tirx.log":
            expr = _log_of_sum(expr)
        if expr.name == "call:tirx.atanh":
            return self.emit(_difference_of_logs(expr), scope)
        args = [self.emit(a, scope) for a in expr.args]
        if expr.name in hidden.COMPARED and scope.lane is not None:
            args = hidden.positions(args, scope.lane)
        if expr.name in hidden.DIVISIONS and scope.lane is not None:
            args = hidden.conditions(expr, args)
        return self._op(expr, args)

    def _op(self, expr: Op, args: list[ir.Expr]) -> ir.Expr:
        name = expr.name
        if name in ("Max", "Min") and expr.dtype.startswith(("float", "bfloat")):
            return (nan_max if name == "Max" else nan_min)(*args)
        if name == "Sub" and expr.dtype.startswith(("float", "bfloat")):
            # TVM simplifies floats as reals (x - x to 0, (x + y) - x to y), but not this form; LLVM
            # makes one subtraction of it.
            whole, part = map(rounded, expr.args, args)
            return tirx.Add(whole, tirx.Mul(part, tirx.FloatImm(expr.dtype, -1.0)))
        if name == "Add":
            args = [rounded(*pair) for pair in zip(expr.args, args, strict=True)]
        if expr.dtype == "bool" and name in _BOOLEAN:
            name = _BOOLEAN[name]
        if name == "Not":
            return opposite(args[0])
        if name in ("Mul", "Div"):
            args = [_unfolded(args[0]), _unfolded(args[1]) if name == "Mul" else args[1]]
        if name == "Div" and isinstance(args[1], tirx.FloatImm) and args[1].value == 0:
            # TVM aborts on a division by a literal zero; this gives the same infinities and NaN.
            infinity = math.copysign(math.inf, args[1].value)
            return tirx.Mul(args[0], tirx.FloatImm(expr.dtype, infinity))
        if name in ("EQ", "NE"):
            args = _comparable(expr, args)
        if name == "NE" and str(args[0].ty.dtype).startswith("float"):
            return opposite(tirx.EQ(*args))
        if name == "Sub" and is_unsigned(args[0]):
            return tirx.Sub(hidden.value(args[0]), args[1])
        if (made := compared(name, args)) is not None:
            return made
        if name in _BINARY:
            return _BINARY[name](*args)
        if name == "Cast" and "bfloat16" in (expr.dtype, expr.args[0].dtype):
            return bfloat16.convert(args[0], expr.args[0].dtype, expr.dtype)
        if name == "Cast":
            return cast(args[0], expr.dtype)
        if name == "BitwiseNot":
            return tirx.BitwiseNot(args[0])
        if name == "Select":
            return tirx.Select(*args)
        if name == NEVER_ABOVE_ZERO:
            return args[0]
        short = name.removeprefix("call:tirx.")
        op = ir.Op.get(f"prim.{short}" if short in _PRIM else f"tirx.{short}")
        if expr.extra:
            args = [tirx.IntImm("uint32", expr.extra[0]), *args]
        small = any(isinstance(a, Op) and a.name == NEVER_ABOVE_ZERO for a in expr.args)
        return lower(ir.Call(op, args, ret_ty=expr.dtype), self._scalef, small)


def rounded(expr: Expr, value: ir.Expr) -> ir.Expr:
    """Return a product that LLVM rounds before it is subtracted, added or kept; others as they are.

    A fused x * c - m, m the largest x * c as it was stored, is a little off 0: below it, perhaps,
    where a square root follows. So is a fused x * y + n, n the stored -x * y, which may come from
    another kernel. LLVM would fuse them in some loops and not in others: tiles of other sizes had
    other bits. It adds to each side of a condition too, and so to a product that is one. TVM writes
    -p as p * -1, which is rounded only if p is a product.
    """
    if not _may_be_product(expr) or isinstance(value, tirx.FloatImm):
        return value
    return tirx.call_llvm_pure_intrin(expr.dtype, "llvm.arithmetic.fence", value)


def _may_be_product(expr: Expr) -> bool:
    """Return whether an expression is a product, or one of those that it is chosen of."""
    if not isinstance(expr, Op) or expr.dtype not in ("float32", "float64"):
        return False
    if expr.name in _CHOICES:
        return any(map(_may_be_product, expr.args))
    if expr.name != "Mul":
        return False
    factors = [f for f in expr.args if not _is_minus_one(f)]
    return len(factors) != 1 or _may_be_product(factors[0])


def _is_minus_one(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == -1


def _unfolded(value: ir.Expr) -> ir.Expr:
    """Return a factor or dividend that is a literal zero so that TVM keeps it: 0 / 0 is NaN."""
    if isinstance(value, tirx.FloatImm) and value.value == 0:
        return opaque_zero(math.copysign(1.0, value.value) < 0, str(value.ty.dtype))
    return value


def _times_reciprocal(expr: Op, scope: Scope) -> Op:
    """Return f(x / c) as f(x * (1 / c)) for a constant c, unless the quotient is there anyway.

    Only for functions that turn one ulp of their argument into at most one of their result: a
    division takes as long as five products (`tvm-stitch calibrate`, Zen 5), but `floor(49 / 49)`
    must stay 1.
    """
    (quotient,) = expr.args
    if scope.get(quotient) is not None or not isinstance(quotient, Op):
        return expr
    if quotient.name != "Div" or quotient.dtype != "float32":
        return expr
    value, by = quotient.args
    if not isinstance(by, Const) or not 2.0**-126 <= abs(by.value) <= 2.0**126:
        return expr
    reciprocal = Const(float(np.float32(1.0 / by.value)), by.dtype)
    product = Op("Mul", (value, reciprocal), quotient.dtype)
    return Op(expr.name, (product,), expr.dtype, expr.extra)


def _log_of_sum(expr: Op) -> Op:
    """Return log(1 + x) as log1p(x), which keeps the digits of a small x.

    TVM's importer writes softplus so: without this, softplus(-20) would be 0.
    """
    (total,) = expr.args
    if not isinstance(total, Op) or total.name != "Add":
        return expr
    for one, other in (total.args, total.args[::-1]):
        if isinstance(one, Const) and one.value == 1.0:
            return Op("call:tirx.log1p", (other,), expr.dtype)
    return expr


def _difference_of_logs(expr: Op) -> Op:
    """Return atanh(x) by log1p: TVM's log(1 + x) - log(1 - x) is 0 for a small x."""
    (x,) = expr.args
    dtype = expr.dtype
    above = Op("call:tirx.log1p", (x,), dtype)
    below = Op("call:tirx.log1p", (Op("Mul", (x, Const(-1.0, dtype)), dtype),), dtype)
    return Op("Mul", (Op("Sub", (above, below), dtype), Const(0.5, dtype)), dtype)


def _comparable(expr: Op, args: list[ir.Expr]) -> list[ir.Expr]:
    """Return operands of == or != that TVM does not fold (x == x) or compare as floats (bools)."""
    if expr.args[0].dtype == "bool":
        return [tirx.Cast("int8", a) for a in args]
    dtype = str(args[0].ty.dtype)
    if dtype.startswith("float"):
        # Also of two loads that are one load in a lane: x[i, 2] == x[i, lane].
        return [tirx.Mul(args[0], opaque_one(dtype)), args[1]]
    return args


def hoist(
    roots: Iterable[Expr],
    depth_of: Callable[[Expr], int],
    limit: int,
    scopes: list[Scope],
    emitter: Emitter,
) -> None:
    """Bind every largest sub-expression that is settled before depth `limit` where it is settled.

    Of a long one, what it uses more than once is bound before it. Branches of if_then_else are left
    alone: their loads may only be legal under the condition.
    """
    seen: set[Expr] = set()

    def visit(expr: Expr, above: int) -> None:
        if expr in seen or isinstance(expr, (Const, AxisRef)):
            return
        depth = depth_of(expr)
        if depth < above and depth < limit:
            seen.add(expr)
            for child in open_children(expr):
                visit(child, depth)
            if _written_out(expr) > _LONG:
                share([expr], scopes[depth], emitter)
            scopes[depth].bind(expr, emitter.emit(expr, scopes[depth]))
            return
        for child in open_children(expr):
            visit(child, depth)
        seen.add(expr)

    for root in roots:
        visit(root, limit)


def _written_out(expr: Expr) -> int:
    """Return how many operations an expression is if each is written wherever it is used."""
    known: dict[Expr, int] = {}

    def size(part: Expr) -> int:
        if part not in known:
            known[part] = 1 + sum(map(size, open_children(part)))
        return known[part]

    return size(expr)


def share(roots: list[Expr], scope: Scope, emitter: Emitter) -> None:
    """Bind at this point what the roots use more than once, operands before users."""
    for expr in used_again(roots, lambda part: scope.get(part) is not None):
        scope.bind(expr, emitter.emit(expr, scope))

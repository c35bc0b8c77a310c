"""Stage expressions as CUDA computes them: its own functions, each operation rounded by itself.

What is named `__fadd_rn` and the like is rounded and never fused, and is no arithmetic to TVM,
which simplifies floats as reals: x - x to 0. A plain `expf` is within 2 ulp (CUDA C++ Programming
Guide, "Mathematical Functions"); TVM's own `exp` would be the fast one, of a few digits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from tvm import ir, tirx

from ...kernel_ir.expr import NEVER_ABOVE_ZERO, AxisRef, Const, Expr, Load, Op
from ...kernel_ir.sharing import BRANCH, used_again
from ...kernel_ir.stage import Reduction
from ...tensor_ir.conditions import opposite
from ...tensor_ir.numbers import cast, constant
from ...tensor_ir.unsigned import compared, is_unsigned

_ROUNDED = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
_PLAIN = {
    name: getattr(tirx, name)
    for name in (
        *("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"),
        *("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift", "RShift"),
    )
}
_BOOLEAN = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "NE", "BitwiseNot": "Not"}
# TVM's names of functions that CUDA names otherwise; others have TVM's.
_NAMES = {"nearbyint": "rint", "abs": "fabs"}
_FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "pow", "sqrt", "rsqrt"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot", "fmod", "erf"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "nextafter", "ldexp"),
        *("floor", "ceil", "trunc", "round", "nearbyint", "abs", "fabs", "copysign"),
    )
)
_PRIM = frozenset(("log2", "ceil", "clz"))  # registered as prim.*, not tirx.*


Way = Callable[[], ir.Expr]


class Emitter:
    """Emits expressions at a point; `load` and `axis` resolve what the nest knows.

    `bind` keeps a value for those that use it again, `choose` computes one of two values.
    """

    def __init__(
        self,
        load: Callable[[Load], ir.Expr],
        axis: Callable[[AxisRef], ir.Expr],
        bind: Callable[[ir.Expr], ir.Expr],
        choose: Callable[[ir.Expr, Way, Way, str], ir.Expr],
    ) -> None:
        self._load, self._axis, self._bind, self._choose = load, axis, bind, choose
        self._known: dict[Expr, ir.Expr] = {}

    def value(self, root: Expr, fuses: bool = False) -> ir.Expr:
        """Return the value of an expression, its shared parts bound.

        A product that `fuses` is added to a sum without being rounded.
        """
        self._share(root)
        if fuses and isinstance(root, Op) and root.name == "Mul" and _is_float(root.dtype):
            return tirx.Mul(*(self.emit(a) for a in root.args))
        return self.emit(root)

    def forget(self) -> None:
        """Forget what is bound: another point follows."""
        self._known.clear()

    def emit(self, expr: Expr) -> ir.Expr:
        if expr in self._known:
            return self._known[expr]
        if isinstance(expr, Const):
            return constant(expr.value, expr.dtype)
        if isinstance(expr, AxisRef):
            return cast(self._axis(expr), expr.dtype)
        if isinstance(expr, Load):
            return self._load(expr)
        assert isinstance(expr, Op)
        if expr.name == BRANCH:
            condition, *ways = expr.args
            one, other = (functools.partial(self._way, way) for way in ways)
            return self._choose(self.emit(condition), one, other, expr.dtype)
        return self._op(expr, [self.emit(a) for a in expr.args])

    def _way(self, expr: Expr) -> ir.Expr:
        """Return a value that is computed only where it is chosen, and so is what it binds."""
        known = dict(self._known)
        made = self.value(expr)
        self._known = known
        return made

    def _share(self, root: Expr) -> None:
        """Bind what the root uses more than once, operands before users."""
        for expr in used_again([root], self._known.__contains__):
            self._known[expr] = self._bind(self.emit(expr))

    def _op(self, expr: Op, args: list[ir.Expr]) -> ir.Expr:
        name, dtype = expr.name, expr.dtype
        if _is_float(dtype) and name in ("Max", "Min"):
            return self._extremum(name, *args)
        if dtype in ("float32", "float64") and name in _ROUNDED:
            letter = "f" if dtype == "float32" else "d"
            return tirx.call_pure_extern(dtype, f"__{letter}{_ROUNDED[name]}_rn", *args)
        if dtype == "bool" and name in _BOOLEAN:
            name = _BOOLEAN[name]
        if name == "Not":
            return opposite(args[0])
        if name in ("EQ", "NE") and _is_float(expr.args[0].dtype):
            same = expr.args[0] == expr.args[1]
            equal = is_ordered(args[0]) if same else tirx.EQ(*args)
            return equal if name == "EQ" else opposite(equal)
        if name in ("EQ", "NE") and expr.args[0].dtype == "bool":
            args = [tirx.Cast("int8", a) for a in args]
        if name == "Sub" and is_unsigned(args[0]) and dtype != "uint64":
            wide = (tirx.Cast("int64", a) for a in args)
            return tirx.Cast(dtype, tirx.Sub(*wide))
        if (made := compared(name, args)) is not None:
            return made
        if name in _PLAIN:
            return _PLAIN[name](*args)
        if name == "Cast":
            return cast(args[0], dtype)
        if name == "BitwiseNot":
            return tirx.BitwiseNot(args[0])
        if name == "Select":
            return tirx.Select(*args)
        if name == NEVER_ABOVE_ZERO:
            return args[0]
        return self._call(name.removeprefix("call:tirx."), expr, args)

    def _call(self, name: str, expr: Op, args: list[ir.Expr]) -> ir.Expr:
        dtype = expr.dtype
        if dtype in ("float32", "float64"):
            tail = "f" if dtype == "float32" else ""
            if name == "sigmoid":
                return self._sigmoid(args[0], dtype, tail)
            if name in _FUNCTIONS:
                return tirx.call_pure_extern(dtype, f"{_NAMES.get(name, name)}{tail}", *args)
        if name == "isnan":
            return opposite(is_ordered(self._bind(args[0])))
        op = ir.Op.get(f"prim.{name}" if name in _PRIM else f"tirx.{name}")
        return ir.Call(op, args, ret_ty=dtype)

    def _sigmoid(self, x: ir.Expr, dtype: str, tail: str) -> ir.Expr:
        """Return 1 / (1 + exp(-x))."""
        negative = tirx.Mul(x, tirx.FloatImm(dtype, -1.0))
        power = tirx.call_pure_extern(dtype, f"exp{tail}", negative)
        return tirx.Div(tirx.FloatImm(dtype, 1.0), tirx.FloatImm(dtype, 1.0) + power)

    def _extremum(self, name: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        """Return the larger or smaller of two, or the NaN among them."""
        left, right = self._bind(left), self._bind(right)
        return extremum(name.lower(), left, right)


def extremum(kind: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Return the larger ("max") or smaller of two, or the NaN among them."""
    before = (tirx.GT if kind == "max" else tirx.LT)(right, left)
    return tirx.Select(is_ordered(right), tirx.Select(before, right, left), right)


def is_ordered(value: ir.Expr) -> ir.Expr:
    """Return whether a float is no NaN; TVM would take x == x for true."""
    dtype = str(value.ty.dtype)
    magnitude = tirx.call_pure_extern(dtype, "fabsf" if dtype == "float32" else "fabs", value)
    return tirx.LE(magnitude, tirx.FloatImm(dtype, math.inf))


def combined(rule: Reduction, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Return what a reduction makes of two values, each of them a load."""
    if rule.kind == "sum":
        return tirx.Add(left, right)
    if rule.kind == "prod":
        return tirx.Mul(left, right)
    if rule.kind in ("max", "min"):
        if not _is_float(str(left.ty.dtype)):
            return (tirx.Max if rule.kind == "max" else tirx.Min)(left, right)
        if rule.drops_nan:
            return tirx.Select(right > left, right, left)
        return extremum(rule.kind, left, right)
    return (tirx.And if rule.kind == "and" else tirx.Or)(left, right)


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))

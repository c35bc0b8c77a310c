"""Write an operator's PrimFunc, as it was legalised, as C++ that computes floats in double.

It shares nothing with what is verified: neither our schedules and vector math nor TVM's simplifier
and code generator, to which a float comparison never meets a NaN. Loops run in program order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
from tvm import ir, s_tir, tirx

_HALF = ("float16", "bfloat16")
_FLOATS = (*_HALF, "float32", "float64")
_INTEGERS = {
    f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_INFIX = {
    **{tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.EQ: "==", tirx.NE: "!="},
    **{tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">=", tirx.And: "&&", tirx.Or: "||"},
    **{tirx.BitwiseAnd: "&", tirx.BitwiseOr: "|", tirx.BitwiseXor: "^"},
    **{tirx.LShift: "<<", tirx.RShift: ">>"},
}
_CALLED = {
    **{tirx.Div: "divided", tirx.Mod: "remainder", tirx.FloorDiv: "floor_divided"},
    **{tirx.FloorMod: "floor_remainder", tirx.Min: "least", tirx.Max: "most"},
}
_INFIX_CALLS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<",
                "shift_right": ">>"}  # fmt: skip
_MATH = {
    *("exp", "exp2", "log", "log2", "log10", "log1p", "pow", "sqrt", "hypot", "erf"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("floor", "ceil", "round", "nearbyint", "trunc", "fmod", "copysign", "ldexp", "nextafter"),
    *("isnan", "isinf", "isfinite"),
}
_OWN_MATH = {"sigmoid": "sigmoid", "rsqrt": "inverse_root", "exp10": "power_of_ten"}

PRELUDE = (Path(__file__).parent / "operators.h").read_text()


class Unwritable(Exception):
    """The function holds a construct that this file does not write; says which."""


def write_function(func: tirx.PrimFunc, name: str, wide: bool) -> str:
    """Return C++ of `void name(void** parameters)`.

    Floats are doubles if `wide`; otherwise float16 and bfloat16 are floats, and the others are what
    they are. Buffers are dense, row-major, of those types.

    Raises: Unwritable.
    """
    return _Writer(wide).function(func, name)


def array_dtype(dtype: str, wide: bool) -> np.dtype:
    """Return the NumPy dtype of a buffer of TVM's `dtype` in such a function."""
    if dtype in _FLOATS:
        return np.dtype(np.float64 if wide or dtype == "float64" else np.float32)
    return np.dtype(dtype)


class _Writer:
    def __init__(self, wide: bool) -> None:
        self._wide = wide
        self._names: dict[ir.Var, str] = {}
        self._shapes: dict[ir.Var, Sequence[int]] = {}
        self._dtypes: dict[ir.Var, str] = {}
        self._lines: list[str] = []
        self._starting = False

    def function(self, func: tirx.PrimFunc, name: str) -> str:
        for number, param in enumerate(func.params):
            if not tirx.is_buffer_var(param):
                raise Unwritable(f"parameter {param.name} is not a tensor")
            kind = self._declare(param)
            place = f"static_cast<{kind}*>(parameters[{number}])"
            self._add(f"{kind}* __restrict__ {self._names[param]} = {place};")
        self._statement(func.body)
        lines = "\n".join(f"  {line}" for line in self._lines)
        return f'extern "C" void {name}(void** parameters) {{\n{lines}\n}}\n'

    def _add(self, line: str) -> None:
        self._lines.append(line)

    def _name(self, var: ir.Var) -> str:
        if var not in self._names:
            self._names[var] = f"v{len(self._names)}"
        return self._names[var]

    def _declare(self, buffer: ir.Var) -> str:
        """Note a buffer and return the type of its elements."""
        ty = buffer.ty
        if not all(isinstance(extent, tirx.IntImm) for extent in ty.shape) or len(ty.strides):
            raise Unwritable(f"buffer {buffer.name} is not dense, of known shape")
        self._name(buffer)
        self._shapes[buffer] = [int(extent) for extent in ty.shape]
        self._dtypes[buffer] = str(ty.dtype.dtype)
        return self._type(self._dtypes[buffer])

    def _allocate(self, buffer: ir.Var) -> None:
        kind, count = self._declare(buffer), math.prod(self._shapes[buffer])
        name = self._names[buffer]
        # std::vector<bool> has no elements to point to.
        self._add(f"std::vector<char> {name}_memory({max(count, 1)} * sizeof({kind}));")
        self._add(f"auto* __restrict__ {name} = reinterpret_cast<{kind}*>({name}_memory.data());")

    def _type(self, dtype: str) -> str:
        if dtype in _FLOATS:
            return "double" if self._wide or dtype == "float64" else "float"
        if dtype == "bool":
            return "bool"
        if dtype not in _INTEGERS:
            raise Unwritable(f"dtype {dtype}")
        return _INTEGERS[dtype]

    # Statements

    def _statement(self, stmt: tirx.Stmt) -> None:
        match stmt:
            case tirx.SeqStmt():
                for part in stmt.seq:
                    self._statement(part)
            case tirx.For():
                self._loop(stmt)
            case s_tir.SBlockRealize():
                self._block(stmt)
            case tirx.BufferStore():
                self._store(stmt)
            case tirx.IfThenElse():
                self._branch(stmt)
            case tirx.Bind():
                self._bind(stmt.var, stmt.value)
            case tirx.AllocBuffer():
                self._allocate(stmt.buffer)
            case tirx.AttrStmt():
                self._statement(stmt.body)
            case tirx.While():
                self._add(f"while ({self._expr(stmt.condition)}) {{")
                self._statement(stmt.body)
                self._add("}")
            case tirx.Evaluate() if isinstance(stmt.value, tirx.IntImm):
                pass
            case _:
                raise Unwritable(f"statement {type(stmt).__name__}")

    def _loop(self, loop: tirx.For) -> None:
        self._open_loop(loop)
        self._statement(loop.body)
        self._add("}")

    def _open_loop(self, loop: tirx.For) -> None:
        name, first, count = (
            self._name(loop.loop_var),
            self._expr(loop.min),
            self._expr(loop.extent),
        )
        end = count if first == "0" else f"{first} + {count}"
        self._add(f"for (int64_t {name} = {first}; {name} < {end}; ++{name}) {{")

    def _branch(self, stmt: tirx.IfThenElse) -> None:
        self._add(f"if ({self._expr(stmt.condition)}) {{")
        self._statement(stmt.then_case)
        if stmt.else_case is not None:
            self._add("} else {")
            self._statement(stmt.else_case)
        self._add("}")

    def _bind(self, var: ir.Var, value: ir.Expr) -> None:
        value = self._expr(value)
        self._add(f"const {self._type(_dtype(var))} {self._name(var)} = {value};")

    def _block(self, realize: s_tir.SBlockRealize) -> None:
        block = realize.block
        if len(block.match_buffers):
            raise Unwritable("a matched buffer")
        self._add("{")
        for buffer in block.alloc_buffers:
            self._allocate(buffer)
        for iter_var, value in zip(block.iter_vars, realize.iter_values, strict=True):
            self._bind(iter_var.var, value)
        guard = not (isinstance(realize.predicate, tirx.IntImm) and int(realize.predicate))
        if guard:
            self._add(f"if ({self._expr(realize.predicate)}) {{")
        if block.init is not None:
            self._initialise(block)
        self._statement(block.body)
        self._lines += ["}"] * (2 if guard else 1)

    def _initialise(self, block: s_tir.SBlock) -> None:
        reduced = [v for v in block.iter_vars if v.iter_type == tirx.IterVar.CommReduce]
        first = [f"{self._name(v.var)} == {self._expr(v.dom.min)}" for v in reduced]
        self._add(f"if ({' && '.join(first) or 'true'}) {{")
        self._starting = True
        self._statement(block.init)
        self._starting = False
        self._add("}")

    def _store(self, store: tirx.BufferStore) -> None:
        dtype, value = self._dtypes.get(store.buffer), store.value
        if self._starting and isinstance(value, tirx.FloatImm) and dtype in _FLOATS:
            written = _from_the_end(float(value.value), dtype)
            if written is not None:
                self._add(f"{self._element(store.buffer, store.indices)} = {written};")
                return
        self._add(f"{self._element(store.buffer, store.indices)} = {self._expr(value)};")

    def _element(self, buffer: ir.Var, indices: Sequence[ir.Expr]) -> str:
        if buffer not in self._shapes:
            raise Unwritable(f"buffer {buffer.name} is not declared")
        shape, place = self._shapes[buffer], "0"
        for extent, index in zip(shape, indices, strict=True):
            here = f"as<int64_t>({self._expr(index)})"
            place = here if place == "0" else f"{extent} * ({place}) + {here}"
        return f"{self._names[buffer]}[{place}]"

    # Expressions

    def _expr(self, node: ir.Expr) -> str:
        kind = type(node)
        if kind in _INFIX:
            joined = f"{self._expr(node.a)} {_INFIX[kind]} {self._expr(node.b)}"
            return f"as<{self._type(_dtype(node))}>({joined})"
        if kind in _CALLED:
            own = self._type(_dtype(node))
            return f"{_CALLED[kind]}<{own}>({self._expr(node.a)}, {self._expr(node.b)})"
        match node:
            case tirx.IntImm():
                return _integer(int(node.value), _dtype(node))
            case tirx.FloatImm():
                return f"as<{self._type(_dtype(node))}>({_float(float(node.value), _dtype(node))})"
            case ir.Var():
                return self._variable(node)
            case ir.TensorLoad():
                return self._element(node.source, node.indices)
            case tirx.Cast():
                return self._cast(node)
            case tirx.Not():
                return f"!as<bool>({self._expr(node.a)})"
            case tirx.BitwiseNot():
                return f"as<{self._type(_dtype(node))}>(~{self._expr(node.a)})"
            case tirx.Select():
                return self._choice(node.condition, node.true_value, node.false_value)
            case ir.Call():
                return self._call(node)
        raise Unwritable(f"expression {kind.__name__}")

    def _variable(self, var: ir.Var) -> str:
        if var not in self._names:
            raise Unwritable(f"variable {var.name} is not bound")
        return f"as<{self._type(_dtype(var))}>({self._names[var]})"

    def _choice(self, condition: ir.Expr, yes: ir.Expr, no: ir.Expr) -> str:
        return f"({self._expr(condition)} ? {self._expr(yes)} : {self._expr(no)})"

    def _cast(self, node: tirx.Cast) -> str:
        value, to = self._expr(node.value), _dtype(node)
        if not self._wide and to == "float16":
            return f"as<float>(half({value}))"
        if not self._wide and to == "bfloat16":
            return f"of_bfloat_bits(bfloat_bits({value}))"
        return f"as<{self._type(to)}>({value})"

    def _call(self, node: ir.Call) -> str:
        name = getattr(node.op, "name", "").rpartition(".")[2]
        if name == "if_then_else":
            return self._choice(*node.args)
        if name == "likely":
            return self._expr(node.args[0])
        if name == "reinterpret":
            return self._reinterpret(node)
        args = [self._expr(arg) for arg in node.args]
        own = self._type(_dtype(node))
        if name in _INFIX_CALLS:
            return f"as<{own}>({args[0]} {_INFIX_CALLS[name]} {args[1]})"
        if name == "bitwise_not":
            return f"as<{own}>(~{args[0]})"
        if name in _OWN_MATH:
            return f"{_OWN_MATH[name]}<{own}>({args[0]})"
        if name in ("fabs", "abs"):
            return f"as<{own}>(std::abs({args[0]}))"
        if name == "popcount":
            return f"as<{own}>(__builtin_popcountll({args[0]}))"
        if name not in _MATH:
            raise Unwritable(f"call of {name or node.op}")
        return f"as<{own}>(std::{name}({', '.join(args)}))"

    def _reinterpret(self, node: ir.Call) -> str:
        """Take bits of the width that the model's own dtype has."""
        (source,) = node.args
        value, before, after = self._expr(source), _dtype(source), _dtype(node)
        halves = {"float16": "half", "bfloat16": "bfloat"}
        if before in halves:
            bits, width = f"{halves[before]}_bits({value})", "uint16_t"
        else:
            width = {"float32": "float", "float64": "double"}.get(before) or self._type(before)
            bits = f"as<{width}>({value})"
        if after in halves:
            return f"as<{self._type(after)}>(of_{halves[after]}_bits({bits}))"
        made = {"float32": "float", "float64": "double"}.get(after) or self._type(after)
        return f"as<{self._type(after)}>(reinterpreted<{made}>({bits}))"


def _dtype(node: ir.Expr) -> str:
    return str(node.ty.dtype)


def _integer(value: int, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    text = "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"
    return text if dtype == "int64" else f"as<{_INTEGERS[dtype]}>({text})"


def _float(value: float, dtype: str) -> str:
    """Return a literal of the number that `dtype` has nearest to `value`."""
    known = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    with np.errstate(over="ignore"):
        value = float(known.type(value))
    if math.isnan(value):
        return "NAN"
    return value.hex() if math.isfinite(value) else f"{'-' if value < 0 else ''}INFINITY"


def _from_the_end(value: float, dtype: str) -> str | None:
    """Return the infinity that a maximum or minimum starts from in place of the last number.

    TVM starts from the lowest number of the dtype, so that the maximum of infinities is that.
    """
    largest = float(ml_dtypes.finfo(dtype).max)
    if abs(value) < largest or math.isnan(value):
        return None
    return "-INFINITY" if value < 0 else "INFINITY"

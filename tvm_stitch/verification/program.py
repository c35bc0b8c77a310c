"""What a function of Relax does, as calls and the values that pass between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from tvm import ir, relax, tirx
from tvm.ir import IRModule

_CALL_TIR, _IN_PLACE = "relax.call_tir", "relax.call_tir_inplace"
_VIEWS = ("relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_copy")


@dataclass(eq=False)
class Value:
    """A tensor, compared by identity: an input, a constant, or a result of a step.

    `shape` is that of inputs and results, empty where it is not static.
    """

    name: str
    maker: Step | None = None
    position: int = 0
    constant: np.ndarray | None = None
    shape: tuple[int, ...] = ()

    @property
    def is_constant(self) -> bool:
        return self.constant is not None


@dataclass(eq=False)
class Step:
    """A call. `kind` is "kernel" (of PrimFunc or group `name`), "view", "if", "group" or "other".

    `places`: for each result the operand that it is written over, -1 for none. `branches` are the
    programs of an "if", whose first input is the condition. Of an "other", `call` is the call and
    `inputs` are what `read`, its variables, hold; None if one of them holds no single tensor.
    """

    kind: str
    name: str
    inputs: list[Value]
    results: list[Value] = field(default_factory=list)
    places: tuple[int, ...] = ()
    branches: tuple[Program, ...] = ()
    call: relax.Call | None = None
    read: tuple[relax.Var, ...] | None = None


@dataclass(eq=False)
class Program:
    """Steps in order. `inputs` are a function's parameters; results may be any of its values."""

    inputs: list[Value]
    steps: list[Step]
    results: list[Value]

    def walk(self) -> Iterator[Step]:
        """Yield all steps, those of branches too."""
        for step in self.steps:
            yield step
            for branch in step.branches:
                yield from branch.walk()


# What a Relax variable holds: a tensor, a tuple of such, or something that is no tensor.
_Held = Value | tuple | None


def read_function(mod: IRModule, func: relax.Function) -> Program:
    """Return what a function does; calls of Primitive functions are kernels, of others are read."""
    return _Reader(mod).function(func)


class _Reader:
    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._held: dict[relax.Var, _Held] = {}
        self._steps: list[Step] = []

    def function(self, func: relax.Function) -> Program:
        inputs = []
        for param in func.params:
            self._held[param] = _new_values(param.ty, param.name, None)
            inputs += _flat(self._held[param])
        return Program(inputs, *self._sequence(func.body))

    def _sequence(self, body: relax.Expr) -> tuple[list[Step], list[Value]]:
        outer, self._steps = self._steps, []
        if isinstance(body, relax.SeqExpr):
            for block in body.blocks:
                for binding in block.bindings:
                    self._bind(binding)
            body = body.body
        results = _flat(self._hold(body, "result"))
        steps, self._steps = self._steps, outer
        return steps, results

    def _bind(self, binding: relax.Binding) -> None:
        value, name = getattr(binding, "value", None), binding.var.name
        held = self._held[binding.var] = self._hold(value, name)
        if isinstance(value, relax.TupleGetItem) and isinstance(held, Value):
            held.name = name

    def _hold(self, expr: relax.Expr, name: str) -> _Held:
        """Return what an expression holds, adding the steps that make it."""
        if isinstance(expr, relax.Var):
            return self._held.get(expr)
        if isinstance(expr, ir.Constant):
            if not isinstance(expr.ty, relax.TensorType):
                return None
            return Value(name, constant=expr.value.numpy())
        if isinstance(expr, relax.Tuple):
            return tuple(self._hold(part, name) for part in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            parts = self._hold(expr.tuple_value, name)
            return parts[expr.index] if isinstance(parts, tuple) else None
        if isinstance(expr, relax.If):
            return self._choose(expr, name)
        if isinstance(expr, relax.Call):
            return self._call(expr, name)
        return None

    def _choose(self, expr: relax.If, name: str) -> _Held:
        condition = _flat(self._hold(expr.cond, name))
        branches = tuple(
            Program([], *self._sequence(body)) for body in (expr.true_branch, expr.false_branch)
        )
        return self._add(Step("if", "if", condition, branches=branches), expr.ty, name)

    def _call(self, call: relax.Call, name: str) -> _Held:
        op = getattr(call.op, "name", "")
        if op in (_CALL_TIR, _IN_PLACE):
            return self._kernel(call, name)
        if op in _VIEWS:
            source = _flat(self._hold(call.args[0], name))
            return self._add(Step("view", op, source), call.ty, name)
        if isinstance(call.op, ir.GlobalVar):
            return self._function(call, name)
        read = tuple(relax.analysis.free_vars(call))
        held = [self._held.get(var) for var in read]
        inputs = [value for each in held for value in _flat(each)]
        label = op or str(getattr(call.op, "global_symbol", type(call.op).__name__))
        single = all(isinstance(each, Value) for each in held)
        step = Step("other", label, inputs, call=call, read=read if single else None)
        return self._add(step, call.ty, name)

    def _kernel(self, call: relax.Call, name: str) -> _Held:
        inputs = _flat(self._hold(call.args[1], name))
        step = Step("kernel", call.args[0].name_hint, inputs)
        if call.op.name == _IN_PLACE:
            step.places = tuple(int(place) for place in call.attrs.inplace_indices)
        return self._add(step, call.ty, name)

    def _function(self, call: relax.Call, name: str) -> _Held:
        callee = self._mod[call.op]
        arguments = [self._hold(arg, name) for arg in call.args]
        if isinstance(callee, tirx.PrimFunc) or (callee.attrs and "Primitive" in callee.attrs):
            inputs = [value for held in arguments for value in _flat(held)]
            return self._add(Step("kernel", call.op.name_hint, inputs), call.ty, name)
        self._held |= dict(zip(callee.params, arguments, strict=True))
        if not isinstance(callee.body, relax.SeqExpr):
            return self._hold(callee.body, name)
        for block in callee.body.blocks:
            for binding in block.bindings:
                self._bind(binding)
        return self._hold(callee.body.body, name)

    def _add(self, step: Step, ty: ir.Type, name: str) -> _Held:
        held = _new_values(ty, name, step)
        step.results = _flat(held)
        self._steps.append(step)
        return held


def _new_values(ty: ir.Type, name: str, maker: Step | None) -> _Held:
    """Return a value for each tensor of a type."""
    count = 0

    def make(ty: ir.Type) -> _Held:
        nonlocal count
        if isinstance(ty, relax.TupleType):
            return tuple(make(part) for part in ty.fields)
        if not isinstance(ty, relax.TensorType):
            return None
        count += 1
        extents = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else []
        static = all(isinstance(extent, tirx.IntImm) for extent in extents)
        return Value(name, maker, count - 1, shape=tuple(map(int, extents)) if static else ())

    return make(ty)


def _flat(held: _Held) -> list[Value]:
    if isinstance(held, tuple):
        return [value for part in held for value in _flat(part)]
    return [] if held is None else [held]


def kernel_names(program: Program) -> Sequence[str]:
    """Return the kernels that a program calls, each once, in order."""
    return list(dict.fromkeys(step.name for step in program.walk() if step.kind == "kernel"))

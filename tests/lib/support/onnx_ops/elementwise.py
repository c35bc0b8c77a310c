"""Elementwise operators, one operand or several that broadcast."""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import helper

from .draw import FLOATS, INTS, Draw, Node, Operand, Operator

SIGNED = ("int32", "int64", "int8")


def _plain(_: Draw, x: np.ndarray, op: str, exact: bool) -> Node:
    return Node(op, exact=exact)


def _alpha(draw: Draw, x: np.ndarray, op: str) -> Node:
    names = {"HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma")}.get(op, ("alpha",))
    attrs = {name: round(draw.uniform(0.1, 1.5), 3) for name in names if draw.maybe(0.7)}
    return Node(op, attrs=attrs)


def _gelu(draw: Draw, x: np.ndarray) -> Node:
    return Node("Gelu", attrs={"approximate": draw.choice(["none", "tanh"])})


def _binary(draw: Draw, x: np.ndarray, op: str, exact: bool = False, **bounds: float) -> Node:
    is_exact = exact or x.dtype.kind in "iub"
    return Node(op, [draw.other(x, **bounds)], exact=is_exact, first=draw.randint(0, 1))


def _ratio(draw: Draw, x: np.ndarray, op: str, **attrs: int) -> Node:
    return Node(op, [draw.other(x, low=1, high=4)], attrs, exact=x.dtype.kind in "iu")


def _variadic(draw: Draw, x: np.ndarray, op: str) -> Node:
    operands = [draw.other(x) for _ in range(draw.randint(0, 3))]
    return Node(op, operands, exact=op in ("Max", "Min"))


def _power(draw: Draw, x: np.ndarray) -> Node:
    exponent = np.array(draw.choice([2, 3, 1, 0]), x.dtype)
    return Node("Pow", [Operand(exponent, draw.maybe())])


def _where(draw: Draw, x: np.ndarray) -> Node:
    condition = Operand(draw.array(draw.broadcast(x.shape), "bool"), False)
    return Node("Where", [condition, draw.other(x)], exact=True, first=1)


def _slope(draw: Draw, x: np.ndarray) -> Node:
    shape = draw.broadcast(x.shape)
    return Node("PRelu", [Operand(draw.array(shape, str(x.dtype)), draw.maybe())])


def _clip(draw: Draw, x: np.ndarray) -> Node:
    ends = [np.array(end, x.dtype) for end in sorted(draw.sample(range(0, 4), 2))]
    given = [Operand(end if draw.maybe(0.8) else None, True) for end in ends]
    return Node("Clip", given, exact=True)


def _shift(draw: Draw, x: np.ndarray) -> Node:
    by = Operand(draw.array(draw.broadcast(x.shape), str(x.dtype), 0, 7), draw.maybe())
    return Node("BitShift", [by], {"direction": draw.choice(["LEFT", "RIGHT"])}, exact=True)


def _cast(draw: Draw, x: np.ndarray) -> Node:
    to = draw.choice([*FLOATS, *INTS, "bool"])
    exact = to != "float16" and not (x.dtype == np.float64 and to == "float32")
    return Node("Cast", attrs={"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))}, exact=exact)


EXACT = ("Abs", "Neg", "Relu", "Identity")
STEPS = ("Sign", "Floor", "Ceil", "Round", "IsNaN")
SMOOTH = ("Exp", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Atan", "Sinh",
          "Cosh", "Asinh", "HardSwish", "Mish")  # fmt: skip
WITH_NUMBERS = ("Elu", "LeakyRelu", "HardSigmoid", "Selu", "Celu")
COMPARED = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")

OPERATORS: dict[str, Operator] = {
    **{op: Operator(partial(_plain, op=op, exact=True), FLOATS) for op in EXACT},
    **{op: Operator(partial(_plain, op=op, exact=True), FLOATS, steps=True) for op in STEPS},
    **{op: Operator(partial(_plain, op=op, exact=False), FLOATS[:2]) for op in SMOOTH},
    **{op: Operator(partial(_alpha, op=op), ("float32",)) for op in WITH_NUMBERS},
    "ThresholdedRelu": Operator(partial(_alpha, op="ThresholdedRelu"), ("float32",), steps=True),
    "Gelu": Operator(_gelu, ("float32",)),
    "Not": Operator(partial(_plain, op="Not", exact=True), ("bool",)),
    "BitwiseNot": Operator(partial(_plain, op="BitwiseNot", exact=True), INTS),
    **{op: Operator(partial(_binary, op=op), (*FLOATS, "int32", "int64"))
       for op in ("Add", "Sub", "Mul")},
    **{op: Operator(partial(_binary, op=op, exact=True), ("bool",)) for op in ("And", "Or", "Xor")},
    **{op: Operator(partial(_binary, op=op, exact=True), INTS)
       for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    **{op: Operator(partial(_binary, op=op, exact=True), (*FLOATS, *INTS), steps=True)
       for op in COMPARED},
    "Div": Operator(partial(_ratio, op="Div"), (*FLOATS, "int32", "int64")),
    "Mod": Operator(partial(_ratio, op="Mod", fmod=0), INTS),
    "FMod": Operator(partial(_ratio, op="Mod", fmod=1), (*FLOATS, *INTS), steps=True),
    "Pow": Operator(_power, ("float32", "float64")),
    **{op: Operator(partial(_variadic, op=op), FLOATS[:2]) for op in ("Max", "Min", "Mean", "Sum")},
    "Where": Operator(_where, (*FLOATS, *INTS)),
    "PRelu": Operator(_slope, FLOATS),
    "Clip": Operator(_clip, (*FLOATS, *INTS)),
    "BitShift": Operator(_shift, ("uint8",)),
    "Cast": Operator(_cast, (*FLOATS, *INTS, "bool"), steps=True),
}  # fmt: skip

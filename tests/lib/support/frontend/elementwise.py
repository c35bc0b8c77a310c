"""Cases of element-wise operators and casts."""

from __future__ import annotations

import numpy as np

from support.frontend.case import BF16, OLD_RUNTIME, SPECIAL, X234, Case, ints, random


def unary_cases():
    domains = {
        "Acos": (-1, 1),
        "Asin": (-1, 1),
        "Atanh": (-0.9, 0.9),
        "Acosh": (1, 3),
        "Log": (0.1, 3),
        "Sqrt": (0, 3),
        "Reciprocal": (0.5, 2),
    }
    for op in [
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Celu",
        "Shrink",
        "Hardmax",
        "LpNormalization",
    ]:
        low, high = domains.get(op, (-2, 2))
        yield Case(op, op, {"x": random(2, 3, 4, low=low, high=high)})
    for op in [
        "Abs",
        "Neg",
        "Sign",
        "Ceil",
        "Floor",
        "Round",
        "Exp",
        "Tanh",
        "Sigmoid",
        "Erf",
        "IsNaN",
        "Identity",
    ]:
        yield Case(f"{op}-special", op, SPECIAL, reference=op == "Erf" and OLD_RUNTIME)
    yield Case("IsInf", "IsInf", SPECIAL)
    yield Case("IsInf-positive", "IsInf", SPECIAL, attrs={"detect_negative": 0})
    yield Case(
        "IsInf-neither", "IsInf", SPECIAL, attrs={"detect_negative": 0, "detect_positive": 0}
    )
    for op in ("Abs", "Neg", "Sign"):
        for dtype in ("i1", "i4", "i8", "f8"):
            yield Case(f"{op}-{dtype}", op, {"x": random(5, dtype=dtype, low=-9, high=9)})
    for dtype in ("u1", "u4", "u8"):
        x = {"x": random(5, dtype=dtype, low=0, high=9)}
        yield Case(f"Sign-{dtype}", "Sign", x)
    yield Case("Relu-i32", "Relu", {"x": random(5, dtype="i4", low=-9, high=9)})
    for alpha in (1.0, -1.0, -np.inf):
        attrs = {"alpha": alpha}
        yield Case(f"ThresholdedRelu-special{alpha:+g}", "ThresholdedRelu", SPECIAL, attrs=attrs)
    doubles = {"x": random(2, 3, dtype="f8")}
    yield Case("ThresholdedRelu-f8", "ThresholdedRelu", doubles, reference=True)
    yield Case("Gelu", "Gelu", X234, opset=20)
    yield Case("Gelu-tanh", "Gelu", X234, attrs={"approximate": "tanh"}, opset=20)
    yield Case("Swish", "Swish", X234, attrs={"alpha": 1.5}, opset=24, reference=True)
    yield Case("Elu-alpha", "Elu", X234, attrs={"alpha": 0.3})
    yield Case("Selu-args", "Selu", X234, attrs={"alpha": 1.2, "gamma": 0.9})
    yield Case("LeakyRelu-alpha", "LeakyRelu", X234, attrs={"alpha": 0.3})
    yield Case("HardSigmoid-args", "HardSigmoid", X234, attrs={"alpha": 0.3, "beta": 0.6})
    yield Case("Shrink-args", "Shrink", X234, attrs={"lambd": 1.0, "bias": 0.4})
    yield Case("LpNormalization-1", "LpNormalization", X234, attrs={"axis": 1, "p": 1})
    yield Case("Not", "Not", {"x": np.array([True, False])})
    yield Case("BitwiseNot", "BitwiseNot", {"x": ints(1, -2, 3, dtype="i4")})
    yield Case("PRelu", "PRelu", X234, {"s": random(4, seed=1)})
    yield Case("PRelu-channel", "PRelu", X234, {"s": random(3, 1, seed=1)})
    yield Case("PRelu-scalar", "PRelu", X234, {"s": random(1, seed=1)})


def binary_cases():
    shapes = {
        "same": ((2, 3), (2, 3)),
        "row": ((2, 3), (3,)),
        "outer": ((2, 1), (1, 3)),
        "scalar": ((2, 3), ()),
        "higher": ((3,), (2, 4, 3)),
        "empty": ((0, 3), (1, 3)),
    }
    for op in ("Add", "Sub", "Mul", "Div"):
        for name, (a, b) in shapes.items():
            inputs = {"a": random(*a), "b": random(*b, low=0.5, seed=1)}
            yield Case(f"{op}-{name}", op, inputs)
        for dtype in ("i4", "i8", "u1", "f8", "f2"):
            inputs = {
                "a": random(7, dtype=dtype, low=0, high=9),
                "b": random(7, dtype=dtype, low=1, high=4, seed=1),
            }
            yield Case(f"{op}-{dtype}", op, inputs)
    yield Case(
        "Add-bf16",
        "Add",
        {"a": random(7, dtype=BF16), "b": random(7, dtype=BF16, seed=1)},
        reference=True,
    )
    signed = {"a": ints(-7, -6, 7, 6, -1, 5), "b": ints(3, -4, -3, 4, 5, -5)}
    yield Case("Div-negative", "Div", signed)
    yield Case("Div-negative-i32", "Div", {k: v.astype("i4") for k, v in signed.items()})
    yield Case("Mod", "Mod", signed)
    yield Case("Mod-fmod-int", "Mod", signed, attrs={"fmod": 1})
    floats = {k: v.astype("f4") + 0.5 for k, v in signed.items()}
    yield Case("Mod-fmod", "Mod", floats, attrs={"fmod": 1})
    yield Case("Pow", "Pow", {"a": random(6, low=0.1), "b": random(6, seed=1)})
    yield Case("Pow-square", "Pow", {"a": random(6)}, {"e": np.array(2.0, "f4")})
    yield Case("Pow-cube", "Pow", {"a": random(6)}, {"e": np.array(3.0, "f4")})
    yield Case("Pow-half", "Pow", {"a": random(6, low=0)}, {"e": np.array(0.5, "f4")})
    yield Case("Pow-int-exponent", "Pow", {"a": random(6)}, {"e": np.array(2, "i8")})
    yield Case("Pow-int-input", "Pow", {"a": random(6), "b": ints(2, 3, 0, 1, 2, 5)})
    yield Case("Pow-int-both", "Pow", {"a": ints(1, 2, -3, 4), "b": ints(2, 3, 3, 0)})
    yield Case(
        "Pow-int-base-float-exponent", "Pow", {"a": ints(1, 2, 3, 4)}, {"e": np.array(2, "f4")}
    )
    for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
        yield Case(
            op,
            op,
            {
                "a": np.r_[random(5), np.nan].astype("f4"),
                "b": np.r_[random(4), 0, np.nan].astype("f4"),
            },
        )
        yield Case(f"{op}-i64", op, signed)
    yield Case("Equal-bool", "Equal", {"a": np.array([True, False]), "b": np.array([True, True])})
    for op in ("And", "Or", "Xor"):
        yield Case(
            op,
            op,
            {"a": np.array([True, False, True, False]), "b": np.array([True, True, False, False])},
        )
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Case(op, op, {k: v.astype("i4") for k, v in signed.items()})
    for way in ("LEFT", "RIGHT"):
        yield Case(
            f"BitShift-{way}",
            "BitShift",
            {"a": ints(1, 9, 255, dtype="u1"), "b": ints(1, 2, 3, dtype="u1")},
            attrs={"direction": way},
        )
    abc = {"a": random(2, 3), "b": random(3, seed=1), "c": random(2, 1, seed=2)}
    for op in ("Sum", "Mean", "Max", "Min"):
        yield Case(op, op, abc)
        yield Case(f"{op}-one", op, {"a": random(2, 3)})
    yield Case("Max-i64", "Max", signed)
    yield Case(
        "Where",
        "Where",
        {"c": np.array([[True], [False]]), "x": random(2, 3), "y": random(3, seed=1)},
    )
    yield Case(
        "Where-i64",
        "Where",
        {"c": np.array([True, False, True]), "x": ints(1, 2, 3), "y": np.array(9)},
    )
    mixed = {"x": random(6, low=-9, high=9)}
    yield Case("Clip-both", "Clip", mixed, {"lo": np.float32(-1), "hi": np.float32(2)})
    yield Case("Clip-crossed", "Clip", mixed, {"lo": np.float32(2), "hi": np.float32(-1)})
    yield Case("Clip-nan", "Clip", mixed, {"lo": np.float32(np.nan), "hi": np.float32(2)})
    yield Case("Clip-scalar", "Clip", {"x": np.array(3, "f4")}, {"lo": np.float32(1)})
    yield Case("Clip-none", "Clip", mixed)
    yield Case("Clip-max", "Clip", mixed, {"hi": np.float32(2)}, order=("x", "", "hi"))
    yield Case("Clip-min", "Clip", mixed, {"lo": np.float32(-1)})
    yield Case("Clip-6", "Clip", mixed, attrs={"min": -1.0, "max": 1.0}, opset=6 + 4)
    yield Case("Clip-inputs", "Clip", {**mixed, "lo": np.array(-1, "f4"), "hi": np.array(2, "f4")})
    yield Case(
        "Clip-i32",
        "Clip",
        {"x": ints(-9, 0, 9, dtype="i4")},
        {"lo": np.int32(-3), "hi": np.int32(4)},
    )
    yield Case(
        "Clip-i64-large",
        "Clip",
        {"x": ints(-(2**62), 3, 2**62 + 1)},
        {"lo": np.int64(-(2**61) - 1), "hi": np.int64(2**61 + 1)},
    )
    yield Case(
        "Clip-special",
        "Clip",
        {"x": SPECIAL["x"][:-1]},
        {"lo": np.float32(-1), "hi": np.float32(2)},
    )


def cast_cases():
    values = {
        "f4": [0, -1.7, 1.5, 2.5, 100.9],
        "f2": [0, -1.7, 1.5, 60000.0],
        "i8": [0, -1, 5, 100],
        "i4": [0, -3, 77],
        "u1": [0, 3, 200],
        "?": [True, False],
        "f8": [0.1, -2.5, 1e10],
        "i2": [0, -300, 300],
        "u8": [0, 2**40],
        "u4": [0, 2**31],
        "i1": [-128, 127],
        "u2": [0, 65535],
    }
    to = {
        "f4": 1,
        "u1": 2,
        "i1": 3,
        "i4": 6,
        "i8": 7,
        "?": 9,
        "f2": 10,
        "f8": 11,
        "bf16": 16,
        "u4": 12,
        "u8": 13,
        "u2": 4,
        "i2": 5,
    }
    for source, data in values.items():
        for target in ("f4", "i4", "i8", "u1", "?", "f2", "f8", "bf16"):
            array = np.array(data, source)
            if target == "u1" and (array < 0).any():
                continue  # undefined in ONNX
            if target in ("u1", "i4") and np.abs(array.astype("f8")).max() > 255:
                continue
            if (source, target) == ("f8", "i4"):
                continue
            yield Case(
                f"Cast-{source}-{target}".replace("?", "bool"),
                "Cast",
                {"x": array},
                attrs={"to": to[target]},
                reference=target == "bf16",
            )
    bf = np.array([0, -1.7, 1.5, 3e38], BF16)
    for target in ("f4", "i4", "?", "f2"):
        if target == "i4":
            bf = bf[:3]
        yield Case(
            f"Cast-bf16-{target}", "Cast", {"x": bf}, attrs={"to": to[target]}, reference=True
        )
    yield Case("CastLike", "CastLike", {"x": random(4), "y": random(1, dtype="i4")})


CASES = [*unary_cases(), *binary_cases(), *cast_cases()]

"""Products, convolutions, pools, resizing, quantised products."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .draw import Draw, Node, Operand, Operator


def _weight(draw: Draw, shape, dtype: str = "float32") -> Operand:
    return Operand(draw.array(shape, dtype, -1, 1), draw.maybe(0.8))


def _matmul(draw: Draw, x: np.ndarray) -> Node:
    dtype, columns = str(x.dtype), draw.choice([1, 3, 8, 16, 31, 32])
    lead = draw.broadcast(x.shape[:-2]) if x.ndim > 2 and draw.maybe() else ()
    shape = (x.shape[-1],) if draw.maybe(0.1) else (*lead, x.shape[-1], columns)
    return Node("MatMul", [_weight(draw, shape, dtype)])


def _gemm(draw: Draw, x: np.ndarray) -> Node | None:
    if x.ndim != 2:
        return None
    turned = [draw.randint(0, 1) for _ in range(2)]
    depth, rows = x.shape[1 - turned[0]], x.shape[turned[0]]
    columns = draw.choice([1, 5, 16, 32])
    weight = _weight(draw, (columns, depth) if turned[1] else (depth, columns))
    bias = [_weight(draw, draw.broadcast((rows, columns)))] if draw.maybe(0.7) else []
    attrs = {"transA": turned[0], "transB": turned[1], "alpha": 0.5, "beta": 2.0}
    return Node("Gemm", [weight, *bias], attrs)


def _window(draw: Draw, x: np.ndarray) -> dict:
    """Return attributes of a window that the image holds."""
    sizes = x.shape[2:]
    attrs: dict = {"kernel_shape": [draw.randint(1, min(4, size)) for size in sizes]}
    if draw.maybe():
        attrs["strides"] = [draw.randint(1, 3) for _ in sizes]
    if draw.maybe(0.3):
        # Where windows lie apart, padding would be negative: the evaluator cuts, others do not.
        strides = attrs.get("strides", [1] * len(sizes))
        near = all(k >= s for k, s in zip(attrs["kernel_shape"], strides, strict=True))
        attrs["auto_pad"] = draw.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]) if near else "VALID"
    elif draw.maybe():
        attrs["pads"] = [draw.randint(0, k - 1) for _ in range(2) for k in attrs["kernel_shape"]]
    return attrs


def _dilated(draw: Draw, x: np.ndarray, attrs: dict) -> dict:
    sizes = zip(x.shape[2:], attrs["kernel_shape"], strict=True)
    fits = all(2 * (k - 1) + 1 <= size for size, k in sizes)
    if fits and "auto_pad" not in attrs and draw.maybe(0.3):
        attrs["dilations"] = [2] * len(attrs["kernel_shape"])
    return attrs


def _conv(draw: Draw, x: np.ndarray, op: str) -> Node | None:
    channels, attrs = x.shape[1], _dilated(draw, x, _window(draw, x))
    groups = draw.choice([n for n in {1, channels} if channels % n == 0])
    # Groups of a transposed one the evaluator computes otherwise than PyTorch, ORT lacks in 3-D.
    groups = groups if op == "Conv" else 1
    attrs["group"] = groups
    outs = groups * draw.choice([1, 2, 8])
    first = (outs, channels // groups) if op == "Conv" else (channels, outs // groups)
    if op == "ConvTranspose" and "auto_pad" in attrs:
        del attrs["auto_pad"]
    weight = _weight(draw, (*first, *attrs["kernel_shape"]))
    bias = [_weight(draw, (outs,))] if draw.maybe() else []
    return Node(op, [weight, *bias], attrs)


def _pool(draw: Draw, x: np.ndarray, op: str) -> Node:
    attrs = _window(draw, x)
    if op == "AveragePool":
        attrs["count_include_pad"] = draw.randint(0, 1)
    if op == "LpPool":
        attrs["p"] = draw.randint(1, 2)
    if op == "MaxPool":
        attrs = _dilated(draw, x, attrs)
    if "auto_pad" not in attrs and op != "LpPool" and draw.maybe(0.3):
        attrs["ceil_mode"] = 1
    return Node(op, attrs=attrs, exact=op == "MaxPool")


def _global(_: Draw, x: np.ndarray, op: str) -> Node:
    return Node(op, exact=op == "GlobalMaxPool")


def _resize(draw: Draw, x: np.ndarray) -> Node | None:
    mode = draw.choice(["nearest", "linear", "cubic"])
    scales = [1.0, 1.0, *(draw.choice([0.5, 1.0, 2.0, 1.5]) for _ in x.shape[2:])]
    made = [math.floor(e * s) for e, s in zip(x.shape, scales, strict=True)]
    if not all(made) or (mode == "cubic" and x.ndim != 4):
        return None
    way = draw.choice(["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"])
    attrs = {"mode": mode, "coordinate_transformation_mode": way}
    if mode == "nearest":
        attrs["nearest_mode"] = draw.choice(["floor", "ceil", "round_prefer_floor"])
    empty = Operand(None)
    return Node("Resize", [empty, Operand(np.array(scales, np.float32), True)], attrs)


def _quantise(draw: Draw, x: np.ndarray) -> Node:
    dtype = draw.choice(["uint8", "int8"])
    if x.ndim > 1 and draw.maybe(0.3):
        axis = draw.axis(x.ndim)
        shape, attrs = (x.shape[axis],), {"axis": axis}
    else:
        shape, attrs = (), {}
    scale = np.float32(2.0) ** draw.array(shape, "int32", -5, -1)
    zero = draw.array(shape, dtype, 0, 20)
    given = [Operand(np.asarray(scale, np.float32), True), Operand(zero, True)]
    return Node("QuantizeLinear", given, attrs, exact=True)


def _dequantise(draw: Draw, x: np.ndarray) -> Node:
    scale = np.array(2.0 ** draw.randint(-6, 1), np.float32)
    zero = [Operand(draw.array((), str(x.dtype), 0, 20), True)] if draw.maybe() else []
    return Node("DequantizeLinear", [Operand(scale, True), *zero], exact=True)


def _integers(draw: Draw, x: np.ndarray) -> Node:
    weight = Operand(draw.array((x.shape[-1], 7), draw.choice(["uint8", "int8"]), 0, 90), True)
    return Node("MatMulInteger", [weight], exact=True)


OPERATORS: dict[str, Operator] = {
    "MatMul": Operator(_matmul, ("float32", "float64"), 1),
    "Gemm": Operator(_gemm, ("float32",), 2),
    **{op: Operator(partial(_conv, op=op), ("float32",), 3) for op in ("Conv", "ConvTranspose")},
    **{op: Operator(partial(_pool, op=op), ("float32",), 3)
       for op in ("AveragePool", "MaxPool", "LpPool")},
    **{op: Operator(partial(_global, op=op), ("float32",), 3)
       for op in ("GlobalAveragePool", "GlobalMaxPool")},
    "Resize": Operator(_resize, ("float32",), 3),
    "QuantizeLinear": Operator(_quantise, ("float32",), steps=True),
    "DequantizeLinear": Operator(_dequantise, ("uint8", "int8")),
    "MatMulInteger": Operator(_integers, ("uint8", "int8"), 2),
}  # fmt: skip

"""Cases of matrix products, windows, resizing, quantization and contributed operators."""

from __future__ import annotations

import numpy as np

from support.frontend.case import IMAGE, X234, Case, ints, random


def matrix_cases():
    a, b, c = random(3, 4), random(4, 5, seed=1), random(5, seed=2)
    yield Case("Gemm", "Gemm", {"a": a}, {"b": b, "c": c})
    yield Case("Gemm-no-c", "Gemm", {"a": a}, {"b": b})
    yield Case("Gemm-transB", "Gemm", {"a": a}, {"b": b.T.copy(), "c": c}, attrs={"transB": 1})
    yield Case("Gemm-transA", "Gemm", {"a": a.T.copy()}, {"b": b, "c": c}, attrs={"transA": 1})
    yield Case(
        "Gemm-alpha-beta",
        "Gemm",
        {"a": a, "b": b, "c": random(3, 1)},
        attrs={"alpha": 0.5, "beta": 2.0},
    )
    yield Case("Gemm-beta-0", "Gemm", {"a": a, "b": b, "c": c}, attrs={"beta": 0.0})
    yield Case("Gemm-scalar-c", "Gemm", {"a": a, "b": b, "c": random(1)})
    yield Case("Gemm-transB-input", "Gemm", {"a": a, "b": b.T.copy()}, attrs={"transB": 1})
    shapes = {
        "2x2": ((3, 4), (4, 5)),
        "3x2": ((2, 3, 4), (4, 5)),
        "3x3": ((2, 3, 4), (2, 4, 5)),
        "4x3": ((2, 1, 3, 4), (6, 4, 5)),
        "1x2": ((4,), (4, 5)),
        "2x1": ((3, 4), (4,)),
        "1x1": ((4,), (4,)),
        "1x3": ((4,), (2, 4, 5)),
        "3x1": ((2, 3, 4), (4,)),
    }
    for name, (s, t) in shapes.items():
        yield Case(f"MatMul-{name}", "MatMul", {"a": random(*s), "b": random(*t, seed=1)})
    yield Case(
        "MatMul-i32",
        "MatMul",
        {
            "a": random(2, 3, dtype="i4", low=-9, high=9),
            "b": random(3, 2, dtype="i4", low=-9, high=9),
        },
    )
    yield Case(
        "MatMul-f64", "MatMul", {"a": random(2, 3, dtype="f8"), "b": random(3, 2, dtype="f8")}
    )
    yield Case(
        "MatMulInteger",
        "MatMulInteger",
        {
            "a": random(2, 3, dtype="u1", low=0, high=255),
            "b": random(3, 2, dtype="i1", low=-9, high=9),
        },
        {"az": np.uint8(7)},
    )
    for equation, s, t in (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
        ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 3, 4)),
        ("...ij,jk->...ik", (2, 2, 3), (3, 4)),
        ("i,j->ij", (2,), (3,)),
    ):
        yield Case(
            f"Einsum-{equation}",
            "Einsum",
            {"a": random(*s), "b": random(*t)},
            attrs={"equation": equation},
        )
    yield Case("Einsum-trace", "Einsum", {"a": random(2, 3)}, attrs={"equation": "ij->ji"})
    yield Case(
        "Einsum-implicit",
        "Einsum",
        {"a": random(2, 3), "b": random(3, 2)},
        attrs={"equation": "ij,jk"},
    )


def window_cases():
    x = IMAGE
    for op in ("MaxPool", "AveragePool"):
        yield Case(op, op, x, attrs={"kernel_shape": [2, 2], "strides": [2, 2]})
        yield Case(
            f"{op}-pads",
            op,
            x,
            attrs={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        )
        yield Case(
            f"{op}-ceil", op, x, attrs={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
        )
        yield Case(
            f"{op}-ceil-pads",
            op,
            x,
            attrs={"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 0, 1]},
        )
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield Case(
                f"{op}-{auto}",
                op,
                x,
                attrs={"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": auto},
            )
        yield Case(f"{op}-1d", op, {"x": random(1, 2, 9)}, attrs={"kernel_shape": [3]})
        yield Case(f"{op}-3d", op, {"x": random(1, 2, 4, 4, 4)}, attrs={"kernel_shape": [2, 2, 2]})
        yield Case(
            f"{op}-dilated", op, x, attrs={"kernel_shape": [2, 2], "dilations": [2, 2]}, opset=19
        )
    for ceil in (0, 1):
        yield Case(
            f"AveragePool-include-pad-{ceil}",
            "AveragePool",
            x,
            opset=19,
            attrs={
                "kernel_shape": [3, 3],
                "strides": [2, 2],
                "pads": [1, 1, 1, 1],
                "count_include_pad": 1,
                "ceil_mode": ceil,
            },
        )
    yield Case(
        "MaxPool-i8",
        "MaxPool",
        {"x": random(1, 1, 4, 4, dtype="i1", low=-99, high=99)},
        attrs={"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]},
    )
    yield Case("GlobalAveragePool", "GlobalAveragePool", x)
    yield Case("GlobalMaxPool", "GlobalMaxPool", x)
    yield Case("GlobalAveragePool-1d", "GlobalAveragePool", {"x": random(1, 3, 5)})
    yield Case("GlobalAveragePool-3d", "GlobalAveragePool", {"x": random(1, 3, 2, 3, 2)})
    w, b = random(4, 3, 3, 3, seed=1), random(4, seed=2)
    yield Case("Conv", "Conv", x, {"w": w, "b": b})
    yield Case(
        "Conv-pads-strides", "Conv", x, {"w": w}, attrs={"pads": [1, 0, 2, 1], "strides": [2, 1]}
    )
    yield Case(
        "Conv-same", "Conv", x, {"w": w}, attrs={"auto_pad": "SAME_LOWER", "strides": [2, 2]}
    )
    yield Case("Conv-dilated", "Conv", x, {"w": w}, attrs={"dilations": [2, 2]})
    yield Case("Conv-depthwise", "Conv", x, {"w": random(3, 1, 3, 3)}, attrs={"group": 3})
    yield Case(
        "Conv-group",
        "Conv",
        {"x": random(1, 4, 5, 5)},
        {"w": random(6, 2, 3, 3)},
        attrs={"group": 2},
    )
    yield Case("Conv-1d", "Conv", {"x": random(1, 3, 9)}, {"w": random(2, 3, 3), "b": random(2)})
    yield Case("Conv-3d", "Conv", {"x": random(1, 2, 4, 4, 4)}, {"w": random(3, 2, 2, 2, 2)})
    yield Case("Conv-weight-input", "Conv", {**x, "w": w, "b": b})
    wt = random(3, 2, 3, 3, seed=1)
    yield Case("ConvTranspose", "ConvTranspose", x, {"w": wt, "b": random(2)})
    yield Case(
        "ConvTranspose-strides",
        "ConvTranspose",
        x,
        {"w": wt},
        attrs={"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    )
    yield Case(
        "ConvTranspose-group",
        "ConvTranspose",
        {"x": random(1, 4, 3, 3)},
        {"w": random(4, 3, 2, 2)},
        attrs={"group": 2},
    )
    yield Case(
        "ConvTranspose-same",
        "ConvTranspose",
        x,
        {"w": wt},
        attrs={"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    )
    yield Case(
        "ConvTranspose-output-shape",
        "ConvTranspose",
        x,
        {"w": wt},
        attrs={"strides": [2, 2], "output_shape": [15, 16]},
    )
    yield Case("ConvTranspose-dilated", "ConvTranspose", x, {"w": wt}, attrs={"dilations": [2, 2]})
    yield Case(
        "ConvTranspose-1d",
        "ConvTranspose",
        {"x": random(1, 3, 5)},
        {"w": random(3, 2, 3)},
        attrs={"strides": [2]},
    )
    small = {"x": random(1, 1, 3, 4)}
    for mode in ("nearest", "linear", "cubic"):
        for coords in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            yield Case(
                f"Resize-{mode}-{coords}",
                "Resize",
                small,
                {"sizes": ints(1, 1, 6, 8)},
                order=("x", "", "", "sizes"),
                attrs={"mode": mode, "coordinate_transformation_mode": coords},
            )
    yield Case(
        "Resize-scales",
        "Resize",
        small,
        {"r": np.array([1, 1, 2, 1.5], "f4")},
        order=("x", "", "r"),
        attrs={"mode": "nearest"},
    )
    yield Case(
        "Resize-floor",
        "Resize",
        small,
        {"r": np.array([1, 1, 2, 2], "f4")},
        order=("x", "", "r"),
        attrs={
            "mode": "nearest",
            "nearest_mode": "floor",
            "coordinate_transformation_mode": "asymmetric",
        },
    )
    yield Case(
        "Resize-down",
        "Resize",
        {"x": random(1, 2, 8, 8)},
        {"sizes": ints(1, 2, 3, 5)},
        order=("x", "", "", "sizes"),
        attrs={"mode": "linear"},
    )
    yield Case("Upsample-9", "Upsample", small, {"r": np.array([1, 1, 2, 2], "f4")}, opset=9)


def quantization_cases():
    x, s, z = {"x": random(2, 5, high=9, low=-9)}, np.float32(0.1), np.uint8(128)
    yield Case("QuantizeLinear", "QuantizeLinear", x, {"s": s, "z": z})
    yield Case("QuantizeLinear-no-zero", "QuantizeLinear", x, {"s": s})
    yield Case(
        "QuantizeLinear-ties",
        "QuantizeLinear",
        {"x": np.array([0.5, 1.5, 2.5, -0.5], "f4")},
        {"s": np.float32(1), "z": np.int8(0)},
    )
    q = {"x": random(2, 5, dtype="u1", low=0, high=255)}
    yield Case("DequantizeLinear", "DequantizeLinear", q, {"s": s, "z": z})
    yield Case(
        "DequantizeLinear-i8",
        "DequantizeLinear",
        {"x": random(2, 5, dtype="i1", low=-99, high=99)},
        {"s": s},
    )
    yield Case(
        "DequantizeLinear-axis",
        "DequantizeLinear",
        q,
        {"s": random(2, low=0.1), "z": ints(3, 4, dtype="u1")},
        attrs={"axis": 0},
    )
    yield Case("DynamicQuantizeLinear", "DynamicQuantizeLinear", x, outputs=3)


def contrib_cases():
    ms = {"domain": "com.microsoft"}
    yield Case("ms-Gelu", "Gelu", X234, **ms)
    yield Case("ms-FastGelu", "FastGelu", X234, {"b": random(4)}, **ms)
    yield Case("ms-BiasGelu", "BiasGelu", X234, {"b": random(4)}, **ms)
    skip = {"x": random(2, 3, 4), "s": random(2, 3, 4, seed=1)}
    yield Case(
        "ms-SkipLayerNormalization",
        "SkipLayerNormalization",
        skip,
        {"g": random(4), "b": random(4, seed=1), "i": random(4, seed=2)},
        **ms,
    )
    yield Case(
        "Attention",
        "Attention",
        {"q": random(1, 2, 3, 4), "k": random(1, 2, 5, 4, seed=1), "v": random(1, 2, 5, 4, seed=2)},
        opset=23,
    )


CASES = [*matrix_cases(), *window_cases(), *quantization_cases(), *contrib_cases()]

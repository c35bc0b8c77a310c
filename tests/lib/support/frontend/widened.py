"""Cases of operators that TVM's importer lacks, written in others."""

from __future__ import annotations

import numpy as np

from support.frontend.case import BF16, Case, ints, random


def resize_cases():
    image = random(1, 2, 7, 5)
    for mode in ("nearest", "linear", "cubic"):
        for way in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            scales = np.array([1, 1, 0.6, 1.7], "f4")
            attrs = {"mode": mode, "coordinate_transformation_mode": way}
            yield Case(
                f"Resize-{mode}-{way}",
                "Resize",
                {"x": image},
                {"s": scales},
                attrs,
                order=("x", "", "s"),
                reference=True,
            )
    for mode in ("nearest", "linear"):
        attrs = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
        scales = {"s": np.array([1, 1, 1, 0.5, 2], "f4")}
        yield Case(f"Resize-{mode}-to-one", "Resize", {"x": random(1, 2, 1, 2, 3)}, scales,
                   attrs, order=("x", "", "s"), reference=True)  # fmt: skip
    for mode in ("linear", "cubic"):
        sizes = {"n": ints(1, 2, 3, 9)}
        attrs = {"mode": mode, "antialias": 1}
        yield Case(f"Resize-{mode}-smooth", "Resize", {"x": image}, sizes, attrs,
                   order=("x", "", "", "n"), reference=True)  # fmt: skip
    yield Case(
        "Resize-outside",
        "Resize",
        {"x": image},
        {"s": np.array([1, 1, 0.8, 1.3], "f4")},
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        order=("x", "", "s"),
        reference=True,
    )
    yield Case(
        "Resize-crop",
        "Resize",
        {"x": image},
        {"r": np.array([0, 0, 0.2, -0.35, 1, 1, 0.7, 1.2], "f4"), "n": ints(1, 2, 4, 6)},
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
         "extrapolation_value": 9.0},
        order=("x", "r", "", "n"),
        reference=True,
    )  # fmt: skip
    yield Case(
        "Resize-one-axis",
        "Resize",
        {"x": random(4, 6)},
        {"n": ints([9])},
        {"mode": "linear", "axes": [1]},
        order=("x", "", "", "n"),
        reference=True,
    )


def quantised_cases():
    a = random(2, 3, 4, dtype="u1", low=0, high=255)
    b = random(4, 5, dtype="i1", low=-128, high=127)
    scales = {"sa": np.float32(0.02), "za": np.uint8(7), "sb": np.float32(0.01), "zb": np.int8(-3),
              "sy": np.float32(0.5), "zy": np.uint8(100)}  # fmt: skip
    order = ("a", "sa", "za", "b", "sb", "zb", "sy", "zy")
    yield Case("QLinearMatMul", "QLinearMatMul", {"a": a}, {"b": b, **scales}, order=order)
    image = random(1, 4, 6, 5, dtype="u1", low=0, high=255)
    weight = random(6, 2, 3, 2, dtype="i1", low=-128, high=127)
    channels = {**scales, "sb": random(6, low=0.005, high=0.02), "zb": np.zeros(6, "i1"),
                "bias": random(6, dtype="i4", low=-500, high=500)}  # fmt: skip
    yield Case(
        "QLinearConv-channels",
        "QLinearConv",
        {"a": image},
        {"b": weight, **channels},
        {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]},
        order=(*order, "bias"),
    )
    yield Case(
        "ConvInteger",
        "ConvInteger",
        {"a": image},
        {"b": random(3, 4, 2, 2, dtype="u1", low=0, high=255), "za": np.uint8(9)},
        {"pads": [1, 1, 0, 0]},
        order=("a", "b", "za"),
    )
    blocks = {"s": random(2, 3, low=0.1, high=0.9), "z": random(2, 3, dtype="i1", low=-5, high=5)}
    attrs = {"axis": 1, "block_size": 3}
    whole = random(2, 8, dtype="i1", low=-90, high=90)
    yield Case("DequantizeLinear-blocks", "DequantizeLinear", {"x": whole}, blocks, attrs,
               opset=21, reference=True)  # fmt: skip


def other_cases():
    yield Case("CumProd", "CumProd", {"x": random(3, 7)}, {"a": np.int64(1)},
               {"exclusive": 1, "reverse": 1}, opset=26, reference=True)  # fmt: skip
    yield Case("Det", "Det", {"x": random(3, 5, 5)}, opset=11, reference=True)
    singular = np.array([[[1, 2], [2, 4]], [[0, 1], [1, 0]]], "f4")
    yield Case("Det-singular", "Det", {"x": singular}, opset=11, reference=True)
    yield Case("DFT-odd", "DFT", {"x": random(2, 7, 1)}, {"n": np.int64(9), "a": np.int64(1)},
               {"onesided": 1}, opset=20, reference=True)  # fmt: skip
    yield Case("ReverseSequence", "ReverseSequence", {"x": random(3, 4, 2)}, {"n": ints(1, 4, 2)},
               {"batch_axis": 0, "time_axis": 1}, opset=10, reference=True)  # fmt: skip
    yield Case("Col2Im", "Col2Im", {"x": random(2, 12, 4)}, {"i": ints(5, 5), "k": ints(2, 3)},
               {"strides": [2, 2], "dilations": [2, 1], "pads": [0, 0, 1, 0]},
               reference=True)  # fmt: skip
    image = random(2, 3, 6, 7)
    yield Case("MaxPool-places", "MaxPool", {"x": image},
               attrs={"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1],
                      "storage_order": 1}, outputs=2, opset=12)  # fmt: skip
    many = {f"x{n}": random(2, 1 + n % 3, seed=n) for n in range(100)}
    yield Case("Concat-100", "Concat", many, attrs={"axis": 1})
    mixed = np.array([5, -5, 5.5, -5.5, 0, -0.0, np.inf, 3], "f4")
    by = np.array([3, 3, -3, -3, -2, 2, 2, np.inf], "f4")
    yield Case("Mod-floats", "Mod", {"x": mixed, "y": by}, opset=13, reference=True)
    yield Case("ReduceMax-none", "ReduceMax", {"x": np.zeros((2, 0, 3), "f4")}, {"a": ints([1])},
               reference=True)  # fmt: skip
    yield Case("Elu-bf16", "Elu", {"x": random(9, dtype=BF16)}, opset=22, reference=True)


def deformed_cases():
    """Offsets of up to four pixels: many windows look beside the image."""
    x, w, b = random(2, 6, 7, 5), random(4, 3, 3, 2), random(4)
    offsets = random(2, 24, 3, 4, low=-4, high=4)
    attrs = {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 0, 0, 1],
             "dilations": [1, 2], "kernel_shape": [3, 2]}  # fmt: skip
    mask = random(2, 12, 3, 4)
    given = {"x": x, "w": w, "o": offsets, "b": b, "m": mask}
    yield Case("DeformConv", "DeformConv", given, attrs=attrs, opset=19, reference=True)
    plain = {"x": x, "w": random(4, 6, 2, 2), "o": random(2, 8, 6, 4, low=-2, high=2)}
    yield Case("DeformConv-plain", "DeformConv", plain, opset=19, reference=True)


CASES = [*resize_cases(), *quantised_cases(), *other_cases(), *deformed_cases()]

"""Cases of layout and indexing operators."""

from __future__ import annotations

import numpy as np
import onnx

from support.frontend.case import Case, ints, random


def layout_cases():
    x = {"x": random(2, 3, 4)}
    yield Case("Transpose", "Transpose", x)
    yield Case("Transpose-perm", "Transpose", x, attrs={"perm": [1, 2, 0]})
    yield Case("Reshape", "Reshape", x, {"s": ints(0, -1)})
    yield Case(
        "Reshape-zero", "Reshape", {"x": random(0, 3)}, {"s": ints(3, 0)}, attrs={"allowzero": 1}
    )
    yield Case("Flatten", "Flatten", x)
    yield Case("Flatten-0", "Flatten", x, attrs={"axis": 0})
    yield Case("Flatten-negative", "Flatten", x, attrs={"axis": -1})
    yield Case("Squeeze", "Squeeze", {"x": random(1, 3, 1)})
    yield Case("Squeeze-axes", "Squeeze", {"x": random(1, 3, 1)}, {"a": ints([-1])})
    yield Case("Squeeze-11", "Squeeze", {"x": random(1, 3, 1)}, attrs={"axes": [0]}, opset=11)
    yield Case("Unsqueeze", "Unsqueeze", x, {"a": ints(0, -1)})
    yield Case("Unsqueeze-order", "Unsqueeze", x, {"a": ints(4, 0)})
    yield Case("Concat", "Concat", {"a": random(2, 3), "b": random(2, 1)}, attrs={"axis": -1})
    yield Case(
        "Concat-const", "Concat", {"a": random(2, 3)}, {"b": random(2, 3)}, attrs={"axis": 0}
    )
    yield Case(
        "Split", "Split", {"x": random(2, 6)}, {"s": ints(1, 2, 3)}, attrs={"axis": 1}, outputs=3
    )
    yield Case("Split-equal", "Split", {"x": random(6, 2)}, outputs=3, opset=13)
    yield Case("Split-num", "Split", {"x": random(7, 2)}, outputs=3, attrs={"num_outputs": 3})
    yield Case("Split-one", "Split", {"x": random(7, 2)}, outputs=1, attrs={"num_outputs": 1})
    yield Case("Slice", "Slice", x, {"b": ints(0, 1), "e": ints(2, 3), "a": ints(1, 2)})
    yield Case(
        "Slice-negative-step",
        "Slice",
        x,
        {"b": ints([-1]), "e": ints([-(2**63)]), "a": ints([2]), "s": ints([-1])},
    )
    yield Case(
        "Slice-negative-step-2",
        "Slice",
        x,
        {"b": ints([3]), "e": ints([0]), "a": ints([2]), "s": ints([-2])},
    )
    yield Case(
        "Slice-clamp",
        "Slice",
        x,
        {"b": ints([-9]), "e": ints([2**63 - 1]), "a": ints([1]), "s": ints([2])},
    )
    yield Case(
        "Slice-i32",
        "Slice",
        x,
        {
            "b": ints([1], dtype="i4"),
            "e": ints([2**31 - 1], dtype="i4"),
            "a": ints([1], dtype="i4"),
        },
    )
    yield Case("Slice-empty", "Slice", x, {"b": ints([2]), "e": ints([1]), "a": ints([1])})
    yield Case("Expand", "Expand", {"x": random(3, 1)}, {"s": ints(2, 1, 4)})
    yield Case("Expand-lower", "Expand", {"x": random(2, 3)}, {"s": ints([1])})
    yield Case("Tile", "Tile", {"x": random(2, 3)}, {"r": ints(2, 3)})
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield Case(
            f"Pad-{mode}",
            "Pad",
            {"x": random(3, 4)},
            {"p": ints(1, 2, 0, 1)},
            attrs={"mode": mode},
            opset=19,
        )
    yield Case("Pad-value", "Pad", {"x": random(3, 4)}, {"p": ints(1, 0, 0, 1), "v": np.float32(7)})
    yield Case(
        "Pad-axes",
        "Pad",
        {"x": random(3, 4)},
        {"p": ints(1, 2), "a": ints([-1])},
        order=("x", "p", "", "a"),
    )
    yield Case("Pad-negative", "Pad", {"x": random(3, 4)}, {"p": ints(-1, 0, 1, -1)})
    yield Case("Pad-i64", "Pad", {"x": ints(1, 2, 3)}, {"p": ints(1, 1), "v": np.int64(-5)})
    yield Case("Trilu", "Trilu", {"x": random(3, 4)})
    yield Case("Trilu-k", "Trilu", {"x": random(3, 4)}, {"k": np.array(-1)}, attrs={"upper": 0})
    yield Case("Trilu-bool", "Trilu", {"x": random(2, 3, 3) > 0}, {"k": np.array(1)})
    yield Case("DepthToSpace", "DepthToSpace", {"x": random(1, 8, 2, 3)}, attrs={"blocksize": 2})
    yield Case(
        "DepthToSpace-CRD",
        "DepthToSpace",
        {"x": random(1, 8, 2, 3)},
        attrs={"blocksize": 2, "mode": "CRD"},
    )
    yield Case("SpaceToDepth", "SpaceToDepth", {"x": random(1, 2, 4, 6)}, attrs={"blocksize": 2})
    yield Case("ConstantOfShape", "ConstantOfShape", {}, {"s": ints(2, 3)})
    yield Case("Shape", "Shape", x)
    yield Case("Shape-slice", "Shape", x, attrs={"start": -2, "end": 9})
    yield Case("Size", "Size", x)
    yield Case("EyeLike", "EyeLike", {"x": random(3, 4)}, attrs={"k": 1})
    yield Case("Range", "Range", {}, {"a": np.int64(2), "b": np.int64(9), "c": np.int64(3)})


def index_cases():
    x = random(4, 5)
    i = ints([[0, -1], [3, -4]])
    yield Case("Gather", "Gather", {"x": x, "i": i})
    yield Case("Gather-axis", "Gather", {"x": x, "i": ints([-5, 4, 0])}, attrs={"axis": -1})
    yield Case("Gather-scalar", "Gather", {"x": x}, {"i": np.array(-2)})
    yield Case("Gather-i32", "Gather", {"x": x, "i": i.astype("i4")})
    yield Case("Gather-weights", "Gather", {"i": i}, {"x": x}, order=("x", "i"))
    yield Case(
        "GatherElements",
        "GatherElements",
        {"x": x, "i": ints([[0, -1, 2], [1, 1, -5]])},
        attrs={"axis": 1},
    )
    yield Case("GatherND", "GatherND", {"x": x, "i": ints([[0, -1], [-4, 2]])})
    yield Case("GatherND-rows", "GatherND", {"x": x, "i": ints([[0], [-1]])})
    yield Case(
        "GatherND-batch",
        "GatherND",
        {"x": random(2, 3, 4), "i": ints([[-1], [2]])},
        attrs={"batch_dims": 1},
    )
    update = {"x": x, "i": ints([[0, -1, 2]]), "u": random(1, 3, seed=1)}
    yield Case("ScatterElements", "ScatterElements", update, attrs={"axis": 1})
    yield Case("ScatterElements-add", "ScatterElements", update, attrs={"reduction": "add"})
    scatter = {"x": x, "i": ints([[0], [-1]]), "u": random(2, 5, seed=1)}
    yield Case("ScatterND", "ScatterND", scatter)
    yield Case("ScatterND-add", "ScatterND", scatter, attrs={"reduction": "add"})
    hot = {"i": ints(0, 2, -1, 7)}
    yield Case("OneHot", "OneHot", hot, {"d": np.array(3), "v": np.array([0, 1], "f4")})
    yield Case(
        "OneHot-axis",
        "OneHot",
        hot,
        {"d": np.array([4]), "v": np.array([-1, 5], "i8")},
        attrs={"axis": 0},
    )
    yield Case("NonMaxCast", "Cast", {"x": x}, attrs={"to": onnx.TensorProto.INT32})


CASES = [*layout_cases(), *index_cases()]

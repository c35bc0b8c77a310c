"""Cases of reductions, softmax and normalizations."""

from __future__ import annotations

import numpy as np

from support.frontend.case import IMAGE, OLD_RUNTIME, X234, Case, ints, random


def reduction_cases():
    for kind in [
        "Max",
        "Min",
        "Sum",
        "Mean",
        "Prod",
        "LogSumExp",
        "LogSum",
        "SumSquare",
        "L1",
        "L2",
    ]:
        op = f"Reduce{kind}"
        x = {"x": random(2, 3, 4, low=0.5)}
        since = 13 if kind == "Sum" else 18
        yield Case(f"{op}-all", op, x)
        yield Case(f"{op}-input-axes", op, x, {"axes": ints([1])})
        yield Case(f"{op}-negative", op, x, {"axes": ints([-1, 0])}, attrs={"keepdims": 0})
        noop = {"noop_with_empty_axes": 1}
        yield Case(f"{op}-noop", op, x, attrs=noop, reference=OLD_RUNTIME)
        yield Case(f"{op}-empty-axes", op, x, {"axes": np.array([], "i8")})
        yield Case(f"{op}-attr", op, x, attrs={"axes": [0, -1], "keepdims": 0}, opset=since - 2)
    for dtype in ("i4", "i8", "f8", "f2"):
        for kind in ("Sum", "Max", "Mean", "Prod"):
            if (kind, dtype) == ("Prod", "f2"):
                continue
            x = {"x": random(2, 3, dtype=dtype, low=-9, high=9)}
            yield Case(
                f"Reduce{kind}-{dtype}",
                f"Reduce{kind}",
                x,
                {"axes": ints([1])},
                reference=dtype == "f2",
            )
    big = {"x": np.array([[100.0, 101, 99], [-200, -201, -199]], "f4")}
    yield Case("ReduceLogSumExp-large", "ReduceLogSumExp", big, {"axes": ints([1])})
    ends = (np.inf, -np.inf, np.nan, 1)
    rows = {"x": np.array([[a, b] for a in ends for b in ends], "f4")}
    yield Case("ReduceLogSumExp-special", "ReduceLogSumExp", rows, {"axes": ints([1])})
    attrs = {"axes": [-1], "keepdims": 0}
    yield Case("ReduceLogSumExp-special-13", "ReduceLogSumExp", rows, attrs=attrs, opset=13)
    yield Case("ReduceLogSumExp-f8", "ReduceLogSumExp", {"x": random(2, 3, dtype="f8")})
    ties = {"x": np.array([[1, 3, 3], [2, 2, 1]], "f4")}
    for op in ("ArgMax", "ArgMin"):
        yield Case(op, op, ties, attrs={"axis": 1})
        yield Case(f"{op}-flat", op, ties, attrs={"axis": -1, "keepdims": 0})
        yield Case(f"{op}-last", op, ties, attrs={"axis": 1, "select_last_index": 1})
    for name, attrs in {
        "": {},
        "-exclusive": {"exclusive": 1},
        "-reverse": {"reverse": 1},
        "-both": {"exclusive": 1, "reverse": 1},
    }.items():
        yield Case(f"CumSum{name}", "CumSum", X234, {"axis": np.array(1)}, attrs=attrs)
    yield Case(
        "CumSum-i64",
        "CumSum",
        {"x": random(2, 4, dtype="i8", low=-9, high=9)},
        {"axis": np.array(-1)},
    )
    yield Case("TopK", "TopK", {"x": random(3, 6)}, {"k": ints([2])}, outputs=2)
    yield Case(
        "TopK-smallest",
        "TopK",
        {"x": random(3, 6)},
        {"k": ints([2])},
        outputs=2,
        attrs={"axis": 0, "largest": 0},
    )
    yield Case(
        "TopK-i64",
        "TopK",
        {"x": random(6, dtype="i8", low=0, high=99)},
        {"k": ints([3])},
        outputs=2,
    )
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield Case(f"{op}-13", op, X234)
        yield Case(f"{op}-13-axis", op, X234, attrs={"axis": 1})
        yield Case(f"{op}-11", op, X234, opset=11)
        yield Case(f"{op}-11-axis0", op, X234, opset=11, attrs={"axis": 0})
        yield Case(f"{op}-11-axis2", op, X234, opset=11, attrs={"axis": 2})
        yield Case(f"{op}-11-negative", op, X234, opset=11, attrs={"axis": -2})
    yield Case("Softmax-large", "Softmax", {"x": 1000 * random(2, 3)})


def normalization_cases():
    gamma, beta = random(4, seed=1), random(4, seed=2)
    yield Case("LayerNormalization", "LayerNormalization", X234, {"s": gamma, "b": beta})
    yield Case("LayerNormalization-no-bias", "LayerNormalization", X234, {"s": gamma})
    yield Case(
        "LayerNormalization-multi",
        "LayerNormalization",
        X234,
        {"s": random(3, 4), "b": random(3, 4)},
        attrs={"axis": 1},
    )
    yield Case(
        "LayerNormalization-negative",
        "LayerNormalization",
        X234,
        {"s": random(3, 4), "b": random(3, 4)},
        attrs={"axis": -2, "epsilon": 0.1},
    )
    yield Case(
        "LayerNormalization-statistics",
        "LayerNormalization",
        X234,
        {"s": gamma, "b": beta},
        outputs=3,
    )
    yield Case(
        "LayerNormalization-broadcast-scale",
        "LayerNormalization",
        X234,
        {"s": random(1, 4), "b": random(4)},
        attrs={"axis": 1},
        reference=OLD_RUNTIME,
    )
    yield Case(
        "LayerNormalization-f16",
        "LayerNormalization",
        {"x": random(2, 4, dtype="f2")},
        {"s": gamma.astype("f2"), "b": beta.astype("f2")},
        reference=True,
    )
    yield Case("RMSNormalization", "RMSNormalization", X234, {"s": gamma}, opset=23)
    yield Case(
        "InstanceNormalization",
        "InstanceNormalization",
        IMAGE,
        {"s": random(3), "b": random(3, seed=1)},
    )
    image4 = {"x": random(2, 4, 3, 3)}
    yield Case(
        "GroupNormalization-18",
        "GroupNormalization",
        image4,
        {"s": random(2), "b": random(2, seed=1)},
        attrs={"num_groups": 2},
    )
    yield Case(
        "GroupNormalization-21",
        "GroupNormalization",
        image4,
        {"s": random(4), "b": random(4, seed=1)},
        attrs={"num_groups": 2},
        opset=21,
    )
    stats = {
        "s": random(3),
        "b": random(3, seed=1),
        "m": random(3, seed=2),
        "v": random(3, low=0.2, seed=3),
    }
    yield Case("BatchNormalization", "BatchNormalization", IMAGE, stats)
    yield Case("BatchNormalization-2d", "BatchNormalization", {"x": random(5, 3)}, stats)
    yield Case("BatchNormalization-inputs", "BatchNormalization", {**IMAGE, **stats})
    yield Case(
        "BatchNormalization-9", "BatchNormalization", IMAGE, stats, opset=9, attrs={"epsilon": 0.1}
    )
    yield Case("MeanVarianceNormalization", "MeanVarianceNormalization", IMAGE)
    yield Case("LRN", "LRN", IMAGE, attrs={"size": 3})
    yield Case("Dropout", "Dropout", X234, opset=13)
    yield Case("Dropout-mask", "Dropout", X234, outputs=2, opset=13)


CASES = [*reduction_cases(), *normalization_cases()]

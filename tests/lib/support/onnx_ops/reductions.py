"""Reductions, softmaxes, norms and sums along an axis."""

from __future__ import annotations

from functools import partial

import numpy as np

from .draw import FLOATS, Draw, Node, Operand, Operator, ints

SUMS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip


def _reduce(draw: Draw, x: np.ndarray, op: str) -> Node | None:
    if op == "ReduceProd" and _may_overflow(x):
        return None  # on the way, in one order and not in another
    attrs = {"keepdims": draw.randint(0, 1)} if draw.maybe(0.8) else {}
    exact = op in ("ReduceMax", "ReduceMin")
    if draw.maybe(0.2) or not x.ndim:
        if draw.maybe():
            attrs["noop_with_empty_axes"] = draw.randint(0, 1)
        return Node(op, (), attrs, exact=exact)
    return Node(op, [ints(*draw.axes(x.ndim))], attrs, exact=exact)


def _may_overflow(x: np.ndarray) -> bool:
    """Return whether a product of some elements may be infinite or 0 where that of all is not."""
    if x.dtype.kind != "f":
        return False
    sizes = np.abs(x.astype(np.float64))
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    return np.abs(np.log2(known)).sum() > np.log2(np.finfo(x.dtype).max) / 2


def _place(draw: Draw, x: np.ndarray, op: str) -> Node:
    attrs = {"axis": draw.axis(x.ndim), "keepdims": draw.randint(0, 1)}
    return Node(op, (), attrs | {"select_last_index": draw.randint(0, 1)}, exact=True)


def _along(draw: Draw, x: np.ndarray, op: str) -> Node | None:
    if op == "LogSoftmax" and x.size and not np.ptp(x.astype(np.float64)) < 80:
        return None  # the evaluator takes the logarithm of what is 0 by then
    return Node(op, attrs={"axis": draw.axis(x.ndim)} if draw.maybe(0.8) else {})


def _cumulate(draw: Draw, x: np.ndarray) -> Node:
    axis = Operand(np.array(draw.axis(x.ndim), np.int64), True)
    attrs = {"exclusive": draw.randint(0, 1), "reverse": draw.randint(0, 1)}
    return Node("CumSum", [axis], attrs, exact=x.dtype.kind == "i")


def _layer_norm(draw: Draw, x: np.ndarray, op: str) -> Node:
    axis = draw.axis(x.ndim)
    shape = x.shape[axis % x.ndim :]
    operands = [Operand(draw.array(shape, str(x.dtype)), draw.maybe())]
    if op == "LayerNormalization" and draw.maybe(0.7):
        operands.append(Operand(draw.array(shape, str(x.dtype)), draw.maybe()))
    attrs = {"axis": axis} | ({"epsilon": 1e-3} if draw.maybe() else {})
    return Node(op, operands, attrs)


def _by_channel(draw: Draw, x: np.ndarray, op: str, count: int) -> Node:
    each = [Operand(draw.array(x.shape[1:2], str(x.dtype)), draw.maybe()) for _ in range(2)]
    if count == 4:
        each.append(Operand(draw.array(x.shape[1:2], str(x.dtype)), draw.maybe()))
        each.append(Operand(draw.array(x.shape[1:2], str(x.dtype), 0.2, 2), draw.maybe()))
    return Node(op, each, {"epsilon": 1e-3})


def _group_norm(draw: Draw, x: np.ndarray) -> Node:
    groups = draw.choice([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0])
    each = [Operand(draw.array(x.shape[1:2], str(x.dtype)), draw.maybe()) for _ in range(2)]
    return Node("GroupNormalization", each, {"num_groups": groups, "epsilon": 1e-3})


def _lp_norm(draw: Draw, x: np.ndarray) -> Node:
    return Node("LpNormalization", attrs={"axis": draw.axis(x.ndim), "p": draw.randint(1, 2)})


def _local_response(draw: Draw, x: np.ndarray) -> Node:
    return Node("LRN", attrs={"size": draw.choice([1, 3, 5]), "alpha": 0.1, "beta": 0.75})


def _top(draw: Draw, x: np.ndarray) -> Node | None:
    axis = draw.axis(x.ndim)
    if len(np.unique(x)) < x.size:
        return None  # of equals the order is open
    k = draw.randint(1, x.shape[axis])
    return Node("TopK", [ints(k)], {"axis": axis, "largest": draw.randint(0, 1)}, 2, exact=True)


OPERATORS: dict[str, Operator] = {
    **{op: Operator(partial(_reduce, op=op), ("float32", "float64")) for op in SUMS},
    **{f"{op}-int": Operator(partial(_reduce, op=op), ("int32", "int64"))
       for op in ("ReduceSum", "ReduceMax", "ReduceMin")},
    **{op: Operator(partial(_place, op=op), (*FLOATS, "int32", "int8"), 1, steps=True)
       for op in ("ArgMax", "ArgMin")},
    **{op: Operator(partial(_along, op=op), ("float32", "float64"), 1)
       for op in ("Softmax", "LogSoftmax")},
    "Hardmax": Operator(partial(_along, op="Hardmax"), ("float32",), 1, steps=True),
    "CumSum": Operator(_cumulate, ("float32", "float64", "int32", "int64"), 1),
    **{op: Operator(partial(_layer_norm, op=op), ("float32",), 1)
       for op in ("LayerNormalization", "RMSNormalization")},
    "InstanceNormalization": Operator(
        partial(_by_channel, op="InstanceNormalization", count=2), ("float32",), 3),
    "BatchNormalization": Operator(
        partial(_by_channel, op="BatchNormalization", count=4), ("float32",), 2),
    "GroupNormalization": Operator(_group_norm, ("float32",), 3),
    "LpNormalization": Operator(_lp_norm, ("float32",), 1),
    "LRN": Operator(_local_response, ("float32",), 4),
    "TopK": Operator(_top, ("float32", "int32"), 1, steps=True),
}  # fmt: skip

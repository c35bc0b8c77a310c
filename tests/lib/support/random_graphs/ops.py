"""The ops of random graphs: each draws its operands and appends a node, or gives up.

An op whose result jumps (a comparison, a rounding, a cast to an integer) takes exact operands only:
elsewhere a right answer may land on the other side of the jump.
"""

from __future__ import annotations

import numpy as np
from onnx import helper
from scipy import special

from support.random_graphs import values as rv
from support.random_graphs.graphs import Graph
from support.random_graphs.layouts import LAYOUTS
from support.random_graphs.reductions import REDUCTIONS, axes_of, reduce
from support.random_graphs.values import Value

_LIMIT = {"int32": 2**30, "int64": 2**53}
_BOUNDED = 20.0  # e ** 20 squared is far from every float32 limit


def _bounded(value: Value) -> bool:
    return value.plain or rv.largest(value) < _BOUNDED


SMOOTH = {
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda v: True),
    "Tanh": (np.tanh, lambda v: True),
    "Erf": (special.erf, lambda v: True),
    "Exp": (np.exp, _bounded),
    "Softplus": (lambda x: np.logaddexp(x, np.zeros_like(x)), lambda v: True),
    "Softsign": (lambda x: x / (1 + np.abs(x)), lambda v: rv.largest(v) < 1e30),
    "Sin": (np.sin, lambda v: rv.largest(v) < _BOUNDED),
    "Cos": (np.cos, lambda v: rv.largest(v) < _BOUNDED),
    "Log": (np.log, rv.away_from_zero),
    "Sqrt": (np.sqrt, rv.away_from_zero),
    "Reciprocal": (np.reciprocal, rv.away_from_zero),
}
SIGNED = {"Neg": np.negative, "Abs": np.abs}
NOT_IN_BFLOAT16 = ("Cos", "Round", "Sin", "Softplus", "Softsign")  # by ONNX's type constraints
JUMPS = {"Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign}
ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
ORDER = {"Max": np.maximum, "Min": np.minimum}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
COMPARE = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
}


def unary(graph: Graph) -> None:
    """A smooth function of floats."""
    name = graph.rng.choice(sorted(SMOOTH))
    function, takes = SMOOTH[name]
    value = graph.pick(lambda v: _takes_dtype(name, v))
    if value is None:
        return
    if not takes(value):
        # |x| and a constant away from zero: what Log, Sqrt and Reciprocal need.
        value = graph.select("Abs", np.abs, [value])
        half = graph.constant(0.5, value.dtype)
        value = graph.rounded("Add", np.add, [value, half])
    if takes(value):
        graph.rounded(name, function, [value])


def sign(graph: Graph) -> None:
    name = graph.rng.choice(sorted(SIGNED))
    if value := graph.pick(lambda v: v.dtype != "bool"):
        graph.select(name, SIGNED[name], [value])


def relu(graph: Graph) -> None:
    if value := graph.pick(lambda v: v.is_float):
        graph.select("Relu", lambda x: np.maximum(x, 0.0), [value])


def leaky_relu(graph: Graph) -> None:
    if value := graph.pick(lambda v: v.is_float):
        alpha = graph.rng.choice((0.25, 0.5))
        graph.rounded("LeakyRelu", lambda x: np.where(x < 0, alpha * x, x), [value], alpha=alpha)


def clip(graph: Graph) -> None:
    if value := graph.pick(lambda v: v.dtype != "bool"):
        low, high = graph.rng.choice(((-1, 1), (-2, 3), (0, 6)))
        bounds = [graph.constant(bound, value.dtype) for bound in (low, high)]
        graph.select("Clip", lambda x: np.clip(x, low, high), [value], extra=bounds)


def jump(graph: Graph) -> None:
    name = graph.rng.choice(sorted(JUMPS))
    if value := graph.pick(lambda v: _takes_dtype(name, v) and v.exact):
        graph.select(name, JUMPS[name], [value])


def power(graph: Graph) -> None:
    """A constant power; of a positive base where the power is no whole number."""
    exponent = graph.rng.choice((2.0, 3.0, 0.5, -1.0, 1.5))
    whole = exponent in (2.0, 3.0)
    value = graph.pick(lambda v: v.is_float and rv.largest(v) < 1e6)
    if value is None:
        return
    if not whole and not (rv.away_from_zero(value) and not value.plain):
        value = graph.select("Abs", np.abs, [value])
        value = graph.rounded("Add", np.add, [value, graph.constant(0.5, value.dtype)])
    by = graph.constant(exponent, value.dtype)

    def exact(x: np.ndarray) -> np.ndarray:
        # By a single 0.5 NumPy takes the square root, that of -inf is NaN: -inf ** 0.5 is inf.
        both = np.stack([x, x])
        return np.power(both, np.full_like(both, exponent))[0]

    graph.rounded("Pow", exact, [value], extra=[by])


def arithmetic(graph: Graph) -> None:
    name = graph.rng.choice(sorted(ARITHMETIC))
    pair = _pair(graph, lambda v: v.dtype != "bool")
    if pair is None:
        return
    left, right = pair
    if left.is_float:
        if name != "Div" or rv.away_from_zero(right):
            graph.rounded(name, ARITHMETIC[name], [left, right])
        return
    limit = _LIMIT[left.dtype]
    a, b = rv.largest(left), rv.largest(right)
    if name == "Div":
        divisor = graph.constant(graph.rng.choice((2, 3, 7)), left.dtype)
        graph.select(name, lambda x, y: np.trunc(x / y).astype(x.dtype), [left, divisor])
    elif (a * b if name == "Mul" else a + b) < limit:
        graph.select(name, ARITHMETIC[name], [left, right])


def order(graph: Graph) -> None:
    name = graph.rng.choice(sorted(ORDER))
    if pair := _pair(graph, lambda v: v.dtype != "bool"):
        graph.select(name, ORDER[name], [*pair])


def compare(graph: Graph) -> None:
    name = graph.rng.choice(sorted(COMPARE))
    if pair := _pair(graph, lambda v: v.exact and v.dtype != "bool"):
        graph.select(name, COMPARE[name], [*pair], "bool")


def logic(graph: Graph) -> None:
    name = graph.rng.choice(("Not", *sorted(LOGIC)))
    if name == "Not":
        if value := graph.pick(lambda v: v.dtype == "bool"):
            graph.select("Not", np.logical_not, [value])
    elif pair := _pair(graph, lambda v: v.dtype == "bool"):
        graph.select(name, LOGIC[name], [*pair])


def where(graph: Graph) -> None:
    condition = graph.pick(lambda v: v.dtype == "bool")
    if condition is None:
        return
    pair = _pair(graph, lambda v: graph.fits(v.shape, condition.shape))
    if pair and graph.fits(condition.shape, *(v.shape for v in pair)):
        graph.select("Where", np.where, [condition, *pair])


def cast(graph: Graph) -> None:
    to = graph.rng.choice((*rv.FLOATS, *rv.INTEGERS, "bool"))
    value = graph.pick(lambda v: _casts(v, to))
    if value is None:
        return
    kind = onnx_type(to)
    if to not in rv.FLOATS:
        graph.select("Cast", lambda x: x.astype(to), [value], to, to=kind)
        return
    source = value.ref.astype(np.float64)
    with np.errstate(all="ignore"):
        kept = source.astype(rv.numpy_dtype(to)).astype(np.float64)
    if value.exact and np.array_equal(kept, source, equal_nan=True):
        graph.select("Cast", lambda x: x.astype(np.float64), [value], to, to=kind)
    else:
        graph.rounded("Cast", lambda x: x.astype(np.float64), [value], to, to=kind)


def onnx_type(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(rv.numpy_dtype(dtype))


def _takes_dtype(op: str, value: Value) -> bool:
    return value.is_float and not (value.dtype == "bfloat16" and op in NOT_IN_BFLOAT16)


def _casts(value: Value, to: str) -> bool:
    if value.dtype == to:
        return False
    if value.is_float and to not in rv.FLOATS:
        whole = to != "bool"
        return (
            value.exact
            and not (whole and not np.isfinite(value.ref).all())
            and (not whole or rv.largest(value) < 2**30)
        )
    return to != "int32" or value.dtype == "bool" or rv.largest(value) < 2**30


def normalise(graph: Graph) -> None:
    """x - mean, divided by the root of the mean square."""
    value = graph.pick(lambda v: v.is_float and v.rank and v.ref.size and rv.largest(v) < 1e6)
    if value is None:
        return
    axes = axes_of(graph, value)
    mean = reduce(graph, "ReduceMean", value, axes, keepdims=1)
    centred = graph.rounded("Sub", np.subtract, [value, mean])
    square = graph.rounded("Mul", np.multiply, [centred, centred])
    variance = reduce(graph, "ReduceMean", square, axes, keepdims=1)
    offset = graph.constant(0.125, value.dtype)
    shifted = graph.rounded("Add", np.add, [variance, offset])
    root = graph.rounded("Sqrt", np.sqrt, [shifted])
    graph.rounded("Div", np.divide, [centred, root])


def _pair(graph: Graph, accepts) -> tuple[Value, Value] | None:
    """Return two values of one dtype that broadcast together; the second may be a constant."""
    left = graph.pick(accepts)
    if left is None:
        return None
    right = graph.pick(
        lambda v: v.dtype == left.dtype and accepts(v) and graph.fits(v.shape, left.shape)
    )
    if right is None or graph.rng.random() < 0.2:
        shape = left.shape[graph.rng.randint(0, left.rank) :]
        shape = tuple(extent if graph.rng.random() < 0.7 else 1 for extent in shape)
        if 0 in shape or not graph.fits(shape, left.shape):
            shape = ()
        right = graph.constant(graph.elements(shape, left.dtype), left.dtype)
        if not accepts(right):
            right = graph.constant(1, left.dtype)
    return (left, right) if graph.rng.random() < 0.7 else (right, left)


OPS = (
    (unary, 10),
    (arithmetic, 14),
    (sign, 2),
    (relu, 2),
    (leaky_relu, 1),
    (clip, 2),
    (jump, 1),
    (power, 2),
    (order, 3),
    (compare, 3),
    (logic, 1),
    (where, 3),
    (cast, 3),
    (normalise, 1),
    *((reduction, 10 / len(REDUCTIONS)) for reduction in REDUCTIONS),
    *((change, 14 / len(LAYOUTS)) for change in LAYOUTS),
)

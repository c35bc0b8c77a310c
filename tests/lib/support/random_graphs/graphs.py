"""Random ONNX graphs with their NumPy answers, from any `random.Random`: seeded or hypothesis's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from support.random_graphs import values as rv
from support.random_graphs.values import Value

EXTENTS = (1, 2, 3, 5, 7, 17, 31, 33, 64, 127, 129)
LARGE_EXTENTS = (1000, 4099)
DTYPES = ("float32",) * 12 + ("float64", "float16", "bfloat16", "int32", "int64", "bool")
SIZES = (4096,) * 6 + (1 << 14,) * 3 + (1 << 18,)  # elements of the largest tensor
MAX_RANK = 5
OPSET = 18
_TRIES = 8


@dataclass(eq=False)
class Graph:
    """A graph being built, every value of it known.

    `limit`: elements a tensor may have. `special`: the share of special numbers in float inputs.
    """

    rng: Random
    limit: int
    special: float
    noise: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    initializers: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def name(self) -> str:
        return f"v{len(self.nodes)}"

    def add(self, op: str, args: list[Value], result: Value, extra=(), **attrs) -> Value:
        """Append a node that computes `result` from `args` and `extra` initializers."""
        operands = [value.name for value in (*args, *extra)]
        self.nodes.append(helper.make_node(op, operands, [result.name], **attrs))
        self.values.append(result)
        return result

    def layout(self, op: str, function, args: list[Value], extra=(), **attrs) -> Value:
        return self.add(op, args, rv.layout(self.name(), function, args), extra, **attrs)

    def select(self, op: str, function, args: list[Value], dtype="", extra=(), **attrs) -> Value:
        result = rv.select(self.name(), function, args, dtype or args[-1].dtype)
        return self.add(op, args, result, extra, **attrs)

    def rounded(
        self,
        op: str,
        function,
        args: list[Value],
        dtype="",
        *,
        extra=(),
        accumulates=False,
        **attrs,
    ) -> Value:
        dtype = dtype or args[0].dtype
        result = rv.rounded(
            self.name(), function, args, dtype, noise=self.noise, accumulates=accumulates
        )
        return self.add(op, args, result, extra, **attrs)

    def constant(self, array, dtype: str) -> Value:
        """Add an initializer."""
        value = rv.constant(f"c{len(self.initializers)}", np.asarray(array), dtype)
        self.initializers.append(value)
        return value

    def input(self, shape: tuple[int, ...], dtype: str) -> Value:
        """Add a graph input with random elements."""
        value = rv.constant(f"x{len(self.inputs)}", self.elements(shape, dtype), dtype)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def elements(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        draw = self.noise
        if dtype == "bool":
            return draw.random(shape) < 0.6
        if dtype in rv.INTEGERS:
            return draw.integers(-9, 10, shape)
        array = draw.standard_normal(shape)
        if self.special:
            marked = draw.random(shape) < self.special
            array = np.where(marked, draw.choice(rv.SPECIAL, shape), array)
        return array

    def pick(self, accepts: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """Return a value that `accepts` takes, a recent one more likely than an old one."""
        fitting = [value for value in self.values if accepts(value)]
        if not fitting:
            return None
        recent = fitting[-3:]
        return self.rng.choice(recent if self.rng.random() < 0.6 else fitting)

    def fits(self, *shapes: tuple[int, ...]) -> bool:
        """Return whether a tensor of these shapes broadcast together is within the limits."""
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            return False
        return len(shape) <= MAX_RANK and math.prod(shape) <= self.limit

    def shape(self) -> tuple[int, ...]:
        rng = self.rng
        shape: list[int] = []
        for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5))):
            room = self.limit // max(1, math.prod(shape))
            shape.append(rng.choice([extent for extent in EXTENTS if extent <= room] or [1]))
        if shape and rng.random() < 0.08:
            shape[rng.randrange(len(shape))] = rng.choice(LARGE_EXTENTS)
        if math.prod(shape) > self.limit:
            shape = [max(shape)]
        if shape and rng.random() < 0.02:
            shape[rng.randrange(len(shape))] = 0
        return tuple(shape)

    def model(self) -> onnx.ModelProto:
        """Return the graph as an ONNX model."""
        weights = [_proto(value) for value in self.initializers]
        edges = [[_info(value) for value in side] for side in (self.inputs, self.outputs)]
        graph = helper.make_graph(self.nodes, "random", *edges, weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feeds(self) -> dict[str, np.ndarray]:
        return {value.name: array(value) for value in self.inputs}


def random_graph(rng: Random) -> Graph:
    """Draw a graph of 2 to 14 ops with its inputs and what its outputs should be."""
    from support.random_graphs.ops import OPS

    special = rng.choice((0.0, 0.0, 1 / 16))
    noise = np.random.default_rng(rng.getrandbits(32))
    graph = Graph(rng, rng.choice(SIZES), special, noise)
    for _ in range(rng.choice((1, 1, 2, 3))):
        graph.input(graph.shape(), rng.choice(DTYPES))
    functions, weights = zip(*OPS, strict=True)
    wanted = rng.randint(2, 14)
    for _ in range(wanted * _TRIES):
        if len(graph.nodes) >= wanted:
            break
        rng.choices(functions, weights)[0](graph)
    if not graph.nodes:
        value = graph.values[0]
        graph.layout("Identity", lambda x: x, [value])
    _choose_outputs(graph)
    return graph


def array(value: Value) -> np.ndarray:
    """Return an exact value in its own dtype."""
    return value.ref.astype(rv.numpy_dtype(value.dtype))


def _choose_outputs(graph: Graph) -> None:
    """Make outputs of what no node reads, and of some values in between."""
    read = {name for node in graph.nodes for name in node.input}
    made = [value for value in graph.values if value not in graph.inputs]
    leaves = [value for value in made if value.name not in read]
    others = [value for value in made if value.name in read]
    graph.outputs = leaves[-4:] + graph.rng.sample(
        others, min(len(others), graph.rng.choice((0, 0, 1, 2)))
    )


def _proto(value: Value) -> onnx.TensorProto:
    if value.dtype == "bfloat16":
        data = value.ref.astype(ml_dtypes.bfloat16).tobytes()
        kind = onnx.TensorProto.BFLOAT16
        return helper.make_tensor(value.name, kind, value.shape, data, raw=True)
    return numpy_helper.from_array(array(value), value.name)


def _info(value: Value) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(rv.numpy_dtype(value.dtype))
    return helper.make_tensor_value_info(value.name, kind, value.shape)

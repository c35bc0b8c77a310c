"""A random graph that remembers how each value is computed, so that parts of it run alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from support.random_graphs import values as rv
from support.random_graphs.graphs import Graph
from support.random_graphs.values import Value

IR_VERSION = {18: 9, 20: 9, 21: 10, 23: 11}  # by opset


@dataclass(frozen=True, eq=False)
class Step:
    """How a value comes of others: `kind` names a function of `random_graphs.values`."""

    kind: str
    function: Callable[..., np.ndarray]
    args: tuple[Value, ...]
    dtype: str = ""
    accumulates: bool = False

    def value(self, name: str, args: Sequence[Value], noise: np.random.Generator) -> Value:
        if self.kind == "layout":
            return rv.layout(name, self.function, args)
        if self.kind == "select":
            return rv.select(name, self.function, args, self.dtype)
        return rv.rounded(
            name, self.function, args, self.dtype, noise=noise, accumulates=self.accumulates
        )


@dataclass(eq=False)
class BlockGraph(Graph):
    """A graph of blocks. `dtype`: of most floats in it."""

    dtype: str = "float32"
    opset: int = 18
    steps: dict[str, Step] = field(default_factory=dict)

    def layout(self, op: str, function, args: list[Value], extra=(), **attrs) -> Value:
        return self._append(op, Step("layout", function, tuple(args)), extra, attrs)

    def select(self, op: str, function, args: list[Value], dtype="", extra=(), **attrs) -> Value:
        step = Step("select", function, tuple(args), dtype or args[-1].dtype)
        return self._append(op, step, extra, attrs)

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
        step = Step("rounded", function, tuple(args), dtype or args[0].dtype, accumulates)
        return self._append(op, step, extra, attrs)

    def split(self, op: str, functions, value: Value, extra=(), **attrs) -> list[Value]:
        """Append a node with several outputs, each a layout of `value`."""
        names = [f"{self.name()}_{i}" for i in range(len(functions))]
        results = []
        for name, function in zip(names, functions, strict=True):
            self.steps[name] = step = Step("layout", function, (value,))
            results.append(step.value(name, [value], self.noise))
        operands = [value.name, *(other.name for other in extra)]
        self.nodes.append(helper.make_node(op, operands, names, **attrs))
        self.values += results
        return results

    def fits(self, *shapes: tuple[int, ...]) -> bool:
        try:
            return math.prod(np.broadcast_shapes(*shapes)) <= self.limit
        except ValueError:
            return False

    def is_finite(self) -> bool:
        """Return whether all numbers that it computes with are finite, but for masks."""
        return all(is_finite(value) for value in self.values)

    def model(self) -> onnx.ModelProto:
        model = super().model()
        model.opset_import[0].version = self.opset
        model.ir_version = IR_VERSION[self.opset]
        return model

    def _append(self, op: str, step: Step, extra, attrs) -> Value:
        result = step.value(self.name(), step.args, self.noise)
        self.steps[result.name] = step
        return self.add(op, list(step.args), result, extra, **attrs)


def is_finite(value: Value) -> bool:
    return not value.is_float or bool(np.isfinite(value.ref).all())


def part(
    graph: BlockGraph,
    outputs: Iterable[str],
    cuts: Iterable[str] = (),
    instead: Mapping[str, str] | None = None,
) -> BlockGraph:
    """Return the part of a graph that computes `outputs`, its answers worked out again.

    Values in `cuts` become inputs with the numbers they had; `instead` names values to be replaced
    by others of the same shape and dtype.
    """
    cuts, names = set(cuts), _Names(instead or {})
    outputs = list(dict.fromkeys(names.meant(name) for name in outputs))
    wanted, nodes = set(outputs), []
    for node in reversed(graph.nodes):
        if any(name in wanted and name not in cuts for name in node.output):
            nodes.insert(0, names.renamed(node))
            wanted.update(nodes[0].input)
    new = dataclasses.replace(
        graph, nodes=nodes, values=[], inputs=[], initializers=[], outputs=[], steps={}
    )
    made = {name for node in nodes for name in node.output} - cuts
    known = {value.name: value for value in graph.initializers if value.name in wanted}
    new.initializers = list(known.values())
    for value in dict.fromkeys([*graph.inputs, *graph.values]):
        if value.name in wanted and value.name not in made:
            known[value.name] = rv.constant(value.name, value.lanes[1], value.dtype)
            new.inputs.append(known[value.name])
    new.values += new.inputs
    for name in (name for node in nodes for name in node.output if name in made):
        step = graph.steps[name]
        args = tuple(known[names.meant(arg.name)] for arg in step.args)
        new.steps[name] = dataclasses.replace(step, args=args)
        known[name] = step.value(name, args, new.noise)
        new.values.append(known[name])
    for node in nodes:  # of a node with several outputs, one that is an input now
        node.output[:] = [f"{n}_unread" if n in cuts else n for n in node.output]
    new.outputs = [known[name] for name in outputs]
    return new


@dataclass(frozen=True)
class _Names:
    """Values by the names of those that they replace."""

    instead: Mapping[str, str]

    def meant(self, name: str) -> str:
        while name in self.instead:
            name = self.instead[name]
        return name

    def renamed(self, node: onnx.NodeProto) -> onnx.NodeProto:
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        copied.input[:] = [self.meant(name) for name in node.input]
        return copied

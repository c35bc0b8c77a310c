"""Chains of random operators, with what ONNX's reference evaluator makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import elementwise, movement, products, reductions
from .draw import MOST_ELEMENTS, Draw, Node, Operator
from .mended import MENDED

OPSET = 23
MOST_NODES = 4
LARGEST = {4: 1e16, 8: 1e150}  # by the bytes of an element
TRIES = 20  # of an operator that suits a value
OPERATORS: dict[str, Operator] = {
    **elementwise.OPERATORS,
    **reductions.OPERATORS,
    **movement.OPERATORS,
    **products.OPERATORS,
}
# What the evaluator raises for what it does not run.
_NOT_RUN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
            ValueError, onnx.checker.ValidationError)  # fmt: skip
# 1 + erf of a float32 well below 0 has its unit in the last place of 1: all references differ.
_CANCELS = {"Gelu"}
# A whole number times this is none, which alone stays where it is: about as large, and moved.
_NO_WHOLE = 1.37
# Of PyTorch's ranks for images: channels, and an axis or three.
_IMAGES = {"Conv", "ConvTranspose", "AveragePool", "MaxPool", "LpPool", "Resize", "LRN",
           "GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"}  # fmt: skip


@dataclass(frozen=True)
class Chain:
    """A model of some operators in a row and what it is fed."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]

    def __str__(self) -> str:
        lines = [f"{n} = {a.dtype}{list(a.shape)}" for n, a in self.feeds.items()]
        for tensor in self.model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            shown = array.tolist() if array.size < 9 else "..."
            lines.append(f"{tensor.name} = {array.dtype}{list(array.shape)} constant {shown}")
        for node in self.model.graph.node:
            attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            lines.append(
                f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)}) {attrs}"
            )
        return "\n".join(lines)

    @property
    def bytes(self) -> bytes:
        return self.model.SerializeToString()


def random_chain(seed: int, first: str | None = None) -> Chain:
    """Return the chain of a seed, from the operator `first` on if that suits what is drawn.

    Raises: ValueError if no operator could be drawn.
    """
    return _Chain(Draw(seed)).made(first)


def reference(
    model: onnx.ModelProto,
    feeds: dict[str, np.ndarray],
    moved: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return what ONNX's reference evaluator makes of a model, each node's results `moved`."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        evaluator = ReferenceEvaluator(model, new_ops=MENDED)
        for node in evaluator.rt_nodes_ if moved is not None else ():
            cancels = node.op_type in _CANCELS
            node.run = partial(_run_moved, node.run, moved, cancels)
        return [np.asarray(each) for each in evaluator.run(None, feeds)]


def _run_moved(
    run: Callable[..., tuple],
    moved: Callable[[np.ndarray], np.ndarray],
    cancels: bool,
    *inputs: Any,
    **known: Any,
) -> tuple:
    """Run a node; its results are apart by what moves them, and its operand if that cancels."""
    made = [moved(np.asarray(each)) for each in run(*inputs, **known)]
    if not cancels:
        return tuple(made)
    operand = inputs[0] * np.asarray(_NO_WHOLE, inputs[0].dtype)
    return tuple(each + (moved(operand) - operand) for each in made)


class _Chain:
    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._nodes: list[onnx.NodeProto] = []
        self._feeds: dict[str, np.ndarray] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._outputs: list[str] = []
        self._arrays: dict[str, np.ndarray] = {}

    def made(self, wanted: str | None) -> Chain:
        draw = self._draw
        name = draw.choice(sorted(OPERATORS))
        name = wanted or name
        first = OPERATORS[name]
        least = max(first.least_rank, 0)
        shape = draw.shape(3, 5) if name in _IMAGES else draw.shape(least, max(least, 5))
        value, exact = "x", True
        self._feeds["x"] = self._arrays["x"] = draw.array(shape, draw.choice(first.dtypes))
        for number in range(draw.randint(1, MOST_NODES)):
            found = self._next(value, exact, first if number == 0 else None)
            if found is None:
                break
            value, exact = found
            if not self._goes_on(value):
                break
        if not self._nodes:
            raise ValueError("no operator suits")
        return Chain(self._model(), self._feeds)

    def _goes_on(self, value: str) -> bool:
        array = self._arrays[value]
        if not 0 < array.size <= MOST_ELEMENTS:
            return False
        # A square of more is infinite, and a variance of squares no number, to the references.
        most = np.inf if array.dtype.itemsize < 4 else LARGEST[array.dtype.itemsize]
        return bool((np.abs(array.astype(float)) < most).all())

    def _next(self, value: str, exact: bool, wanted: Operator | None) -> tuple[str, bool] | None:
        """Add a node on a value; return its first result and whether that is exact."""
        array = self._arrays[value]
        for _ in range(TRIES):
            operator = wanted or OPERATORS[self._draw.choice(sorted(OPERATORS))]
            wanted = None
            suits = str(array.dtype) in operator.dtypes and array.ndim >= operator.least_rank
            if not suits or (operator.steps and not exact):
                continue
            node = operator.make(self._draw, array)
            if node is not None and (made := self._add(node, value)) is not None:
                return made, exact and node.exact
        return None

    def _add(self, node: Node, value: str) -> str | None:
        """Add a node if the reference runs it; return its first result."""
        number = len(self._nodes)
        names, constants, feeds = [], {}, {}
        for place, operand in enumerate(node.operands):
            name = f"c{number}_{place}" if operand.constant else f"x{number}_{place}"
            names.append("" if operand.array is None else name)
            if operand.array is not None:
                (constants if operand.constant else feeds)[name] = operand.array
        names.insert(node.first, value)
        outputs = [f"y{number}_{place}" for place in range(node.outputs)]
        proto = helper.make_node(node.op, names, outputs, name=f"n{number}", **node.attrs)
        arrays = {value: self._arrays[value], **constants, **feeds}
        alone = _model_of([proto], arrays, outputs, {})
        try:
            made = reference(alone, arrays)
        except _NOT_RUN:
            return None
        if any(
            _differs(value, array) for value, array in zip(alone.graph.output, made, strict=True)
        ):
            return None  # from what ONNX infers: an error of the evaluator
        self._nodes.append(proto)
        self._feeds |= feeds
        self._constants |= constants
        self._arrays |= dict(zip(outputs, made, strict=True))
        self._outputs = [*self._outputs[:1], *outputs] if self._draw.maybe(0.3) else outputs
        return outputs[0]

    def _model(self) -> onnx.ModelProto:
        return _model_of(self._nodes, self._feeds, self._outputs, self._constants)


def _differs(value: onnx.ValueInfoProto, array: np.ndarray) -> bool:
    """Return whether an array has not the type that was inferred."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return False
    known = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
    if len(known) != array.ndim or kind.elem_type != helper.np_dtype_to_tensor_dtype(array.dtype):
        return True
    pairs = zip(known, array.shape, strict=True)
    return any(extent is not None and extent != found for extent, found in pairs)


def _model_of(nodes, feeds, outputs, constants) -> onnx.ModelProto:
    """Return a model; its outputs have types as far as ONNX infers them."""
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "chain", inputs, made, stored)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)

"""The ONNX graph while it is rewritten: nodes as protos, constants as arrays, never serialised."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_stitch.errors import StitchError

DEFAULT_DOMAINS = ("", "ai.onnx")
OWN_DOMAIN = "tvm_stitch"  # of nodes that our own rewrites make
# Which ONNX Runtime reads, and the operators of a model that names none of ONNX's own.
IR_VERSION, _OPSET = 10, 21


@dataclass(frozen=True)
class ValueType:
    """`shape` is None when the rank is unknown; None inside it is an unknown extent."""

    dtype: np.dtype
    shape: tuple[int | None, ...] | None

    @property
    def static(self) -> bool:
        return self.shape is not None and None not in self.shape

    @property
    def bytes(self) -> int | None:
        size = math.prod(self.shape) if self.static else None
        return None if size is None else size * self.dtype.itemsize


@dataclass
class Graph:
    """`inputs` are the user's inputs; `types` holds what shape inference found last.

    `narrow`: types of inputs, outputs and constants whose numbers here are of wider ones;
    `unrolled`: how many nodes were bodies'; `sequences`: what those of known items have.
    """

    name: str
    opsets: dict[str, int]
    nodes: list[onnx.NodeProto]
    inputs: list[onnx.ValueInfoProto]
    outputs: list[onnx.ValueInfoProto]
    constants: dict[str, np.ndarray]
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    types: dict[str, ValueType] = field(default_factory=dict)
    narrow: dict[str, str] = field(default_factory=dict)
    unrolled: int = 0
    sequences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _fresh: int = 0

    @property
    def opset(self) -> int:
        return self.opsets[""]

    def type_of(self, name: str) -> ValueType | None:
        if name in self.constants:
            array = self.constants[name]
            return ValueType(array.dtype, array.shape)
        return self.types.get(name)

    def static_shape(self, name: str) -> tuple[int, ...] | None:
        known = self.type_of(name)
        return known.shape if known is not None and known.static else None

    def constant(self, node: onnx.NodeProto, position: int) -> np.ndarray | None:
        """Return the array given to a node's input, None if it is absent or computed."""
        return self.constants.get(node.input[position]) if has_input(node, position) else None

    def numbers(self, node: onnx.NodeProto, position: int) -> np.ndarray | None:
        """Return the list that `constant` finds; a number by itself is a list of one."""
        found = self.constant(node, position)
        return None if found is None else found.reshape(-1)

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}__{self._fresh}"

    def add_constant(self, stem: str, array: np.ndarray) -> str:
        name = self.fresh(stem)
        self.constants[name] = array
        return name

    def uses(self) -> Counter[str]:
        """Count the uses of every value, graph outputs and bodies of If included."""
        count = Counter(name for node in self.nodes for name in consumed(node))
        count.update(output.name for output in self.outputs)
        return count

    def drop_unused(self) -> None:
        """Remove nodes no output depends on and constants nobody reads."""
        live = {output.name for output in self.outputs}
        kept = []
        for node in reversed(self.nodes):
            if live.intersection(node.output):
                live.update(consumed(node))
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = {name: a for name, a in self.constants.items() if name in live}


def has_input(node: onnx.NodeProto, position: int) -> bool:
    return position < len(node.input) and node.input[position] != ""


def first_result(node: onnx.NodeProto) -> str:
    """Return the name of a node's first result, which is no other node's."""
    return next(filter(None, node.output))


def label(node: onnx.NodeProto) -> str:
    """Return what a node is called: its operator and its name, or that of its first result."""
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"{op} {node.name or next(filter(None, node.output), '')!r}"


def consumed(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the values a node reads, through the bodies of If too."""
    yield from (name for name in node.input if name)
    for body in bodies(node):
        for inner in body.node:
            yield from consumed(inner)
        yield from (output.name for output in body.output)


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g


def attributes(node: onnx.NodeProto) -> dict:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def read_graph(
    model: onnx.ModelProto, read: Callable[[onnx.TensorProto], np.ndarray], given: object
) -> Graph:
    """Build a Graph from a model, whose nodes are copied and whose tensors come from `read`.

    Raises: StitchError for sparse initializers.
    """
    proto = model.graph
    if proto.sparse_initializer:
        raise StitchError(given, "sparse initializers are not supported", "store them dense")
    constants = {tensor.name: read(tensor) for tensor in proto.initializer}
    graph = Graph(
        name=proto.name or "main",
        opsets={"" if o.domain in DEFAULT_DOMAINS else o.domain: o.version
                for o in model.opset_import},
        nodes=[],
        inputs=[_copy(value) for value in proto.input if value.name not in constants],
        outputs=[_copy(value) for value in proto.output],
        constants=constants,
        functions=[_copy(function) for function in model.functions],
    )  # fmt: skip
    graph.nodes = list(_without_constants(proto.node, graph.constants, read))
    if "" not in graph.opsets and not graph.functions and not _uses_onnx(proto.node):
        graph.opsets[""] = _OPSET  # of what stands in their place
    return graph


def _uses_onnx(nodes: Iterable[onnx.NodeProto]) -> bool:
    return any(
        node.domain in DEFAULT_DOMAINS or any(_uses_onnx(body.node) for body in bodies(node))
        for node in nodes
    )


def _copy(proto):
    new = type(proto)()
    new.CopyFrom(proto)
    return new


def _without_constants(
    nodes: Iterable[onnx.NodeProto], constants: dict[str, np.ndarray], read: Callable
) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS:
            constants[node.output[0]] = constant_value(node, read)
        else:
            copy = _copy(node)
            # onnxsim would make up a name.
            copy.name = node.name or next(iter(node.output), "")
            copy.domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
            yield copy


def constant_value(node: onnx.NodeProto, read: Callable) -> np.ndarray:
    """Return what a Constant holds. Raises: StitchError if that is no dense tensor."""
    given = f"Constant {node.output[0]!r}"
    if len(node.attribute) != 1:
        rule = f"it has {len(node.attribute)} attributes, not one value"
        raise StitchError(given, rule, "export the model again")
    (attribute,) = node.attribute
    if attribute.name == "value" and attribute.HasField("t"):
        return read(attribute.t)
    kinds = {"value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
    if attribute.name not in kinds:
        raise StitchError(given, f"its {attribute.name!r} is no dense tensor", "make it dense")
    return np.asarray(onnx.helper.get_attribute_value(attribute), kinds[attribute.name])


def write_model(graph: Graph, is_constant: Callable[[str, np.ndarray], bool]) -> onnx.ModelProto:
    """Return a small model in which constants refused by `is_constant` are extra graph inputs."""
    used = graph.uses()
    initializers, stubs = [], []
    for name, array in graph.constants.items():
        if name not in used:
            continue
        if is_constant(name, array):
            initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        else:
            stubs.append(value_info(name, array.dtype, array.shape))
    proto = onnx.helper.make_graph(
        graph.nodes, graph.name, [*graph.inputs, *stubs], graph.outputs, initializers
    )
    opsets = [onnx.helper.make_opsetid(domain, v) for domain, v in graph.opsets.items()]
    model = onnx.helper.make_model(proto, opset_imports=opsets, functions=graph.functions)
    model.ir_version = min(model.ir_version, IR_VERSION)
    return model


def take_model(graph: Graph, model: onnx.ModelProto) -> None:
    """Replace the graph's nodes by those of `model`, an edited `write_model` of the same graph."""
    for tensor in model.graph.initializer:
        if tensor.name not in graph.constants:
            graph.constants[tensor.name] = numpy_helper.to_array(tensor)
    graph.nodes = list(_without_constants(model.graph.node, graph.constants, numpy_helper.to_array))
    graph.functions = [_copy(function) for function in model.functions]
    graph.opsets = {"" if o.domain in DEFAULT_DOMAINS else o.domain: o.version
                    for o in model.opset_import}  # fmt: skip
    graph.drop_unused()


def value_info(name: str, dtype: np.dtype, shape: Sequence[int]) -> onnx.ValueInfoProto:
    elem = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(name, elem, shape)

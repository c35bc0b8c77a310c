"""What everything behind takes for granted of a parsed model, checked first.

The ONNX checker sees the model only when its tensors are read and its nodes copied, and takes
strings, calls and nesting as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import label
from tvm_stitch.frontend.onnx_graph.tensors import check_tensor

DEEPEST = 24  # graphs in graphs; protobuf reads about 30
AGAIN = "export the model again"
# Messages that nothing here reads.
UNREAD = {"metadata_props", "training_info", "quantization_annotation", "configuration",
          "device_configurations", "value_info", "doc_string"}  # fmt: skip


def check_sound(model: onnx.ModelProto, given: object) -> None:
    """Raise StitchError for text that is none, nodes without results, and broken attributes.

    Names of tensors and of results are the checker's matter, but for tensors of one name.
    """
    _check_text(model, given)
    for function in model.functions:
        _check_nodes(function.node, f"{given}, function {function.name!r}", 1)
    _check_nodes(model.graph.node, given, 1)
    if not model.graph.output:
        raise StitchError(given, "it has no outputs", AGAIN)
    names = Counter(tensor.name for tensor in model.graph.initializer)
    if twice := next((name for name, count in names.items() if count > 1), None):
        raise StitchError(f"{given}, tensor {twice!r}", "it is given twice", AGAIN)


def _check_text(message: Message, given: object, depth: int = 0) -> None:
    """Raise StitchError if a string that may be read is not UTF-8."""
    if depth > 4 * DEEPEST:  # messages from one graph to the one in it
        raise StitchError(given, f"it is nested more than {DEEPEST} graphs deep", AGAIN)
    for field, value in _read(message, given):
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for child in value if isinstance(value, Iterable) else [value]:
                _check_text(child, given, depth + 1)
        elif field.type == FieldDescriptor.TYPE_STRING:
            texts = [value] if isinstance(value, str | bytes) else value
            if any(isinstance(text, bytes) for text in texts):
                raise _no_text(given)


def _read(message: Message, given: object) -> list[tuple[FieldDescriptor, object]]:
    try:
        return [pair for pair in message.ListFields() if pair[0].name not in UNREAD]
    except UnicodeDecodeError as error:
        raise _no_text(given) from error


def _no_text(given: object) -> StitchError:
    return StitchError(given, "a name in it is not UTF-8", "check the file, or export it again")


def _check_nodes(nodes: Iterable[onnx.NodeProto], given: object, depth: int) -> None:
    for node in nodes:
        where = f"{given}, {label(node)}"
        if not node.op_type:
            raise StitchError(where, "a node names no operator", AGAIN)
        if not any(node.output):
            raise StitchError(where, "a node has no result", AGAIN)
        if depth > DEEPEST:
            raise StitchError(where, f"it is nested more than {DEEPEST} graphs deep", AGAIN)
        _check_attributes(node, where)
        for graph in _graphs(node):
            _check_graph(graph, where, depth + 1)


def _check_graph(graph: onnx.GraphProto, where: str, depth: int) -> None:
    for tensor in graph.initializer:
        check_tensor(tensor, f"{where}, tensor {tensor.name!r}")
    if graph.sparse_initializer:
        raise StitchError(where, "sparse initializers are not supported", "store them dense")
    _check_nodes(graph.node, where, depth)


def _check_attributes(node: onnx.NodeProto, where: str) -> None:
    names = [attribute.name for attribute in node.attribute]
    for attribute in node.attribute:
        given = f"{where}, attribute {attribute.name!r}"
        if names.count(attribute.name) > 1:
            raise StitchError(given, "it is given twice", AGAIN)
        for text in (attribute.s, *attribute.strings):
            try:
                text.decode()
            except UnicodeDecodeError as error:
                raise StitchError(given, "it is not UTF-8", AGAIN) from error
        for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
            check_tensor(tensor, given)


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs

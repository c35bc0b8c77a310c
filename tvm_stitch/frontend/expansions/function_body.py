"""Operators that ONNX itself defines by others, where TVM's importer lacks them.

onnx's own inliner ends with an assertion where an optional input is left out, and takes attributes
at their defaults for absent ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.importer.known import has_body, has_converter
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph
from tvm_stitch.frontend.onnx_graph.infer import type_proto
from tvm_stitch.frontend.onnx_graph.instance import renamed
from tvm_stitch.frontend.rewrites import REWRITTEN_OPS


def function_body(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: an operator -> the operators of its body, for the types that its inputs have"""
    if has_converter(node) or (node.domain, node.op_type) in REWRITTEN_OPS:
        return None
    if not has_body(node, graph.opset):
        return None
    try:
        function = _function(graph, node)
    except (RuntimeError, onnx.shape_inference.InferenceError) as error:
        where = f"{node.op_type} {node.name or node.output[0]!r}"
        reason = str(error).strip().splitlines()[0]
        rule = f"it has no body for these operands ({reason})"
        raise StitchError(where, rule, "check the types of its values") from error
    if function is None:
        return None
    given = {a.name: a for a in node.attribute}
    schema = onnx.defs.get_schema(node.op_type, graph.opset)
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            given[name] = attribute.default_value
    names = dict.fromkeys(function.input, "")
    names.update(zip(function.input, node.input, strict=False))
    nodes = renamed(graph, [_with_attributes(each, given) for each in function.node], names)
    results = {names[own]: name for own, name in zip(function.output, node.output, strict=False)
               if name}  # fmt: skip
    for made in nodes:
        made.name = node.name
    build = Builder(graph, node)
    for made, name in results.items():
        # Constants of bodies have an axis: what they make of a scalar has one too.
        if graph.static_shape(name) == ():
            build.reshape(made, [], out=name)
        else:
            build("Identity", made, out=name)
    return nodes + build.nodes


def _function(graph: Graph, node: onnx.NodeProto) -> onnx.FunctionProto | None:
    schema = onnx.defs.get_schema(node.op_type, graph.opset)
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= graph.opset]
        types = [graph.type_of(name) if name else None for name in node.input]
        protos = [
            b"" if known is None else type_proto(known).SerializeToString() for known in types
        ]
        data = schema.get_context_dependent_function_with_opset_version(
            max(versions, default=schema.since_version), node.SerializeToString(), protos
        )
    else:
        versions = [v for v in schema.function_opset_versions if v <= graph.opset]
        data = schema.get_function_with_opset_version(max(versions, default=schema.since_version))
    return onnx.FunctionProto.FromString(data) if data else None


def _with_attributes(
    node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]
) -> onnx.NodeProto:
    """Return a node of a body with the call's attributes in the place of references to them."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        own = onnx.AttributeProto()
        own.CopyFrom(attribute)
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in given:
                continue
            own.CopyFrom(given[attribute.ref_attr_name])
            own.name = attribute.name
        elif attribute.type == onnx.AttributeProto.GRAPH:
            inner = [_with_attributes(each, given) for each in attribute.g.node]
            del own.g.node[:]
            own.g.node.extend(inner)
        made.attribute.append(own)
    return made

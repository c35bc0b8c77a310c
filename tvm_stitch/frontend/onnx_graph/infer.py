"""Types of one node's outputs, by ONNX's own inference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from tvm_stitch.frontend.onnx_graph.graph import Graph, ValueType, consumed

_OF_NARROW = ("DequantizeLinear", "QuantizeLinear")  # what they give depends on such a type
_LIKE_THEIR_INPUT = ("GroupNormalization",)  # of whose results ONNX infers no shape
VALUES_UP_TO = 1024  # elements of constants shown to inference: shapes, axes, bounds


def infer_node(graph: Graph, node: onnx.NodeProto) -> None:
    """Write the types of the node's outputs into `graph.types`, as far as ONNX knows them.

    Raises: onnx.shape_inference.InferenceError if the inputs do not fit the operator,
    onnx.checker.ValidationError if it has no result of such a type.
    """
    if not onnx.defs.has(node.op_type, graph.opsets.get(node.domain, 1), node.domain):
        return
    schema = onnx.defs.get_schema(node.op_type, graph.opsets.get(node.domain, 1), node.domain)
    types, values = {}, {}
    for name in consumed(node):  # bodies of If read values that are no inputs of the node
        known = graph.type_of(name)
        if known is not None:
            if node.op_type in _OF_NARROW and name in graph.narrow:
                narrow = np.dtype(getattr(ml_dtypes, graph.narrow[name]))
                known = ValueType(narrow, known.shape)
            types[name] = type_proto(known)
        elif name in node.input:
            return
        array = graph.constants.get(name)
        if array is not None and array.size <= VALUES_UP_TO:
            values[name] = numpy_helper.from_array(np.asarray(array), name)
    opsets = [onnx.helper.make_opsetid(domain, v) for domain, v in graph.opsets.items()]
    inferred = onnx.shape_inference.infer_node_outputs(
        schema, node, types, values, opset_imports=opsets, ir_version=onnx.IR_VERSION
    )
    for name, proto in inferred.items():
        if name and (known := value_type(proto)) is not None:
            if known.shape is None and node.op_type in _LIKE_THEIR_INPUT:
                known = ValueType(known.dtype, graph.type_of(node.input[0]).shape)
            graph.types[name] = known


def value_type(proto: onnx.TypeProto) -> ValueType | None:
    """Return None for what is no tensor of numbers."""
    tensor = proto.tensor_type
    if tensor.elem_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return None
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim
        )
    return ValueType(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)), shape)


def type_proto(known: ValueType) -> onnx.TypeProto:
    """Return the ONNX form of a type."""
    elem = onnx.helper.np_dtype_to_tensor_dtype(known.dtype)
    return onnx.helper.make_tensor_type_proto(elem, known.shape)

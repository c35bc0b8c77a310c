"""What ONNX Runtime makes of a node: types that ONNX's own inference does not know."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import IR_VERSION, Graph, ValueType, label, value_info
from tvm_stitch.runtime.onnx_segment import open_session


def try_types(graph: Graph, node: onnx.NodeProto) -> None:
    """Write the types of a node's results into the graph, by a run of the node on zeros.

    Only of operators that are none of ONNX's own: others have no known shape where data decides it.

    Raises: StitchError if ONNX Runtime does not have it either.
    """
    wanted = [name for name in node.output if name and graph.type_of(name) is None]
    if not node.domain or not wanted:
        return
    inputs, feeds = [], {}
    for name in filter(None, node.input):
        known = graph.type_of(name)
        if known is None or not known.static:
            return
        array = graph.constants.get(name)
        feeds[name] = np.zeros(known.shape, known.dtype) if array is None else np.asarray(array)
        inputs.append(value_info(name, known.dtype, known.shape))
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    proto = onnx.helper.make_graph([node], "trial", inputs, outputs)
    where = label(node)
    session = open_session(model_of(graph, proto).SerializeToString(), where)
    try:
        results = session.run(None, feeds)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        rule = f"ONNX Runtime refuses it ({reason})"
        raise StitchError(where, rule, "check the model") from error
    for value, made in zip(outputs, results, strict=True):
        graph.types[value.name] = ValueType(made.dtype, made.shape)


def model_of(graph: Graph, proto: onnx.GraphProto) -> onnx.ModelProto:
    """Return a part of the graph as a model of its own."""
    opsets = [onnx.helper.make_opsetid(domain, v) for domain, v in graph.opsets.items()]
    model = onnx.helper.make_model(proto, opset_imports=opsets)
    model.ir_version = min(model.ir_version, IR_VERSION)
    return model

"""EyeLike: a constant, in the type that is asked for."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.onnx_graph.limits import MOST_TABLE


def eye_like(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: EyeLike(x) -> constant"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "EyeLike" else None
    if shape is None or node.domain or math.prod(shape) > MOST_TABLE:
        return None
    build, attrs = Builder(graph, node), attributes(node)
    dtype = graph.type_of(node.input[0]).dtype
    if "dtype" in attrs:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(attrs["dtype"])
    eye = np.eye(*shape, k=attrs.get("k", 0)).astype(dtype)
    build("Identity", build.constant(eye, dtype), out=node.output[0])
    return build.nodes

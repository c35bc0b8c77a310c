"""Inputs bound to values: what decides a shape is known when the model is compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph, consumed, has_input
from tvm_stitch.frontend.onnx_graph.tensors import dtype_of
from tvm_stitch.frontend.to_relax import VALUE_INPUTS

# Operands that must be known, of the operators that the importer has and of those rewritten.
DECIDING = {
    **VALUE_INPUTS,
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "CumProd": (1,),
    "DFT": (1, 2),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "STFT": (1, 3),
}


def bind_values(graph: Graph, values: Mapping[str, object] | None) -> None:
    """Make constants of inputs whose values are given; the model has these inputs no more.

    Raises: StitchError naming the input for a wrong name, type or rank.
    """
    inputs = {value.name: value for value in graph.inputs}
    for name, value in (values or {}).items():
        given = f"value of {name!r}"
        if name not in inputs:
            raise StitchError(given, "the model has no such input", f"its inputs are {[*inputs]}")
        declared = inputs[name].type.tensor_type
        dtype = dtype_of(declared.elem_type, f"input {name!r}")
        array = np.asarray(value)
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise StitchError(given, f"it is of {array.dtype}", f"the model declares {dtype}")
        if declared.HasField("shape") and len(declared.shape.dim) != array.ndim:
            rule = f"it has {array.ndim} axes, not {len(declared.shape.dim)}"
            raise StitchError(given, rule, "give an array of the declared rank")
        graph.constants[name] = array.astype(dtype)
    graph.inputs = [value for value in graph.inputs if value.name not in (values or {})]


def deciding_inputs(graph: Graph) -> list[str]:
    """Return the inputs of which operands are computed that must be known: shapes, axes, sizes."""
    makers = {name: node for node in graph.nodes for name in node.output if name}
    waiting = [
        node.input[place]
        for node in graph.nodes
        for place in DECIDING.get(node.op_type, ())
        if not node.domain and has_input(node, place)
    ]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        # What a tensor's shape is made of is known without its values.
        if (node := makers.get(name)) is not None and node.op_type not in ("Shape", "Size"):
            waiting.extend(consumed(node))
    return [value.name for value in graph.inputs if value.name in seen]


def is_tensor(value: onnx.ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type")

"""Types narrower than what kernels compute in: within a model their numbers are wider ones.

Integers of 2 and 4 bits are those of 8, floats of 4 and 8 bits float32: each holds all of their
numbers. What is cast to such a type is rounded to its numbers; at the model's edge arrays have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

INTEGERS = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
FLOATS = ("float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


@dataclass(frozen=True)
class Narrow:
    """A narrow type, and the one that its numbers have within a model."""

    dtype: np.dtype
    wide: np.dtype

    @property
    def is_integer(self) -> bool:
        return self.dtype.name in INTEGERS

    @property
    def bits(self) -> int:
        limits = ml_dtypes.iinfo if self.is_integer else ml_dtypes.finfo
        return limits(self.dtype).bits

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest of integers."""
        found = ml_dtypes.iinfo(self.dtype)
        return int(found.min), int(found.max)


def narrow_of(dtype: np.dtype | None) -> Narrow | None:
    """Return what is known of a narrow type, None for any other."""
    if dtype is None:
        return None
    if dtype.name in INTEGERS:
        return Narrow(dtype, np.dtype(INTEGERS[dtype.name]))
    return Narrow(dtype, np.dtype(np.float32)) if dtype.name in FLOATS else None


def narrow_type(elem_type: int) -> Narrow | None:
    """Return what is known of an ONNX element type, None if it is not narrow."""
    if elem_type not in onnx.helper.get_all_tensor_dtypes() or elem_type == onnx.TensorProto.STRING:
        return None  # others than these are refused where they are met
    return narrow_of(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type)))


def widen_narrow(graph: Graph) -> None:
    """Let inputs and constants of narrow types be wide; `graph.narrow` has what they were."""
    for value in (*graph.inputs, *graph.outputs):
        tensor = value.type.tensor_type
        if (known := narrow_type(tensor.elem_type)) is not None:
            graph.narrow[value.name] = known.dtype.name
            tensor.elem_type = onnx.helper.np_dtype_to_tensor_dtype(known.wide)
    for name, array in graph.constants.items():
        if (known := narrow_of(array.dtype)) is not None:
            graph.narrow[name] = known.dtype.name
            graph.constants[name] = array.astype(known.wide)
    for node in graph.nodes:
        if node.op_type == "CastLike" and has_input(node, 1) and node.input[1] in graph.narrow:
            _cast_to(node, np.dtype(getattr(ml_dtypes, graph.narrow[node.input[1]])))


def _cast_to(node: onnx.NodeProto, dtype: np.dtype) -> None:
    """Make a Cast of a CastLike: what it is like has lost its type."""
    kept = {name: value for name, value in attributes(node).items() if name == "saturate"}
    to = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    made = onnx.helper.make_node("Cast", node.input[:1], node.output, node.name, to=to, **kept)
    node.CopyFrom(made)

"""Seeded inputs for an ONNX model: normal floats, integers that index whatever they select from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from ..errors import StitchError
from ..frontend.onnx_graph.load import load_structure

_PASSED_ON = {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Transpose", "Flatten"}
_UNKNOWN_BOUND = 2


def random_inputs(
    model: Path, shapes: Mapping[str, tuple[int, ...]], seed: int = 0
) -> dict[str, np.ndarray]:
    """Return an array for each input of the model's graph; `shapes` settles its dynamic ones.

    Raises: StitchError for a file that is no ONNX model, and for a dimension nobody bound.
    """
    graph = load_structure(model).graph
    rng = np.random.default_rng(seed)
    weights = {tensor.name: tensor.dims for tensor in graph.initializer}
    made = {}
    for value in graph.input:
        if value.name in weights:
            continue
        shape = shapes.get(value.name) or _static_shape(value)
        dtype = _dtype(value)
        made[value.name] = _values(rng, shape, dtype, _index_bound(graph, weights, value.name))
    if unknown := set(shapes) - set(made):
        names = ", ".join(made)
        raise StitchError(f"--shape {min(unknown)}", "no such input", f"the inputs are {names}")
    return made


def _static_shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    shape = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value"):
            name = dim.dim_param or f"axis {axis}"
            rule = f"its dimension {name} is not bound"
            raise StitchError(f"input {value.name}", rule, f"add --shape {value.name}=1,128")
        shape.append(dim.dim_value)
    return tuple(shape)


def _dtype(value: onnx.ValueInfoProto) -> np.dtype:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, bound: int
) -> np.ndarray:
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, bound, shape).astype(dtype)
    # One pass in f32: a main-memory row would spend seconds in f64.
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype, copy=False)


def _index_bound(graph: onnx.GraphProto, weights: Mapping[str, list[int]], name: str) -> int:
    """Return below what an integer input must stay: the least axis that a Gather takes it to."""
    bounds, names = [], {name}
    for node in graph.node:
        if node.op_type in _PASSED_ON and node.input[0] in names:
            names.add(node.output[0])
        if node.op_type != "Gather" or node.input[1] not in names:
            continue
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if node.input[0] in weights:
            bounds.append(weights[node.input[0]][axis])
    return min(bounds, default=_UNKNOWN_BOUND)

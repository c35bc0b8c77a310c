"""Random inputs for any model of the zoo, and the bytes its inputs and outputs hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from zoo.weights import numpy_dtype

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 88.8, -103.0)
SPECIAL_SHARE = 1 / 16
BOOLEAN_TRUE_SHARE = 0.75


def random_inputs(
    model: onnx.ModelProto,
    seed: int = 0,
    special: bool = False,
    shapes: dict[str, Sequence[int]] | None = None,
) -> dict[str, np.ndarray]:
    """Return one array per graph input.

    Floats are standard normal; `special` replaces one in sixteen by NaN, an infinity, a signed
    zero, a subnormal or a number near the limits. Integers are valid indices: the model's metadata
    `range:<input>` bounds them. Booleans are true three times in four. A symbolic dimension takes
    the size in `shapes`, else the metadata `dim:<symbol>`.

    Raises: ValueError for a symbolic dimension with neither.
    """
    rng = np.random.default_rng(seed)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    initializers = {entry.name for entry in model.graph.initializer}
    arrays = {}
    for value in model.graph.input:
        if value.name in initializers:
            continue
        shape = tuple((shapes or {}).get(value.name) or static_shape(value, metadata))
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype == np.bool_:
            arrays[value.name] = rng.random(shape) < BOOLEAN_TRUE_SHARE
        elif dtype.kind in "iu":
            below = int(metadata.get(f"range:{value.name}", 2))
            arrays[value.name] = rng.integers(0, max(below, 1), shape, dtype)
        else:
            arrays[value.name] = _floats(rng, shape, dtype, special)
    return arrays


def static_shape(value: onnx.ValueInfoProto, metadata: dict[str, str]) -> tuple[int, ...]:
    """Return the shape, with symbols replaced by the metadata `dim:<symbol>`."""
    return tuple(
        _symbol_size(value.name, dim.dim_param, metadata) if dim.dim_param else dim.dim_value
        for dim in value.type.tensor_type.shape.dim
    )


def traffic_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of the inputs and outputs, each counted once (weights are left out)."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return sum(
        math.prod(static_shape(value, metadata))
        * helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize
        for value in [*model.graph.input, *model.graph.output]
    )


def _symbol_size(name: str, symbol: str, metadata: dict[str, str]) -> int:
    if f"dim:{symbol}" not in metadata:
        raise ValueError(f"input {name} has the unbound dimension {symbol!r}: pass shapes=")
    return int(metadata[f"dim:{symbol}"])


def _floats(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, special: bool
) -> np.ndarray:
    kind = np.float64 if dtype == numpy_dtype("float64") else np.float32
    array = rng.standard_normal(shape, kind)
    if special:
        marked = rng.random(shape) < SPECIAL_SHARE
        array = np.where(marked, rng.choice(np.array(SPECIAL, kind), shape), array)
    with np.errstate(over="ignore"):
        return np.asarray(array).astype(dtype)

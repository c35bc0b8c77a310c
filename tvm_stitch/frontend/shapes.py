"""Bind every graph input to a static shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph
from tvm_stitch.frontend.onnx_graph.limits import check_size
from tvm_stitch.frontend.onnx_graph.tensors import dtype_of

_INSTEAD = (
    ", or compile each shape as it comes: tvm-stitch run --specialize, tvm_stitch.Specialised"
)


def check_requested(shapes: Mapping[str, Sequence] | None, names: Sequence[str]) -> dict:
    """Return `shapes` as tuples of int.

    Raises: StitchError for an unknown name, a symbolic extent (reserved) or one that is no count.
    """
    bound = {}
    for name, shape in (shapes or {}).items():
        given = f"shape of {name!r}"
        if name not in names:
            raise StitchError(given, "the model has no such input", f"its inputs are {list(names)}")
        if not isinstance(shape, Sequence):
            raise StitchError(given, f"{shape!r} is no tuple", "give one, such as (1, 128)")
        if any(isinstance(extent, str) for extent in shape):
            raise StitchError(
                f"{given}, {tuple(shape)}",
                "a name is bound when the model meets a shape, by tvm_stitch.compile",
                f"give numbers only, such as --shape {name}=1,128",
            )
        for extent in shape:
            if not isinstance(extent, Integral) or isinstance(extent, bool) or extent < 0:
                raise StitchError(
                    f"{given}, {tuple(shape)}",
                    f"{extent!r} is no extent",
                    "give counts of 0 or more",
                )
        bound[name] = tuple(int(extent) for extent in shape)
    return bound


def bind_shapes(graph: Graph, shapes: Mapping[str, Sequence] | None) -> None:
    """Write static shapes into the inputs; one symbol has one value across all of them.

    Raises: StitchError naming the input for a wrong name, rank or extent, and naming all dimensions
    that stay free.
    """
    bound = check_requested(shapes, [value.name for value in graph.inputs])
    symbols: dict[str, int] = {}
    for value in graph.inputs:
        if not value.type.HasField("tensor_type"):
            raise StitchError(
                f"input {value.name!r}", "it is not a tensor", "pass sequences and maps as tensors"
            )
        if value.name in bound:
            _match(value, bound[value.name], symbols)
    extents = {
        value.name: bound[value.name] if value.name in bound else _resolve(value, symbols)
        for value in graph.inputs
    }
    refuse_free("inputs", extents, _INSTEAD)
    for value in graph.inputs:
        shape = extents[value.name]
        dtype = dtype_of(value.type.tensor_type.elem_type, f"input {value.name!r}")
        check_size(shape, dtype.itemsize, f"input {value.name!r}")
        proto = value.type.tensor_type.shape
        proto.ClearField("dim")
        proto.SetInParent()
        for extent in shape:
            proto.dim.add(dim_value=extent)
    for value in graph.outputs:
        if declared := value.type.tensor_type.elem_type:
            dtype_of(declared, f"output {value.name!r}")
        value.type.tensor_type.ClearField("shape")  # inferred again from the bound inputs


def refuse_free(
    given: str, extents: Mapping[str, Sequence[int | str] | None], instead: str = ""
) -> None:
    """Raise StitchError for extents that are no numbers, each symbol named once.

    `extents` are those of each input, "" where a dimension has no name, None where not even the
    rank is known. `instead` is the end of the remedy, for what takes open shapes.
    """
    free: dict[object, str] = {}
    flags = []
    for name, shape in extents.items():
        known = len(free)
        if shape is None:
            free[name, None] = f"{name!r}, whose rank is unknown"
        for axis, extent in enumerate(shape or ()):
            if isinstance(extent, str):
                place = f"axis {axis} of {name!r}"
                shown = f"{extent!r} ({place})" if extent else place
                free.setdefault(extent or (name, axis), shown)
        if len(free) > known:
            flags.append(f"--shape {name}={_example(shape)}")
    if free:
        raise StitchError(
            given,
            f"no extent is known of {', '.join(free.values())}",
            f"give each one, as in {' '.join(flags)} (in Python: shapes=){instead}",
        )


def _example(shape: Sequence[int | str] | None) -> str:
    if shape is None:
        return "1,128"
    return ",".join("1" if isinstance(extent, str) else str(extent) for extent in shape)


def _match(value: onnx.ValueInfoProto, shape: tuple[int, ...], symbols: dict[str, int]) -> None:
    given = f"shape {shape} of {value.name!r}"
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return
    declared = [_extent(dim) for dim in tensor.shape.dim]
    remedy = f"the model declares {_shown(tensor.shape)}"
    if len(declared) != len(shape):
        raise StitchError(given, f"it has {len(shape)} axes, not {len(declared)}", remedy)
    for axis, (want, have) in enumerate(zip(shape, declared, strict=True)):
        if isinstance(have, int) and have != want:
            raise StitchError(given, f"axis {axis} is fixed to {have}", remedy)
        if isinstance(have, str) and have and symbols.setdefault(have, want) != want:
            raise StitchError(given, f"{have!r} is {symbols[have]} in another input", remedy)


def _resolve(value: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> list[int | str] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    extents = [_extent(dim) for dim in tensor.shape.dim]
    return [symbols.get(extent, extent) for extent in extents]


def _extent(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    """Return a fixed extent, or the symbol that stands for it ("" if it has no name)."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param


def _shown(shape: onnx.TensorShapeProto) -> str:
    return "(" + ", ".join(str(_extent(dim) or "?") for dim in shape.dim) + ")"

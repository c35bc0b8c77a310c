"""Damage to a model's structure, which the bytes' own rules would hide."""

from __future__ import annotations

import random

import onnx
from onnx import TensorProto, helper

from support.hostile.nodes import NODE_CHANGES, new_name

EXTENTS = (0, 1, 2, 3, 5, -1, 7, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
ELEMENT_TYPES = (*TensorProto.DataType.values(), 99, -1)
VERSIONS = (0, -1, 1, 6, 7, 9, 11, 12, 13, 17, 18, 20, 21, 23, 25, 9999, 1 << 31, (1 << 63) - 1)


def mutated(model: onnx.ModelProto, other: onnx.ModelProto, rng: random.Random) -> onnx.ModelProto:
    """Return a copy of `model` after one to three changes; some take nodes from `other`."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.6:
            graph = rng.choice(_graphs(new.graph))
            if graph.node:
                rng.choice(NODE_CHANGES)(graph, rng.choice(graph.node), other, rng)
        else:
            rng.choice(MODEL_CHANGES)(new, rng)
    return new


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(found for each in inner for found in _graphs(each))]


def _set_extent(model: onnx.ModelProto, rng: random.Random) -> None:
    values = [v for v in (*model.graph.input, *model.graph.output, *model.graph.value_info)
              if v.type.tensor_type.shape.dim]  # fmt: skip
    if values:
        shape = rng.choice(values).type.tensor_type.shape
        rng.choice(shape.dim).dim_value = rng.choice(EXTENTS)


def _set_rank(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.graph.input:
        dims = rng.choice(model.graph.input).type.tensor_type.shape.dim
        if dims and rng.random() < 0.5:
            dims.pop()
        else:
            for _ in range(rng.choice((1, 1, 1, 2, 10, 100))):
                dims.add(dim_value=1)


def _set_element_type(model: onnx.ModelProto, rng: random.Random) -> None:
    tensors = [v.type.tensor_type for v in (*model.graph.input, *model.graph.output)]
    if tensors:
        rng.choice(tensors).elem_type = rng.choice(ELEMENT_TYPES)


def _set_type(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.graph.input:
        kind = rng.choice(model.graph.input).type
        change = rng.choice(("sequence_type", "map_type", "sparse_tensor_type", "clear"))
        kind.Clear() if change == "clear" else getattr(kind, change).SetInParent()


def _lose_or_repeat(model: onnx.ModelProto, rng: random.Random) -> None:
    graph = model.graph
    values = rng.choice((graph.input, graph.output, graph.initializer, model.opset_import))
    if values:
        if rng.random() < 0.6:
            del values[rng.randrange(len(values))]
        else:
            values.add().CopyFrom(rng.choice(values))


def _rename(model: onnx.ModelProto, rng: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.initializer]
    if values:
        rng.choice(values).name = new_name(model.graph, rng)


def _set_version(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.opset_import and rng.random() < 0.8:
        rng.choice(model.opset_import).version = rng.choice(VERSIONS)
    else:
        model.opset_import.add(domain=rng.choice(("", "ai.onnx", "ai.onnx.ml", "x")),
                               version=rng.choice(VERSIONS))  # fmt: skip


def _damage_tensor(model: onnx.ModelProto, rng: random.Random) -> None:
    if not model.graph.initializer:
        return
    tensor = rng.choice(model.graph.initializer)
    match rng.randrange(7):
        case 0:
            tensor.raw_data = tensor.raw_data[: rng.randint(0, len(tensor.raw_data))]
        case 1:
            tensor.data_type = rng.choice(ELEMENT_TYPES) & 0x7FFFFFFF
        case 2:
            tensor.dims.append(rng.choice(EXTENTS))
        case 3 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(EXTENTS)
        case 4:
            tensor.ClearField("raw_data")
            getattr(tensor, rng.choice(("float_data", "int64_data", "int32_data"))).extend([3] * 4)
        case 5:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=rng.choice(("", ".", "/", "..", "x")))
            tensor.external_data.add(key=rng.choice(("offset", "length")), value=rng.choice("-9a"))
        case _:
            tensor.raw_data = bytes(rng.randrange(256) for _ in tensor.raw_data)


def _fill_integers(model: onnx.ModelProto, rng: random.Random) -> None:
    """Write other shapes, axes and indices into integer constants."""
    tensors = [t for t in model.graph.initializer
               if t.data_type in (TensorProto.INT64, TensorProto.INT32) and t.raw_data]  # fmt: skip
    if not tensors:
        return
    tensor = rng.choice(tensors)
    width = 8 if tensor.data_type == TensorProto.INT64 else 4
    at = rng.randrange(0, len(tensor.raw_data), width)
    number = rng.choice(EXTENTS) & ((1 << 8 * width) - 1)
    data = tensor.raw_data
    tensor.raw_data = data[:at] + number.to_bytes(width, "little") + data[at + width :]


def _call_itself(model: onnx.ModelProto, rng: random.Random) -> None:
    """Define an operator of the graph as a function of itself, or of others of its kind."""
    if not model.graph.node:
        return
    node = rng.choice(model.graph.node)
    domain = rng.choice(("", "x"))
    calls = [helper.make_node(node.op_type, ["a"], ["b"], domain=domain)] * rng.randint(1, 2)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("x", 1)]
    name = rng.choice((node.op_type, "Abs"))
    model.functions.append(helper.make_function(domain, name, ["a"], ["b"], calls, opsets))
    node.domain = domain


MODEL_CHANGES = (
    _set_extent, _set_extent, _set_extent, _set_rank, _set_rank, _set_element_type,
    _set_element_type, _set_type, _lose_or_repeat, _rename, _set_version, _set_version,
    _damage_tensor, _damage_tensor, _fill_integers, _fill_integers, _fill_integers, _call_itself,
)  # fmt: skip

"""Models of operator sets 1 to 6, whose operators broadcast and take attributes otherwise."""

from __future__ import annotations

import onnx
import onnx.version_converter

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, take_model, write_model

FIRST_OPSET = 7  # broadcasting became NumPy's


def convert_old(graph: Graph, given: object) -> None:
    """Take a graph's nodes to opset 7, by ONNX's own converter. Raises: StitchError if it can't.

    It sees constants of one element alone: what others hold decides no operator. Operands that
    broadcast from an axis on are brought to their place before: the converter puts them one axis
    too far (onnx 1.23).
    """
    if graph.opset >= FIRST_OPSET:
        return
    try:
        model = write_model(graph, lambda _name, array: array.size <= 1)
        _place_operands(model)
        model = onnx.version_converter.convert_version(model, FIRST_OPSET)
    except (RuntimeError, onnx.shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[-1]
        rule = f"ONNX's converter can't take it from opset {graph.opset} on ({reason})"
        raise StitchError(given, rule, "export the model again") from None
    take_model(graph, model)


def _place_operands(model: onnx.ModelProto) -> None:
    """Give operands the axes that they have behind theirs in what they broadcast to."""
    known = onnx.shape_inference.infer_shapes(model).graph
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in (*known.input, *known.value_info, *known.output)
        if value.type.tensor_type.HasField("shape")
    }
    ranks |= {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        behind = _axes_behind(node, ranks)
        if behind:
            operand = f"{node.output[0]}__{node.input[1]}"
            axes = list(range(ranks[node.input[1]], ranks[node.input[1]] + behind))
            nodes.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [operand], axes=axes))
            node.input[1] = operand
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _axes_behind(node: onnx.NodeProto, ranks: dict[str, int]) -> int:
    """Return how many axes of its first operand are behind those that a second one has."""
    attrs = attributes(node)
    ranked = len(node.input) > 1 and all(name in ranks for name in node.input[:2])
    if node.op_type == "PRelu" and ranked and ranks[node.input[1]] == 1:
        return max(0, ranks[node.input[0]] - 2)  # a slope a channel
    if not attrs.get("broadcast") or "axis" not in attrs or node.op_type == "Gemm":
        return 0
    if not ranked:
        raise RuntimeError(f"the operands of {node.output[0]!r} are of unknown rank")
    kept = [each for each in node.attribute if each.name != "axis"]
    del node.attribute[:]
    node.attribute.extend(kept)
    whole, part = (ranks[name] for name in node.input[:2])
    behind = whole - attrs["axis"] % max(1, whole) - part
    if behind < 0:
        raise RuntimeError(f"an operand of {node.output[0]!r} ends behind what it broadcasts to")
    return behind

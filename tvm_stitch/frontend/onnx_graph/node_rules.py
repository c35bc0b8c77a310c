"""What a node may hold, where neither ONNX's inference nor TVM's importer looks."""

from __future__ import annotations

import re

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.onnx_graph.tensors import dtype_of

# Words by attribute; by the operator too where operators differ.
WORDS = {
    "approximate": ("none", "tanh"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "direction": ("LEFT", "RIGHT"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "max", "min"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("GridSample", "mode"): ("bilinear", "linear", "nearest", "bicubic", "cubic"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("Resize", "coordinate_transformation_mode"): (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("Upsample", "mode"): ("nearest", "linear"),
}  # fmt: skip
WORDED = {"BitShift", "ConvTranspose", "Conv", "MaxPool", "AveragePool", "LpPool", "DepthToSpace",
          "Gelu", "GridSample", "Pad", "Resize", "RoiAlign", "ScatterElements", "ScatterND",
          "Upsample"}  # fmt: skip
ELEMENT_TYPES = ("to", "dtype", "output_dtype")  # of the last two, 0 is none
AXIS_OF_FIRST = {"ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Gather", "GatherElements",
                 "Hardmax", "LayerNormalization", "LogSoftmax", "LpNormalization", "OneHot",
                 "RMSNormalization", "Scatter", "ScatterElements", "Softmax", "Split",
                 "TopK"}  # fmt: skip
AXIS_BEHIND = {"Flatten"}  # those that may count an axis more
AXIS_OF_RESULT = {"OneHot"}  # those whose axis is of the result, which has one more
POOLS = ("AveragePool", "LpPool", "MaxPool")
WINDOWED = {"Conv", "ConvTranspose", "MaxUnpool", *POOLS}
# Inputs that are lists of numbers, of which ONNX's inference does not see to it.
LISTS = {
    "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1, 3), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "Unsqueeze": (1,),
    "Upsample": (1,),
    **{f"Reduce{kind}": (1,) for kind in ("Max", "Min", "Sum", "Mean", "Prod", "LogSumExp",
                                          "LogSum", "SumSquare", "L1", "L2")},
}  # fmt: skip
# Of windows, the least that each number may be; pads may cut.
WINDOW = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 0,
          "pads": -(1 << 31)}  # fmt: skip
# Their importers read every operand from these on.
VARIADIC = {
    schema.name: len(schema.inputs) - 1
    for schema in onnx.defs.get_all_schemas()
    if schema.inputs
    and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
}
AGAIN = "export the model again"
# ONNX's inference does not end at a point that is no ellipsis.
_TERM = r"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(f"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")
# Of every operator that has them; checked of others too, as inference passes by what it can't know.
KINDS = {
    "axes": onnx.AttributeProto.INTS,
    "equation": onnx.AttributeProto.STRING,
    **dict.fromkeys(("axis", "batch_dims", "num_outputs"), onnx.AttributeProto.INT),
}


def check_node(graph: Graph, node: onnx.NodeProto, given: str) -> None:
    """Raise StitchError for operands left out, unknown words and types, and axes outside."""
    if node.domain:
        return
    if "" in node.input[VARIADIC.get(node.op_type, len(node.input)) :]:
        raise StitchError(given, "one of its inputs has no name", AGAIN)
    for attribute in node.attribute:
        if attribute.type != (kind := KINDS.get(attribute.name, attribute.type)):
            wanted = onnx.AttributeProto.AttributeType.Name(kind)
            raise StitchError(given, f"attribute {attribute.name!r} is not {wanted}", AGAIN)
    for position in LISTS.get(node.op_type, ()):
        known = graph.type_of(node.input[position]) if has_input(node, position) else None
        if known is not None and known.shape is not None and len(known.shape) > 1:
            rule = f"input {position} has {len(known.shape)} axes and is no list of numbers"
            raise StitchError(given, rule, AGAIN)
    attrs, diagonal = attributes(node), graph.constant(node, 1)
    equation = attrs.get("equation", b"").decode() if node.op_type == "Einsum" else ""
    if not _EQUATION.fullmatch(equation):
        rule = f"equation {equation!r} has more than letters, '...', ',' and '->'"
        raise StitchError(given, rule, AGAIN)
    if (
        node.op_type == "Trilu"
        and diagonal is not None
        and diagonal.size == 1
        and abs(int(diagonal.item())) >> 31
    ):
        raise StitchError(given, f"diagonal {diagonal.item()} has more than 32 bits", AGAIN)
    for name, value in attrs.items():
        words = WORDS.get((node.op_type, name), WORDS.get(name))
        if words and node.op_type in WORDED and value.decode() not in words:
            rule = f"{name} {value.decode()!r} is none of {', '.join(words)}"
            raise StitchError(given, rule, AGAIN)
    for name in ELEMENT_TYPES:
        if isinstance(attrs.get(name), int) and (attrs[name] or name == "to"):
            dtype_of(attrs[name], given)
    if node.op_type == "LRN" and attrs.get("size", 1) < 1:
        raise StitchError(given, f"size {attrs['size']} is below 1", AGAIN)
    shape = graph.type_of(node.input[0]) if has_input(node, 0) else None
    rank = len(shape.shape) if shape is not None and shape.shape is not None else None
    if rank is None:
        return
    axis = attrs.get("axis") if node.op_type in AXIS_OF_FIRST else _scanned(graph, node)
    if axis is not None:
        have = max(rank, 1) + (node.op_type in AXIS_OF_RESULT)
        _check_axis(axis, have, node.op_type in AXIS_BEHIND, given)
    axes = attrs.get("axes") or ()
    have = max(rank, 1) + (len(axes) if node.op_type == "Unsqueeze" else 0)
    for each in axes:  # ONNX's inference has 32 bits of each
        _check_axis(each, have, False, given)
    if not 0 <= attrs.get("batch_dims", 0) < max(rank, 1):
        raise StitchError(given, f"batch_dims {attrs['batch_dims']} is outside 0 to {rank}", AGAIN)
    if node.op_type == "LpNormalization" and attrs.get("p", 2) not in (1, 2):
        raise StitchError(given, f"p {attrs['p']} is neither 1 nor 2", AGAIN)
    if node.op_type == "PRelu":
        _check_slope(graph, node, given)
    if node.op_type in WINDOWED:
        _check_window(attrs, rank - 2, given)
        _check_span(graph, node, attrs, given)
    if node.op_type == "Split" and attrs.get("num_outputs", len(node.output)) != len(node.output):
        rule = f"num_outputs {attrs['num_outputs']} is not its {len(node.output)} outputs"
        raise StitchError(given, rule, AGAIN)


def _scanned(graph: Graph, node: onnx.NodeProto) -> int | None:
    axis = graph.constant(node, 1) if node.op_type == "CumSum" else None
    return None if axis is None or axis.size != 1 else int(axis.item())


def _check_axis(axis: int, rank: int, behind: bool, given: str) -> None:
    if not -rank <= axis < rank + behind:
        last = rank - 1 + behind
        raise StitchError(given, f"axis {axis} is outside {-rank} to {last}", AGAIN)


def _check_slope(graph: Graph, node: onnx.NodeProto, given: str) -> None:
    """Raise StitchError if the result would be larger than the input, as inference lets it be."""
    x, slope = (graph.static_shape(name) for name in node.input[:2])
    if x is None or slope is None:
        return
    fits = all(n in (1, of) for n, of in zip(slope[::-1], x[::-1], strict=False))
    if len(slope) > len(x) or not fits:
        raise StitchError(given, f"slope {slope} does not broadcast to its input {x}", AGAIN)


def _check_window(attrs: dict, rank: int, given: str) -> None:
    for name, least in WINDOW.items():
        numbers = attrs.get(name, ())
        wanted = 2 * rank if name == "pads" else rank
        # All that ConvTranspose's output_shape may hold is the whole shape.
        if numbers and len(numbers) != wanted and name != "output_shape":
            rule = f"{name} has {len(numbers)} numbers, not {wanted}"
            raise StitchError(given, rule, AGAIN)
        if any(not least <= number < 1 << 31 for number in numbers):
            rule = f"{name} {list(numbers)} has a number outside {least} to {(1 << 31) - 1}"
            raise StitchError(given, rule, AGAIN)


def _check_span(graph: Graph, node: onnx.NodeProto, attrs: dict, given: str) -> None:
    """Raise StitchError if no window fits: ONNX rounds towards 0, and TVM down.

    Of an image without elements they agree where the result has none either.
    """
    shape, rounded = graph.static_shape(node.input[0]), attrs.get("auto_pad", b"").startswith(b"S")
    if node.op_type not in ("Conv", *POOLS) or shape is None or rounded or attrs.get("ceil_mode"):
        return
    extents = shape[2:]
    kernel = attrs.get("kernel_shape") or _kernel(graph, node)
    dilations = attrs.get("dilations") or [1] * len(extents)
    pads = attrs.get("pads") or [0] * 2 * len(extents)
    steps = attrs.get("strides") or [1] * len(extents)
    sides = zip(pads[: len(extents)], pads[len(extents) :], strict=True)
    for extent, size, dilation, pad, step in zip(
        extents, kernel, dilations, sides, steps, strict=False
    ):
        span, padded = (size - 1) * dilation + 1, extent + sum(pad)
        if span > padded and (extent or step > 1 or span > padded + 1):
            rule = f"its window spans {span} of {padded} elements, padding included"
            raise StitchError(given, rule, "pad the input more")


def _kernel(graph: Graph, node: onnx.NodeProto) -> tuple[int, ...]:
    shape = graph.static_shape(node.input[1]) if has_input(node, 1) else None
    return () if shape is None else shape[2:]

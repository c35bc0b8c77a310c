"""Resize, axis by axis: elements gathered, and added up by their weights."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.onnx_graph.limits import MOST_TABLE
from tvm_stitch.frontend.rewrites.resize.places import Form, Sized, taps

_ROI, _SCALES, _SIZES = 1, 2, 3
_IMPORTED = {"align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel",
             "tf_half_pixel_for_nn"}  # fmt: skip


def resize(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Resize(x) -> for each axis: the sum over t of Gather(x, places[t]) * weights[t]"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "Resize" else None
    if shape is None or node.domain or graph.opset < 11:
        return None
    attrs, known = attributes(node), graph.type_of(node.input[0])
    form = _form(attrs)
    sized = _sized(graph, node, attrs, shape)
    if sized is None or _is_imported(form, attrs, sized, shape):
        return None
    if form.mode != "nearest" and known.dtype.kind in "iu":
        return None
    build, x = Builder(graph, node), node.input[0]
    outside = None
    for axis, each in sized.items():
        if each.made == each.extent and form.coordinates != "tf_crop_and_resize":
            continue
        found = taps(each, form)
        x = _along(build, x, axis, found.places, found.weights, known.dtype)
        if found.outside.any():
            line = found.outside.reshape([-1 if a == axis else 1 for a in range(len(shape))])
            here = build.constant(line, np.bool_)
            outside = here if outside is None else build("Or", outside, here)
    if outside is not None:
        value = build.constant(attrs.get("extrapolation_value", 0.0), known.dtype)
        x = build("Where", outside, value, x)
    build("Identity", x, out=node.output[0])
    return build.nodes


def _form(attrs: dict) -> Form:
    def word(name: str, default: str) -> str:
        return attrs.get(name, default.encode()).decode()

    return Form(
        word("mode", "nearest"),
        word("coordinate_transformation_mode", "half_pixel"),
        word("nearest_mode", "round_prefer_floor"),
        attrs.get("cubic_coeff_a", -0.75),
        bool(attrs.get("antialias", 0)),
        bool(attrs.get("exclude_outside", 0)),
    )


def _sized(
    graph: Graph, node: onnx.NodeProto, attrs: dict, shape: tuple[int, ...]
) -> dict[int, Sized] | None:
    """Return the axes that are resized, None if it is not known how."""
    axes = [axis % len(shape) for axis in attrs.get("axes", range(len(shape)))]
    scales, sizes = graph.numbers(node, _SCALES), graph.numbers(node, _SIZES)
    roi = graph.numbers(node, _ROI)
    if scales is not None and len(scales) == len(axes):
        scales = [float(scale) for scale in scales]
        sizes = [math.floor(shape[a] * s) for a, s in zip(axes, scales, strict=True)]
    elif sizes is not None and len(sizes) == len(axes):
        sizes, scales = _scaled(attrs, [shape[axis] for axis in axes], sizes.tolist())
    else:
        return None
    ends = [(0.0, 1.0)] * len(axes)
    if roi is not None and len(roi) == 2 * len(axes):
        ends = [(float(roi[n]), float(roi[n + len(axes)])) for n in range(len(axes))]
    reach = max((4 / min(scale, 1.0) for scale in scales if scale > 0), default=0)
    if min(scales) <= 0 or max(sizes) * reach > MOST_TABLE:
        return None
    if 0 in shape or 0 in sizes or (has_input(node, _ROI) and roi is None):
        return None
    rows = zip(axes, sizes, scales, ends, strict=True)
    return {axis: Sized(shape[axis], made, scale, roi) for axis, made, scale, roi in rows}


def _scaled(attrs: dict, extents: list[int], sizes: list[int]) -> tuple[list[int], list[float]]:
    """Return sizes and scales; one scale for all where the proportions are kept."""
    scales = [size / extent if extent else 1.0 for size, extent in zip(sizes, extents, strict=True)]
    policy = attrs.get("keep_aspect_ratio_policy", b"stretch").decode()
    if policy == "stretch":
        return sizes, scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(scale * extent + 0.5) for extent in extents], [scale] * len(extents)


def _is_imported(form: Form, attrs: dict, sized: dict[int, Sized], shape: tuple[int, ...]) -> bool:
    """Return whether TVM's importer has it: images of whole scales, by their last axes."""
    if form.antialias or form.exclude_outside or form.coordinates not in _IMPORTED:
        return False
    if "axes" in attrs or attrs.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return False
    if any(each.made != each.scale * each.extent for each in sized.values()):
        return False
    if form.coordinates == "align_corners" and any(each.made == 1 for each in sized.values()):
        return False  # topi divides by the last place
    if form.mode == "cubic" and any(each.scale < 1 for each in sized.values()):
        return False
    return len(shape) in (3, 4, 5) and all(
        each.made == each.extent for axis, each in sized.items() if axis < 2
    )


def _along(
    build: Builder, x: str, axis: int, places: np.ndarray, weights: np.ndarray, dtype: np.dtype
) -> str:
    """Return what an axis becomes: a place that all weigh 1 is no product."""
    total = None
    rank = len(build.graph.static_shape(build.replaced.input[0]))
    for place, weight in zip(places.T, weights.T, strict=True):
        if not weight.any():
            continue
        line = build("Gather", x, build.constant(place), axis=axis)
        if (weight != 1).any():
            shown = weight.reshape([-1 if a == axis else 1 for a in range(rank)])
            line = build("Mul", line, build.constant(shown, dtype))
        total = line if total is None else build("Add", total, line)
    return total

"""ONNX -> Relax: read, check, bind shapes, simplify, fold weights, rewrite, import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.bounds import bound_indices
from tvm_stitch.frontend.expansions import EXPANSIONS
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.normalise import normalise
from tvm_stitch.frontend.old_opset import convert_old
from tvm_stitch.frontend.onnx_graph.calls import check_calls
from tvm_stitch.frontend.onnx_graph.dedupe import share_constants
from tvm_stitch.frontend.onnx_graph.graph import read_graph
from tvm_stitch.frontend.onnx_graph.load import load_structure
from tvm_stitch.frontend.onnx_graph.narrow import widen_narrow
from tvm_stitch.frontend.onnx_graph.sound import check_sound
from tvm_stitch.frontend.onnx_graph.tensors import TensorReader
from tvm_stitch.frontend.operators import check_operators
from tvm_stitch.frontend.rewrites import OPTIONAL, REWRITES
from tvm_stitch.frontend.rewrites.norms.group_normalization import replace_deprecated
from tvm_stitch.frontend.rewrites.reductions.reduce_noop import reduce_over_nothing
from tvm_stitch.frontend.segments import OR_LEAVE
from tvm_stitch.frontend.segments.leave import leave
from tvm_stitch.frontend.segments.trial import try_types
from tvm_stitch.frontend.shapes import bind_shapes
from tvm_stitch.frontend.structure import check_structure, inline_functions, simplify
from tvm_stitch.frontend.to_relax import NodeRefused, to_relax
from tvm_stitch.frontend.values import bind_values


def import_onnx(
    model: Path | onnx.ModelProto,
    shapes: Mapping[str, Sequence] | None,
    values: Mapping[str, object] | None = None,
    fallback: str = "refuse",
) -> ImportedModel:
    """Import an ONNX file or message, which stays as it is.

    With the `fallback` "onnxruntime" what no one here compiles is left to ONNX Runtime: what TVM's
    importer refuses is known when it does, so the import begins anew.

    Raises: StitchError for whatever the model, `shapes` or `values` get wrong.
    """
    refused: dict[str, str] = {}
    while True:
        try:
            return _imported(model, shapes, values, fallback, refused)
        except NodeRefused as refusal:
            if fallback != "onnxruntime":
                remedy = f"{refusal.remedy}, {OR_LEAVE}"
                raise StitchError(refusal.given, refusal.rule, remedy) from refusal
            if refusal.node in refused:
                raise
            refused[refusal.node] = f"TVM's importer refuses it ({refusal.reason})"


def _imported(
    model: Path | onnx.ModelProto,
    shapes: Mapping[str, Sequence] | None,
    values: Mapping[str, object] | None,
    fallback: str,
    refused: Mapping[str, str],
) -> ImportedModel:
    path = model if isinstance(model, Path) else None
    given = path or f"ONNX model {model.graph.name!r}"
    proto = load_structure(path) if path else model
    check_sound(proto, given)
    check_calls(proto, given)
    graph = read_graph(proto, TensorReader(given, path), given)
    del proto
    leaves = fallback == "onnxruntime"
    check_operators(graph, given, leaves)
    bind_values(graph, values)
    widen_narrow(graph)
    bind_shapes(graph, shapes)
    replace_deprecated(graph)
    check_structure(graph, given)
    convert_old(graph, given)
    inline_functions(graph)
    check_operators(graph, given, leaves)  # calls that do not fit their function stay
    typing = try_types if leaves else None
    # onnxsim takes a reduction over no axis for one over all.
    normalise(graph, (*EXPANSIONS, reduce_over_nothing), given, (), typing, {} if leaves else None)
    simplify(graph)
    refusals: dict[str, str] | None = {} if leaves else None
    normalise(graph, (*EXPANSIONS, *REWRITES), given, OPTIONAL, typing, refusals)
    left = leave(graph, given, refused, refusals) if refusals is not None else []
    share_constants(graph)
    bounds = bound_indices(graph, given)
    imported = to_relax(graph, given)
    edge = {value.name for value in (*graph.inputs, *graph.outputs)}
    narrow = {name: kind for name, kind in graph.narrow.items() if name in edge}
    return replace(imported, index_bounds=bounds, narrow=narrow, left=tuple(left))

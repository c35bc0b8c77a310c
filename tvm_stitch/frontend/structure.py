"""Passes that run on the structure alone: the checker, function inlining, onnxsim.

Each gets a small model in which weights are extra graph inputs, so no weight is serialised and none
is folded into another.
"""

from __future__ import annotations

import logging

import numpy as np
import onnx
import onnx.inliner

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph, take_model, write_model
from tvm_stitch.runtime.dtypes import numpy_dtype

logger = logging.getLogger(__name__)

SMALL_INTEGERS = 1024  # elements: what shape arithmetic may need
FOLDED_LIMIT = "16KB"  # onnxsim may not create larger constants
LONG_LINE = 1 << 16  # elements; onnxsim takes a second for a million
# Fusions that change arithmetic, or that our own rewrites undo. Two are wrong in onnxsim 0.8.1:
# fuse_consecutive_reduce drops the wrong axes where keepdims differ, eliminate_nop_softmax turns
# the softmax of a single NaN into 1.
SKIPPED = ["fuse_add_bias_into_conv", "fuse_bn_into_conv", "fuse_matmul_add_bias_into_gemm",
           "fuse_pad_into_conv", "fuse_pad_into_pool", "fuse_qkv", "fuse_transpose_into_gemm",
           "eliminate_consecutive_idempotent_ops", "eliminate_nop_softmax",
           "fuse_consecutive_reduce"]  # fmt: skip
# Takes the bits of a bfloat16 for its number in onnxsim 0.8.1: the least of all is no 1.
_UNIT = "eliminate_nop_with_unit"


def is_structural(_name: str, array: np.ndarray) -> bool:
    """Say whether a constant may carry shapes, axes, bounds or scalars."""
    return array.size <= 1 or (array.dtype.kind in "iub" and array.size <= SMALL_INTEGERS)


def check_structure(graph: Graph, given: object) -> None:
    """Raise StitchError for what the ONNX checker refuses."""
    model = write_model(graph, is_structural)
    for output in model.graph.output:
        # The checker wants a type; inference finds the real one later.
        output.type.tensor_type.shape.SetInParent()
        output.type.tensor_type.elem_type = output.type.tensor_type.elem_type or 1
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        reason = str(error).split("\n\n==> Context")[0]
        raise StitchError(given, f"invalid ONNX: {reason}", "export the model again") from error


def inline_functions(graph: Graph) -> None:
    """Replace calls of the model's own functions by their bodies."""
    if graph.functions:
        take_model(graph, onnx.inliner.inline_local_functions(write_model(graph, is_structural)))
        graph.functions = []


def simplify(graph: Graph) -> None:
    """Fold and deduplicate with onnxsim; a model it cannot handle stays as it is."""
    import onnxsim  # costs 2 s where torch is installed, which it imports

    before = write_model(graph, is_structural)
    try:
        model, _ = onnxsim.simplify(
            before,
            skipped_optimizers=[*SKIPPED, *([_UNIT] if _has_bfloat16(graph) else [])],
            tensor_size_threshold=FOLDED_LIMIT,
            skip_constant_folding=_has_long_lines(graph),
        )
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        logger.info("onnxsim: left the model as it is: %s", error)
        return
    if _interface(before, graph) != _interface(model, graph):
        logger.info("onnxsim: changed the inputs or outputs, so its result is not used")
        return
    take_model(graph, model)


def _has_bfloat16(graph: Graph) -> bool:
    """Say whether anything is one, or is cast to one, of what may become a constant."""
    known = (*graph.constants.values(), *graph.types.values())
    return any(each.dtype == numpy_dtype("bfloat16") for each in known)


def _has_long_lines(graph: Graph) -> bool:
    """Say whether onnxsim would follow the elements of a long value of one axis, one by one."""
    shapes = [known.shape for known in graph.types.values() if known.static]
    return any(len(shape) == 1 and shape[0] > LONG_LINE for shape in shapes)


def _interface(model: onnx.ModelProto, graph: Graph) -> tuple[list[str], list[str]]:
    inputs = [v.name for v in model.graph.input if v.name not in graph.constants]
    return inputs, [v.name for v in model.graph.output]

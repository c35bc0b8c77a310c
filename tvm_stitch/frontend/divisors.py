"""Refuse integer divisions by a constant zero, which no run could get past."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph
from tvm_stitch.frontend.relax_graph.values import Values, op_name

_OF_RELAX = ("relax.divide", "relax.floor_divide", "relax.mod", "relax.floor_mod")


def check_divisor(graph: Graph, node: onnx.NodeProto, given: str) -> None:
    """Raise StitchError if the node, `given`, divides integers by a constant with a zero."""
    if node.op_type in ("Div", "Mod") and not node.domain:
        _refuse(graph.constant(node, 1), given)


def check_divisions(values: Values, given: str) -> None:
    """Raise StitchError if a call does so."""
    for value in values.bindings.values():
        if op_name(value) in _OF_RELAX:
            _refuse(values.integers(value.args[1]), f"{given}, {op_name(value)}")


def _refuse(divisor: np.ndarray | None, given: str) -> None:
    if divisor is not None and divisor.dtype.kind in "iu" and not divisor.all():
        raise StitchError(given, "it divides integers by a constant 0", "export the model again")

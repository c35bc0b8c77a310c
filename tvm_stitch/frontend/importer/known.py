"""Which operators have a converter, and which ONNX itself defines by others."""

from __future__ import annotations

import onnx
from tvm.relax.frontend.onnx import onnx_frontend

from tvm_stitch.frontend.importer.converters import CONVERTERS
from tvm_stitch.frontend.onnx_graph.graph import DEFAULT_DOMAINS, OWN_DOMAIN

# Converters whose name means another operator in ONNX's own domain, or has none there.
NOT_ONNX = {"AllClassNMS", "Attention", "BiasGelu", "EmbedLayerNormalization", "FastGelu",
            "MatMulInteger16", "SkipLayerNormalization"}  # fmt: skip


def has_converter(node: onnx.NodeProto) -> bool:
    """Say whether TVM's importer has this operator under this meaning."""
    known = onnx_frontend._get_convert_map()
    has = node.op_type in CONVERTERS or (node.op_type in known and node.op_type not in NOT_ONNX)
    return domain_of(node) in ("", OWN_DOMAIN) and has


def why_not(node: onnx.NodeProto) -> str:
    """Say why a node's converter does not serve it, "" if it does."""
    if _domain_is_own(node) and node.op_type == "NonMaxSuppression":
        return "how many boxes it leaves depends on data"
    if _domain_is_own(node) and node.op_type == "RoiAlign":
        modes = {a.s for a in node.attribute if a.name == "mode"}
        # TVM takes the largest of the averages, ONNX that of the weighted corners.
        return "mode max is not supported" if b"max" in modes else ""
    return ""


def _domain_is_own(node: onnx.NodeProto) -> bool:
    return not domain_of(node)


def has_body(node: onnx.NodeProto, opset: int) -> bool:
    """Say whether ONNX itself defines the operator as a function of others."""
    if domain_of(node) or not onnx.defs.has(node.op_type, opset):
        return False
    schema = onnx.defs.get_schema(node.op_type, opset)
    return schema.has_function or schema.has_context_dependent_function


def domain_of(node: onnx.NodeProto) -> str:
    """Return a node's domain, ONNX's own as ""."""
    return "" if node.domain in DEFAULT_DOMAINS else node.domain

"""Which operators the importer takes, checked before any work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.importer.known import domain_of, has_body, has_converter
from tvm_stitch.frontend.onnx_graph.graph import Graph, bodies, label
from tvm_stitch.frontend.rewrites import REWRITTEN_OPS
from tvm_stitch.frontend.segments import OR_LEAVE

OLDEST_OPSET = 1
_WITH_BODIES = {("", "If"), ("", "Loop"), ("", "Scan")}
# Operators that have a result only where all of their operands are known.
FOLDED_OPS = {("", "MelWeightMatrix")}


def check_operators(graph: Graph, given: object, leaves: bool = False) -> None:
    """Raise StitchError for an operator set that is too old or new, or naming all unknown ops.

    Each with its first node, unless those leave the model, for ONNX Runtime.
    """
    newest = onnx.defs.onnx_opset_version()
    if "" not in graph.opsets or not OLDEST_OPSET <= graph.opset <= newest:
        raise StitchError(
            given,
            f"opset {graph.opsets.get('')} is outside {OLDEST_OPSET} to {newest}",
            "convert the model with onnx.version_converter",
        )
    for domain, version in graph.opsets.items():
        if not 0 < version < 1 << 31:
            raise StitchError(given, f"{domain!r} has opset {version}", "export the model again")
    functions = {(function.domain, function.name) for function in graph.functions}
    unknown: dict[tuple[str, str], list[onnx.NodeProto]] = {}
    for node in () if leaves else _all_nodes(graph.nodes):
        kind = (node.domain, node.op_type)
        if kind not in functions and (not _known(node, graph.opset) or _is_empty_optional(node)):
            unknown.setdefault(kind, []).append(node)
    if unknown:
        named = ", ".join(_named(*unknown[kind]) for kind in sorted(unknown))
        raise StitchError(
            given,
            f"unsupported operators: {named}",
            f"replace them by other ONNX operators, {OR_LEAVE}",
        )


def _named(first: onnx.NodeProto, *others: onnx.NodeProto) -> str:
    return label(first) + (f" and {len(others)} more" if others else "")


def _known(node: onnx.NodeProto, opset: int) -> bool:
    return (
        has_converter(node)
        or has_body(node, opset)
        or (domain_of(node), node.op_type) in {*REWRITTEN_OPS, *FOLDED_OPS, *_WITH_BODIES}
    )


def _is_empty_optional(node: onnx.NodeProto) -> bool:
    """Say whether a node makes an optional of nothing, which has no type in Relax."""
    return node.op_type == "Optional" and not node.input


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for body in bodies(node):
            yield from _all_nodes(body.node)

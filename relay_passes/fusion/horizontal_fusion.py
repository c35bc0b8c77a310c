"""Products that read one tensor, side by side in one kernel.

The projections to queries, keys and values read the same rows. As one product of three weights its
result would be cut apart again; as three phases of one parallel region, with no barrier between
them, each keeps its own epilogue and layout (kernel packing, FusionStitching, section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from tir_schedules.analysis.kernel_facts import COMPUTE
from tir_schedules.kernel_ir.expr import Tensor

from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph, OpNode
from .merge_groups import union_of


def siblings(graph: OpGraph, home: dict[OpNode, Group], cache_bytes: int) -> Iterator[list[OpNode]]:
    """Return the products that read one tensor and of which none waits for another.

    A result is made no earlier than would leave it in a cache of that size for who reads it: a
    decoder's layers all read the encoder, one after the other.
    """
    readers: dict[Tensor, list[OpNode]] = {}
    for node in graph.nodes:
        if node.op_class == COMPUTE and refuse_node(node) is None:
            for tensor in dict.fromkeys(node.inputs):
                readers.setdefault(tensor, []).append(node)
    for products in readers.values():
        left = products
        while len(left) > 1:
            family = _family(left, graph, home, cache_bytes)
            if len(family) > 1:
                yield family
            left = [p for p in left if not any(p is f for f in family)]


def _family(
    products: list[OpNode], graph: OpGraph, home: dict[OpNode, Group], cache_bytes: int
) -> list[OpNode]:
    """Return the first product with those that may stand beside it."""
    family = products[:1]
    for product in products[1:]:
        if _bytes_between(family, product, graph, home) > cache_bytes:
            break
        if union_of([*family, product], home) is not None:
            family.append(product)
    return family


def _bytes_between(
    family: list[OpNode], product: OpNode, graph: OpGraph, home: dict[OpNode, Group]
) -> int:
    """Return the bytes that other ops touch from the first of a family to one more product."""
    mine = {home[n] for n in (*family, product)}
    others = graph.nodes[family[0].index : product.index]
    touched = {t: t.bytes for n in others if home[n] not in mine for t in (*n.inputs, *n.outputs)}
    return sum(touched.values())

"""What a plan leaves undone: contiguous loops outside lanes, products outside register tiles."""

from __future__ import annotations

from ...analysis.kernel_facts import is_large_contraction
from ...device import LINE_BYTES, CpuDevice
from ...kernel_ir.expr import dtype_bytes
from ..cost.beyond_cache import streaming_inputs
from ..facts.padding import bounds_of, padding_of
from ..facts.products.register_tile import register_tile
from ..facts.shapes import SHAPES
from ..plan.kernel_plan import LoopNest, Phase, Plan


def scalar_loops(plan: Plan) -> list[LoopNest]:
    """Return nests that walk a contiguous axis of 16 or more one element at a time."""
    return [
        g for p in plan.phases if not p.combine for g in p.nests() if _is_scalar(g, p)
    ]  # fmt: skip


def untiled_products(plan: Plan) -> list[str]:
    """Return the names of large products and convolutions that run without a register tile."""
    nests = (g for p in plan.phases for g in p.nests() if not g.is_product)
    return [n.stage.name for g in nests for n in g.nodes if is_large_contraction(n.stage)]


def short_depths(plan: Plan) -> list[tuple[str, int]]:
    """Return register tiles whose depth is cut into short runs, by another product's panels.

    A run of 8 spends as much on its loops as on its sums.
    """
    found = []
    for group in (g for p in plan.phases for g in p.nests() if g.is_product):
        (node,) = group.nodes
        *others, last = (d for d in group.dims if d in node.reduced)
        if others and last.extent < SHAPES.scalar:
            found.append((node.stage.name, last.extent))
    return found


def streaming_weights(plan: Plan, device: CpuDevice) -> list[str]:
    """Return products all whose weights, one a point of a batch, stream past each of many tiles.

    Those of inputs beyond L2; a tile that takes some columns of them reads those alone.
    """
    found, large = [], streaming_inputs(plan.space.kernel, device)
    for phase in plan.phases:
        for group in phase.products() if phase.tiles() > 1 else ():
            (node,) = group.nodes
            tile = register_tile(node)
            inside = any(a in group.dims for a in tile.batch)
            whole = all(tile.weight.stride(a) == 0 for a in phase.tile)
            if inside and whole and any(t is tile.weight.tensor for t in large):
                found.append(node.stage.name)
    return found


def strided_depths(plan: Plan) -> list[str]:
    """Return products of which each step of the sum reads another line of the scalar operand."""
    found = []
    for group in (g for p in plan.phases for g in p.products()):
        (node,) = group.nodes
        moving = register_tile(node).moving
        *_, last = (d for d in group.dims if d in node.reduced)
        stride = moving.stride(last) or 0
        if abs(stride) * dtype_bytes(moving.tensor.dtype) >= LINE_BYTES:
            found.append(node.stage.name)
    return found


def guarded_windows(plan: Plan) -> list[str]:
    """Return padded sums whose padding no loop settles: each point asks where it is."""
    return [
        node.stage.name
        for phase in plan.phases
        for group in phase.groups
        for node in group.nodes
        if bounds_of(node) is not None and padding_of(group, phase) is None
    ]


def windows_of_products(plan: Plan) -> list[str]:
    """Return padded windows over what a product makes: each tap computes its epilogue anew."""
    return [
        node.stage.name
        for phase in plan.phases
        if any(group.is_product for group in phase.groups)
        for group in phase.groups
        if group.window is not None
        for node in group.nodes
        if bounds_of(node) is not None
    ]


def _is_scalar(group: LoopNest, phase: Phase) -> bool:
    if group.lanes > 1 or not group.dims:
        return False
    for dim in group.dims:
        if phase.inner_extent(dim) < SHAPES.scalar:
            continue
        accesses = [a for n in group.nodes for a in (n.store, *n.reads.values())]
        if any(a.stride(dim) == 1 for a in accesses):
            return True
    return False

"""Sums in parts, one a block, that a later launch adds up: rfactor, as a rewrite of stages.

rewrite: out[i] = sum_k f(i, k)
      -> part[p, i] = sum_k f(i, p * size + k); out[i] = sum_p part[p, i]
The last part of an axis that is no whole number of them adds nothing where the axis ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...analysis.iteration_space import Edge, Node, Space
from ...kernel_ir.expr import Axis, AxisRef, Expr, Load, Op
from ...kernel_ir.stage import Kernel, Reduction, Stage, substitute_axes
from ..plan.decisions import PartDecisions
from ..plan.parts import Parts
from .centred_parts import CentredParts
from .centred_rows import centred_rows
from .cut import Cut
from .given_away import given_away
from .scaled_parts import in_scaled_parts
from .scaled_rows import scaled_rows


def in_parts(kernel: Kernel, parts: Sequence[PartDecisions]) -> Kernel:
    """Return the kernel with some sums in parts, and with each those that `followers` has of it."""
    chosen = {kernel.stages[part.stage]: part for part in parts}
    rows = {stage: row for stage, row in scaled_rows(kernel).items() if stage in chosen}
    follow = {s for each, sums in followers(kernel).items() if each in chosen for s in sums}
    made = kernel
    for stage, row in rows.items():
        made = in_scaled_parts(made, row, chosen[stage].count)
    stages: list[Stage] = []
    squares: dict[Stage, list[Stage]] = {}
    for stage in made.stages:
        alone = stage in chosen and stage not in rows and stage not in follow
        if not alone:
            stages += squares.get(stage, [stage])
            continue
        cut = Cut.into(stage.reduced[chosen[stage].axis].extent, chosen[stage].count)
        *first, whole = _factored(stage, chosen[stage].axis, cut)
        stages += first
        if about := centred_rows(kernel).get(stage):
            centred = CentredParts(stage, first[-1].out, chosen[stage].axis, cut)
            stages.append(centred.mean())
            squares |= {square.stage: centred.squares(square) for square in about}
        stages.append(whole)
    return replace(made, stages=tuple(stages))


def followers(kernel: Kernel) -> dict[Stage, tuple[Stage, ...]]:
    """Return the sums that are in parts if another stage is: of exps, by the largest element of
    their row, and of squares, by the total that they are about.
    """
    found = {stage: row.sums for stage, row in scaled_rows(kernel).items()}
    for total, squares in centred_rows(kernel).items():
        found[total] = tuple(square.stage for square in squares)
    return found


def _factored(stage: Stage, along: int, cut: Cut) -> list[Stage]:
    axis, rule = stage.reduced[along], stage.reduction
    part, inner = Axis(f"{axis.name}_part", cut.count), Axis(axis.name, cut.size, is_reduce=True)
    value = substitute_axes(stage.value, {axis: cut.place(part, inner)})
    value = _guarded(value, cut, part, inner, rule)
    made = Parts(f"{stage.out.name}_parts", (part.extent, *stage.out.shape), stage.out.dtype)
    axes = tuple(inner if a is axis else a for a in stage.axes)
    first = Stage(
        f"{stage.name}_parts", made, (part, *axes), (AxisRef(part), *stage.out_index), value, rule
    )
    own = {a: Axis(a.name, a.extent) for a in stage.spatial}
    places = {a: AxisRef(b) for a, b in own.items()}
    added = Axis(part.name, part.extent, is_reduce=True)
    index = tuple(substitute_axes(i, places) for i in stage.out_index)
    load = Load(made, (AxisRef(added), *index))
    second = Stage(stage.name, stage.out, (*own.values(), added), index, load, rule)
    return [*given_away(first), second]


def _guarded(value: Expr, cut: Cut, part: Axis, inner: Axis, rule: Reduction) -> Expr:
    """Return what a part adds up: of products each factor ends with the axis, as a tile of it."""
    if rule.kind == "sum" and isinstance(value, Op) and value.name == "Mul":
        factors = tuple(cut.guarded(factor, part, inner, 0.0) for factor in value.args)
        return Op("Mul", factors, value.dtype)
    return cut.guarded(value, part, inner, rule.start(value.dtype))


def launches_of(space: Space) -> list[list[Node]]:
    """Return the nodes of each launch: what puts parts together waits for all of them."""
    level: dict[Node, int] = {}
    for node in space.nodes:
        edges = space.incoming.get(node, ())
        level[node] = max((level[e.producer] + _waits(e) for e in edges), default=0)
    count = max(level.values(), default=0) + 1
    return [[n for n in space.nodes if level[n] == number] for number in range(count)]


def _waits(edge: Edge) -> bool:
    """Return whether a node reads other parts than the one that it is a part of itself."""
    made, reader = edge.producer, edge.consumer
    own = set(reader.spatial) - edge.unaligned
    return is_partial(made) and not set(made.spatial) <= own


def separate(space: Space, nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the parts of a launch of which none reads another, each in order."""
    inside, home = set(nodes), {node: {node} for node in nodes}
    for edge in space.edges:
        if edge.producer in inside and edge.consumer in inside:
            joined = home[edge.producer] | home[edge.consumer]
            home.update(dict.fromkeys(joined, joined))
    parts = {id(part): part for part in home.values()}
    return [[node for node in nodes if node in part] for part in parts.values()]


def is_partial(node: Node) -> bool:
    """Return whether a node makes parts of sums."""
    return isinstance(node.stage.out, Parts)


def space_of(space: Space, nodes: Sequence[Node]) -> Space:
    """Return the part of a kernel that one launch computes: what others make it is given."""
    inside = set(nodes)
    edges: list[Edge] = [e for e in space.edges if e.consumer in inside and e.producer in inside]
    crossing = (e for e in space.edges if (e.producer in inside) != (e.consumer in inside))
    made = {n.stage.out for n in nodes}
    tensors = dict.fromkeys((*space.kernel.params, *(e.producer.stage.out for e in crossing)))
    outputs = tuple(t for t in tensors if t in made)
    stages = tuple(n.stage for n in nodes)
    kernel = replace(space.kernel, params=tuple(tensors), outputs=outputs, stages=stages)
    return Space(kernel, tuple(nodes), tuple(edges))

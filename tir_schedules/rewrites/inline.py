"""Decide which stages live on as sub-roots, and inline the rest into their consumers.

A sub-root is materialised once (register, tile buffer or output); everything else is recomputed
where it is read. Source: FusionStitching (arXiv 2009.10924) section 5, sub-roots; here a reduction,
an expensive op that would be evaluated more than once, and a light op whose recomputation would
cost more than a tile buffer.
"""

from __future__ import annotations

import functools

from ..analysis.kernel_facts import is_large_contraction
from ..analysis.limits import LIMITS
from ..kernel_ir.cost import is_data_dependent
from ..kernel_ir.expr import (
    Axis,
    AxisRef,
    Const,
    Expr,
    Load,
    Op,
    Tensor,
    transform_loads,
    tree_size,
    walk,
)
from ..kernel_ir.index import canonical, normalize
from ..kernel_ir.stage import Kernel, Stage, drop_dead, substitute_axes

# Nodes of a value written out. A chain x + x, or Select(c, x, x), doubles it with each link; the
# largest of the zoo, ResNet-50's, has 846.
_MOST_NODES = 2048


def inline_stages(kernel: Kernel) -> Kernel:
    """Return the kernel with only sub-roots and outputs left as stages."""
    live = drop_dead([_pin_unit_indices(s) for s in kernel.stages], kernel.outputs)
    params = set(kernel.params)
    stages = {s.out: s for s in live}
    products = {s.out for s in live if is_large_contraction(s)}
    most = {s.out: max(_MOST_NODES, 2 * s.value.size) for s in live}
    for made in list(stages):
        stage = stages[made]
        if made in params or stage.reduction is not None or not is_identity(stage):
            continue
        readers = [s for s in stages.values() if s is not stage and s.reads(stage.out)]
        if _is_epilogue(stage, readers, products) or not _should_inline(stage, readers):
            continue
        inlined = _inlined(stage, readers, most)
        if inlined is None:
            continue
        for reader in inlined:
            stages[reader.out] = reader
        del stages[made]
    final = tuple(map(_canonical_loads, stages.values()))
    return Kernel(kernel.name, kernel.params, kernel.outputs, final)


def _inlined(stage: Stage, readers: list[Stage], most: dict[Tensor, int]) -> list[Stage] | None:
    """Return the readers with the stage in them, None if one would have more nodes than it may."""
    size, made = stage.value.size, []
    for reader in readers:
        limit = most[reader.out]
        # The indices that it is read at only add to that: what is too large is not even built.
        if tree_size(reader.value, stage.out, size) > limit:
            return None
        made.append(inline_into(reader, stage))
        if made[-1].value.size > limit:
            return None
    return made


@functools.lru_cache(maxsize=1 << 12)
def _pin_unit_indices(stage: Stage) -> Stage:
    """Replace whatever indexes a dimension of one element, a gathered number even, by 0."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        pairs = zip(node.index, node.tensor.shape, strict=True)
        index = [transform_loads(i, rule) if d != 1 else Const(0, "int64") for i, d in pairs]
        return Load(node.tensor, tuple(index))

    value = transform_loads(stage.value, rule)
    return Stage(stage.name, stage.out, stage.axes, stage.out_index, value, stage.reduction)


@functools.lru_cache(maxsize=1 << 13)
def is_identity(stage: Stage) -> bool:
    """Return whether `out[i, j, ..] = f(i, j, ..)`: each dimension is an axis of its own or 0."""
    used: set[Axis] = set()
    for dim, expr in zip(stage.out.shape, stage.out_index, strict=True):
        linear = normalize(expr)
        if dim == 1 and not linear.terms and linear.const == 0:
            continue
        if linear.const or len(linear.terms) != 1:
            return False
        term = linear.terms[0]
        if not isinstance(term.base, Axis) or (term.scale, term.low, term.extent) != (1, 1, dim):
            return False
        if term.base in used:
            return False
        used.add(term.base)
    return True


def _should_inline(stage: Stage, readers: list[Stage]) -> bool:
    heavy, light = stage.expensive, stage.light
    uses = [(r, ld) for r in readers for ld in r.loads() if ld.tensor is stage.out]
    evaluations = sum(r.domain for r, _ in uses)
    if any(r.reduction is not None and _is_window(ld) for r, ld in uses) and _is_guarded(stage):
        return False
    if stage.domain == 1:
        return True  # the loop nests hoist it to where a tile begins
    if heavy:
        return evaluations <= stage.domain and len(uses) == 1
    if light == 0:
        return not any(is_large_contraction(r) and _turns(r, ld, stage) for r, ld in uses)
    if any(is_large_contraction(r) for r in readers):
        return False  # a register tile reads its operands once for each row or strip of lanes
    if any(_per_row(r, ld) for r, ld in uses):
        return False
    return len(uses) == 1 or (light <= LIMITS.recompute_ops and len(_big_loads(stage)) <= 1)


def _is_epilogue(stage: Stage, readers: list[Stage], products: set[Tensor]) -> bool:
    """Return whether several stages read what a product's registers can be made into once."""
    return len(readers) > 1 and any(ld.tensor in products for ld in stage.loads())


def _turns(reader: Stage, load: Load, copy: Stage) -> bool:
    """Return whether a product reads along its lanes what the copy reads across them."""
    lanes = [a for a in reader.spatial if a.extent > 1][-1:]
    if not lanes or not load.index or not _is_along(load.index[-1], lanes[0]):
        return False
    return not any(
        ld.index and _is_along(ld.index[-1], lanes[0])
        for ld in inline_into(reader, copy).loads()
        if any(ld.tensor is source.tensor for source in copy.loads())
    )


def _is_along(index: Expr, axis: Axis) -> bool:
    """Return whether an index goes in steps of one with the axis."""
    return any(t.base is axis and t.scale == t.low == 1 for t in normalize(index).terms)


@functools.lru_cache(maxsize=1 << 13)
def _per_row(reader: Stage, load: Load) -> bool:
    """Return whether the value is the same all along the reader's fastest axis."""
    real = [a for a in reader.axes if a.extent > 1]
    if not real:
        return False
    fastest = real[-1]
    nodes = (node for index in load.index for node in walk(index))
    return not any(isinstance(n, AxisRef) and n.axis is fastest for n in nodes)


def _big_loads(stage: Stage) -> list[Load]:
    return [ld for ld in stage.loads() if ld.tensor.elements * 4 > stage.domain]


def _is_window(load: Load) -> bool:
    """Return whether some dimension is indexed by several axes (a sliding window)."""
    return any(len(normalize(i).terms) > 1 for i in load.index)


def _is_guarded(stage: Stage) -> bool:
    return any(
        isinstance(n, Op) and n.name in ("call:tirx.if_then_else", "Select")
        for n in walk(stage.value)
    )


@functools.lru_cache(maxsize=1 << 13)
def inline_into(reader: Stage, producer: Stage) -> Stage:
    """Return the stage with what it reads of another, an identity, computed in place."""
    axes: list[Axis | None] = []
    for expr in producer.out_index:
        terms = normalize(expr).terms
        base = terms[0].base if terms else None
        axes.append(base if isinstance(base, Axis) else None)
    # An axis of one element shows in no index, but the value may still name it.
    single: dict[Axis, Expr] = {a: Const(0, "int64") for a in producer.axes if a.extent == 1}

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.tensor is not producer.out:
            return None
        index = [transform_loads(i, rule) for i in node.index]
        values = {a: i for a, i in zip(axes, index, strict=True) if a is not None}
        return substitute_axes(producer.value, {**single, **values})

    return Stage(
        reader.name,
        reader.out,
        reader.axes,
        reader.out_index,
        transform_loads(reader.value, rule),
        reader.reduction,
    )


@functools.lru_cache(maxsize=1 << 13)
def _canonical_loads(stage: Stage) -> Stage:
    """Normalise indices; those read from a tensor are clamped, so that none leaves its buffer."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        index = []
        for expr, extent in zip(node.index, node.tensor.shape, strict=True):
            inner = canonical(transform_loads(expr, rule))
            index.append(_clamp(inner, extent) if is_data_dependent(inner) else inner)
        return Load(node.tensor, tuple(index))

    value = transform_loads(stage.value, rule)
    index = tuple(canonical(i) for i in stage.out_index)
    return Stage(stage.name, stage.out, stage.axes, index, value, stage.reduction)


def _clamp(index: Expr, extent: int) -> Expr:
    last = Op("Min", (index, Const(extent - 1, index.dtype)), index.dtype)
    return Op("Max", (last, Const(0, index.dtype)), index.dtype)

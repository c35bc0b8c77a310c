"""Attention by what a kernel computes: products on both sides of a softmax along their common axis.

Nothing is known by name: layouts, scales, masks and casts are whatever expressions stand between.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.atomize import atomize
from ..analysis.coalesce import coalesce
from ..analysis.iteration_space import Access, Atom, Node, Space
from ..analysis.kernel_facts import is_contraction
from ..kernel_ir.expr import Expr, Load, Op, loads
from ..kernel_ir.stage import Kernel, Stage, drop_dead
from ..rewrites.inline import inline_into, is_identity
from ..rewrites.mark_signs import mark_signs
from ..rewrites.softmax import softmax_bound
from ..rewrites.widen import widen

_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Attention:
    """`values = sum over key of softmax(logit(scores)) * value`, `scores = sum of query * keys`.

    `result` is what stores it, `values` itself where nothing stands behind. Over `batch` and `row`
    all move but for broadcasts, over `key` the scores and the values' sum, over `column` the values
    alone, over `depth` the scores' sum alone.
    """

    space: Space
    scores: Node
    largest: Node
    values: Node
    result: Node
    logit: Expr  # of `largest`: what the softmax is of
    query: Expr
    keys: Expr
    value: Load
    batch: tuple[Atom, ...]
    row: Atom
    key: Atom
    column: Atom
    depth: Atom

    @property
    def dtype(self) -> str:
        return self.values.stage.out.dtype


def find_attention(kernel: Kernel) -> Attention | str:
    """Return the attention that a kernel is, or why it is none that the streaming form computes."""
    if sum(map(is_contraction, kernel.stages)) != 2:
        return "not two products"
    if not any(s.reduction and s.reduction.kind == "max" for s in kernel.stages):
        return "no softmax"
    if len(kernel.outputs) != 1:
        return "several results"
    inlined = mark_signs(_all_inlined(widen(kernel)))
    stages = _stages(inlined)
    if isinstance(stages, str):
        return stages
    space = coalesce(atomize(inlined))
    if any(e.unaligned for e in space.edges):
        return "a stage reads another at any position"
    if any(a.opaque or a.opaque_atoms for n in space.nodes for a in _accesses(n)):
        return "an index depends on data"
    return _in_atoms(space, *stages)


def _all_inlined(kernel: Kernel) -> Kernel:
    """Return the kernel with reductions and results alone left as stages."""
    stages = drop_dead(list(kernel.stages), kernel.outputs)
    results = set(kernel.outputs)
    position = 0
    while position < len(stages):
        stage = stages[position]
        if stage.reduction is not None or stage.out in results or not is_identity(stage):
            position += 1
            continue
        del stages[position]
        stages = [inline_into(s, stage) if s.reads(stage.out) else s for s in stages]
    return Kernel(kernel.name, kernel.params, kernel.outputs, tuple(stages))


def _stages(kernel: Kernel) -> tuple[Stage, Stage, Stage, Stage, tuple[Expr, ...]] | str:
    """Return the stages by their parts, and the expressions of query, keys and value."""
    rules = [s.reduction.kind if s.reduction is not None else "" for s in kernel.stages]
    if rules not in (["sum", "max", "sum", "sum"], ["sum", "max", "sum", "sum", ""]):
        return f"reductions are {rules}"
    scores, largest, total, values = kernel.stages[:4]
    if not is_contraction(scores) or not _multiplies(scores.value):
        return "the first stage is no product"
    if not _multiplies(values.value):
        return "the last sum is no product"
    parts = sorted(values.value.args, key=lambda arg: isinstance(arg, Load))
    weight, value = parts
    if not isinstance(value, Load):
        return "the values are computed"
    bound = softmax_bound(weight, total)
    if bound is None or bound.tensor is not largest.out:
        return "the weights are no softmax of the scores"
    made = {s.out for s in kernel.stages}
    read = {ld for ld in largest.loads() if ld.tensor in made}
    if {ld.tensor for ld in read} != {scores.out} or len(read) != 1:
        return "the softmax is not of one score"
    if any(ld.tensor in made for ld in (*scores.loads(), value)):
        return "a product reads a result"
    if any(s.out.dtype not in _DTYPES or s.out.dtype != values.out.dtype for s in kernel.stages):
        return "dtypes differ or are no float32 or float64"
    result = kernel.stages[-1]
    behind = {ld.tensor for ld in result.loads()} & made
    if result is not values and behind != {values.out}:
        return "the result is not of the values alone"
    left, right = scores.value.args
    return scores, largest, values, result, (left, right, value)


def _multiplies(value: Expr) -> bool:
    return isinstance(value, Op) and value.name == "Mul"


def _in_atoms(
    space: Space,
    scores: Stage,
    largest: Stage,
    values: Stage,
    result: Stage,
    operands: tuple[Expr, Expr, Load],
) -> Attention | str:
    """Return the attention with its axes told apart by which operands move along them."""
    nodes = {n.stage: n for n in space.nodes}
    first, most, last, stored = (nodes[s] for s in (scores, largest, values, result))
    columns = [a for a in last.spatial if a not in first.spatial]
    axes = (most.reduced, columns, first.reduced)
    if any(len(atoms) != 1 for atoms in axes):
        return "keys, columns or depth are not one axis"
    (key,), (column,), (depth,) = axes
    if last.reduced != (key,) or set(most.spatial) != set(first.spatial) - {key}:
        return "the softmax is not along what the values are summed over"
    if set(stored.spatial) != set(last.spatial) or set(last.spatial) - {column} != set(
        most.spatial
    ):
        return "the result is of other axes"
    *sides, value = operands
    found = [(_row(q, k, first, key), q, k) for q, k in (sides, sides[::-1])]
    known = [each for each in found if each[0] is not None]
    if len(known) != 1 or last.reads[value].stride(known[0][0]) != 0:
        return "no axis of queries"
    row, query, keys = known[0]
    batch = tuple(a for a in most.spatial if a is not row)
    return Attention(
        space, first, most, last, stored, most.stage.value,
        query, keys, value, batch, row, key, column, depth,
    )  # fmt: skip


def _row(query: Expr, keys: Expr, scores: Node, key: Atom) -> Atom | None:
    """Return the longest axis that moves the query but not the keys, None if `key` moves it."""
    moving, along = (_strides(side, scores) for side in (query, keys))
    if key in moving or key not in along:
        return None
    rows = [a for a in scores.spatial if a in moving and a not in along]
    return max(rows, key=lambda a: a.extent, default=None)


def _strides(expr: Expr, node: Node) -> set[Atom]:
    """Return the atoms along which an expression moves."""
    accesses = [node.reads[load] for load in loads(expr)]
    return {a for access in accesses for a, stride in access.strides.items() if stride}


def _accesses(node: Node) -> list[Access]:
    return [node.store, *node.reads.values()]

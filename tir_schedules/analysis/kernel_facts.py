"""Per-kernel summaries and their composition: what fusion is judged on, with no TensorIR built."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tvm import tirx

from ..kernel_ir.alternatives import usual_way
from ..kernel_ir.expr import Expr, Load, Op, Tensor, Term, walk
from ..kernel_ir.index import normalize
from ..kernel_ir.parse import read_prim_func
from ..kernel_ir.stage import Kernel, Refusal, Stage, fresh_axes, rebind
from .limits import LIMITS
from .padded_sum import padded_sum

OPAQUE, COMPUTE, REDUCTION, INJECTIVE = "opaque", "compute-intensive", "reduction", "injective"
EXPENSIVE, LIGHT = "expensive element-wise", "light element-wise"


@dataclass(frozen=True)
class Part:
    """One call in a candidate group: its kernel, and a tensor for each parameter."""

    kernel: Kernel
    tensors: tuple[Tensor, ...]


def summarize(func: tirx.PrimFunc) -> Kernel | Refusal:
    """Return what the templates know of a PrimFunc; compute it once per distinct function."""
    kernel = read_prim_func(func)
    return kernel if isinstance(kernel, Refusal) else usual_way(kernel)


def compose(parts: list[Part], params: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Kernel:
    """Return the kernel that runs `parts` one after the other; shared tensors connect them."""
    stages = tuple(stage for part in parts for stage in _placed(part))
    return Kernel("group", params, outputs, stages)


@functools.lru_cache(maxsize=1 << 12)
def _placed(part: Part) -> tuple[Stage, ...]:
    """Return the stages of a call over axes of its own.

    They are the same for each candidate that holds the call, and so is what is made of them.
    """
    mapping = dict(zip(part.kernel.params, part.tensors, strict=True))
    for stage in part.kernel.stages:
        if stage.out not in mapping:
            mapping[stage.out] = Tensor(stage.out.name, stage.out.shape, stage.out.dtype)
    return tuple(rebind(fresh_axes(stage), mapping) for stage in part.kernel.stages)


def op_class(kernel: Kernel | Refusal) -> str:
    """Return FusionStitching's class of a kernel by its stages."""
    if isinstance(kernel, Refusal):
        return OPAQUE
    if any(is_large_contraction(s) for s in kernel.stages):
        return COMPUTE
    if any(s.reduction for s in kernel.stages):
        return REDUCTION
    if any(s.expensive for s in kernel.stages):
        return EXPENSIVE
    return LIGHT if all(_one_to_one(s) for s in kernel.stages) else INJECTIVE


@functools.lru_cache(maxsize=1 << 12)
def is_contraction(stage: Stage) -> bool:
    """Return whether the stage sums products of two tensors over different spatial axes."""
    if stage.reduction is None or stage.reduction.kind != "sum":
        return False
    inside = padded_sum(stage)
    value = stage.value if inside is None else inside[0]
    while isinstance(value, Op) and value.name == "Cast":
        value = value.args[0]
    if not isinstance(value, Op) or value.name != "Mul":
        return False
    left, right = (_spatial_terms(arg, stage) for arg in value.args)
    return _has_own(left, right) and _has_own(right, left)


def is_large_contraction(stage: Stage) -> bool:
    return stage.domain >= LIMITS.large_contraction and is_contraction(stage)


def _spatial_terms(expr: Expr, stage: Stage) -> list[Term]:
    """Return the digits of spatial axes that an operand's loads are indexed by."""
    spatial = {a for a in stage.spatial if a.extent > 1}
    loads = (node for node in walk(expr) if isinstance(node, Load))
    terms = (t for load in loads for index in load.index for t in normalize(index).terms)
    return [t for t in terms if t.base in spatial]


def _has_own(terms: list[Term], others: list[Term]) -> bool:
    """Return whether an operand moves along digits that the other does not move along."""
    return not all(any(_covers(other, term) for other in others) for term in terms)


def _covers(other: Term, term: Term) -> bool:
    if other.base is not term.base or other.low > term.low:
        return False
    return term.low * term.extent <= other.low * other.extent


def _one_to_one(stage: Stage) -> bool:
    """Return whether every load is at the stored position, or broadcast from it."""
    home = [normalize(i) for i in stage.out_index]
    return all(
        all(not normalize(i).terms or normalize(i) in home for i in load.index)
        for load in stage.loads()
    )

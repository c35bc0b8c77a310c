"""Per-kernel summaries and their composition: what fusion is judged on, with no TensorIR built."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from .expr import Expr, Load, Op, Tensor, walk
from .index import normalize
from .parse import read_prim_func
from .stage import Kernel, Refusal, Stage, fresh_axes, rebind

LARGE_CONTRACTION = 1 << 18  # multiply-adds from which a product is worth a kernel of its own

OPAQUE, COMPUTE, REDUCTION, INJECTIVE = "opaque", "compute-intensive", "reduction", "injective"
EXPENSIVE, LIGHT = "expensive element-wise", "light element-wise"


@dataclass(frozen=True)
class Part:
    """One call in a candidate group: its kernel, and a tensor for each parameter."""

    kernel: Kernel
    tensors: tuple[Tensor, ...]


def summarize(func: tirx.PrimFunc) -> Kernel | Refusal:
    """Return what the templates know of a PrimFunc; compute it once per distinct function."""
    return read_prim_func(func)


def compose(parts: list[Part], params: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Kernel:
    """Return the kernel that runs `parts` one after the other; shared tensors connect them."""
    stages: list[Stage] = []
    for part in parts:
        mapping = {
            id(own): shared for own, shared in zip(part.kernel.params, part.tensors, strict=True)
        }
        for stage in part.kernel.stages:
            if id(stage.out) not in mapping:
                mapping[id(stage.out)] = Tensor(stage.out.name, stage.out.shape, stage.out.dtype)
        stages += [rebind(fresh_axes(stage), mapping) for stage in part.kernel.stages]
    return Kernel("group", params, outputs, tuple(stages))


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


def is_contraction(stage: Stage) -> bool:
    """Return whether the stage sums products of two tensors over different spatial axes."""
    value = stage.value
    while isinstance(value, Op) and value.name == "Cast":
        value = value.args[0]
    if stage.reduction is None or stage.reduction.kind != "sum":
        return False
    if not isinstance(value, Op) or value.name != "Mul":
        return False
    sides = [_spatial_axes(arg, stage) for arg in value.args]
    return bool(sides[0] - sides[1]) and bool(sides[1] - sides[0])


def is_large_contraction(stage: Stage) -> bool:
    return stage.domain >= LARGE_CONTRACTION and is_contraction(stage)


def _spatial_axes(expr: Expr, stage: Stage) -> set[int]:
    spatial = {id(a) for a in stage.spatial if a.extent > 1}
    found: set[int] = set()
    for node in walk(expr):
        if isinstance(node, Load):
            for index in node.index:
                found |= {id(t.base) for t in normalize(index).terms}
    return found & spatial


def _one_to_one(stage: Stage) -> bool:
    """Return whether every load is at the stored position, or broadcast from it."""
    home = [normalize(i) for i in stage.out_index]
    return all(
        all(not normalize(i).terms or normalize(i) in home for i in load.index)
        for load in stage.loads()
    )

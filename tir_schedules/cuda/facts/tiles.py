"""Operands of products as tiles of shared memory, a step of the sum at a time.

rewrite: c[i, j] = sum_k a(i, k) * b(k, j)
      -> ta[k, i] = a(i, k); tb[k, j] = b(k, j); c[i, j] = sum_k ta[k, i] * tb[k, j]
What an operand is made of (a cast, a padded image) is computed where its tile is filled.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from ...analysis.kernel_facts import is_large_contraction
from ...kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor, loads, walk
from ...kernel_ir.index import normalize
from ...kernel_ir.sharing import BRANCH
from ...kernel_ir.stage import Kernel, Stage, substitute_axes
from ...rewrites.inline import inline_into, is_identity
from ..plan.tile import Tile
from .halves import HALVES


def with_tiles(kernel: Kernel) -> Kernel:
    """Return the kernel with the operands of its large products as stages of their own."""
    given = set(kernel.inputs)
    rounds = all(tensor.dtype not in ("float32", "float64") for tensor in kernel.outputs)
    stages = [each for stage in kernel.stages for each in _tiled(stage, given, rounds)]
    inlined = _with_copies_inside(stages, kernel)
    return replace(kernel, stages=tuple(map(_narrow, inlined)))


def _narrow(stage: Stage) -> Stage:
    """Return a tile that is chosen of halves as they are, others as they come.

    rewrite: half(c ? float(x) : 0) -> c ? x : 0
    """
    value, half = stage.value, stage.out.dtype
    if not isinstance(stage.out, Tile) or half not in HALVES:
        return stage
    if not isinstance(value, Op) or value.name != "Cast" or not isinstance(value.args[0], Op):
        return stage
    chosen = value.args[0]
    if chosen.name != BRANCH:
        return stage
    condition, *ways = chosen.args
    narrow = [_as_half(way, half) for way in ways]
    if None in narrow:
        return stage
    return replace(stage, value=Op(BRANCH, (condition, *narrow), half, chosen.extra))


def _as_half(way: Expr, half: str) -> Expr | None:
    """Return what a float was widened of, None if it was not, or is a number but 0."""
    if isinstance(way, Const):
        return Const(way.value, half) if way.value == 0 else None
    widens = isinstance(way, Op) and way.name == "Cast" and way.args[0].dtype == half
    return way.args[0] if widens else None


def _with_copies_inside(stages: list[Stage], kernel: Kernel) -> list[Stage]:
    """Return the stages, a cheap one that only tiles or windows read, a padded image, inside those.

    Blocks of a window would need what others make of it.
    """
    for stage in list(stages):
        readers = [each for each in stages if each.reads(stage.out)]
        inside = readers and all(
            isinstance(each.out, Tile) or _slides(each, stage.out) for each in readers
        )
        if stage.out in kernel.params or stage.reduction is not None or not inside:
            continue
        if stage.expensive or not is_identity(stage) or isinstance(stage.out, Tile):
            continue
        made = {each: inline_into(each, stage) for each in readers}
        stages = [made.get(each, each) for each in stages if each is not stage]
    return stages


def _slides(stage: Stage, tensor: Tensor) -> bool:
    """Return whether a stage reads a tensor by windows: along a sum of axes."""
    indices = (index for load in stage.loads() if load.tensor is tensor for index in load.index)
    return any(
        sum(isinstance(term.base, Axis) for term in normalize(index).terms) > 1 for index in indices
    )


def is_tiled(stage: Stage) -> bool:
    """Return whether a stage adds up products of tiles."""
    return stage.reduction is not None and any(isinstance(ld.tensor, Tile) for ld in stage.loads())


def _tiled(stage: Stage, given: Set[Tensor], rounds: bool) -> list[Stage]:
    value = stage.value
    if not is_large_contraction(stage) or not isinstance(value, Op) or value.name != "Mul":
        return [stage]
    factors = [_stored(factor) for factor in value.args]
    if rounds:
        factors = _alike(factors, given)
    tiles = [_tile(stage, factor, f"{stage.name}_{n}") for n, factor in enumerate(factors)]
    if any(tile is None for tile in tiles):
        return [stage]
    read = []
    for tile, factor, as_read in zip(tiles, factors, value.args, strict=True):
        load = Load(tile.out, tuple(AxisRef(axis) for axis in _used(stage, factor)))
        read.append(load if factor is as_read else Op("Cast", (load,), as_read.dtype))
    product = Op("Mul", tuple(read), value.dtype, value.extra)
    return [*tiles, replace(stage, value=product)]


def _stored(factor: Expr) -> Expr:
    """Return what a tile keeps of an operand: what is widened where it is multiplied as it was."""
    if isinstance(factor, Op) and factor.name == "Cast" and factor.args[0].dtype in HALVES:
        return factor.args[0]
    return factor


def _alike(factors: list[Expr], given: Set[Tensor]) -> list[Expr]:
    """Return the operands of a product, what the kernel makes of halves rounded as the other is.

    Tensor cores multiply halves of one type. Between kernels of their own the operators would round
    it so; what is undivided in a softmax is 1 at the most. Floats that the kernel is given are not
    rounded, and nothing is in a kernel that leaves floats: a model that widens its halves wants to
    compute in them.
    """
    halves = {factor.dtype for factor in factors if factor.dtype in HALVES}
    if len(halves) != 1:
        return factors
    (half,) = halves
    return [
        Op("Cast", (factor,), half) if factor.dtype == "float32" and _is_made(factor, given)
        else factor
        for factor in factors
    ]  # fmt: skip


def _is_made(factor: Expr, given: Set[Tensor]) -> bool:
    """Return whether an operand reads what the kernel makes, and no float that it is given."""
    read = {load.tensor for load in loads(factor)}
    floats = (tensor for tensor in read & given if tensor.dtype not in HALVES)
    return bool(read - given) and not any(floats)


def _used(stage: Stage, factor: Expr) -> list[Axis]:
    """Return the axes that an operand depends on: those that are summed over first."""
    found = {n.axis for n in walk(factor) if isinstance(n, AxisRef)}
    ordered = (*stage.reduced, *stage.spatial)
    return [axis for axis in ordered if axis in found and axis.extent > 1]


def _tile(stage: Stage, factor: Expr, name: str) -> Stage | None:
    """Return the stage of an operand, None if it has no sum's axis or is used but once."""
    used = _used(stage, factor)
    real = [axis for axis in stage.axes if axis.extent > 1]
    if len(used) == len(real) or not any(axis.is_reduce for axis in used):
        return None
    own = {axis: Axis(axis.name, axis.extent) for axis in used}
    places = {axis: AxisRef(made) for axis, made in own.items()}
    out = Tile(name, tuple(axis.extent for axis in used), factor.dtype)
    value = substitute_axes(factor, places)
    return Stage(name, out, tuple(own.values()), tuple(places.values()), value)

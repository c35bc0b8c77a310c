"""Products by tensor cores: of halves, whole fragments, their results in shared memory."""

from __future__ import annotations

from ...device.cuda import WARP
from ...kernel_ir.expr import Load, Op
from ..facts.halves import HALVES
from ..plan.axes import FRAGMENT
from ..plan.fragments import Fragments, fragments_of
from ..plan.kernel_plan import Phase
from ..plan.nest import Nest
from ..plan.tile import Tile
from .illegal import Illegal


def refuse_fragments(nest: Nest, phase: Phase) -> None:
    """Check a nest that tensor cores compute. Raises: Illegal."""
    (node, *others), axis = nest.nodes, phase.serial_axis(nest)
    value = node.stage.value
    is_sum = node.stage.reduction is not None and node.stage.reduction.kind == "sum"
    if others or axis is None or not is_sum or not isinstance(value, Op) or value.name != "Mul":
        raise Illegal(f"{node.stage.name} is no product in steps")
    dtypes = {_half(factor) for factor in value.args}
    if len(dtypes) != 1 or None in dtypes or node.stage.out.dtype != "float32":
        raise Illegal(f"{node.stage.name} is no product of halves, added up in float32")
    if node.stage.out in phase.space.kernel.outputs:
        raise Illegal(f"{node.stage.name} leaves fragments for shared memory only")
    if axis.block % FRAGMENT:
        raise Illegal(f"steps of {axis.block} terms are no whole fragments")
    if any(not axis.has(atom) for atom in node.reduced):
        raise Illegal(f"{node.stage.name} is summed over other axes than steps go along")
    made = fragments_of(nest, phase)
    if not isinstance(made, Fragments):
        raise Illegal(made)
    if phase.threads != WARP * nest.warps[0] * nest.warps[1]:
        raise Illegal(f"{nest.warps} warps of {phase.threads} threads")


def _half(factor: Op) -> str | None:
    """Return the type of a tile's elements that a factor widens, None if it is none."""
    if not isinstance(factor, Op) or factor.name != "Cast":
        return None
    (load,) = factor.args
    of_tile = isinstance(load, Load) and isinstance(load.tensor, Tile)
    return load.dtype if of_tile and load.dtype in HALVES else None

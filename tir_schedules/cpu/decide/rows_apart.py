"""Rows of a recurrent step that share nothing but weights: each thread runs all steps of its own.

No thread waits for another then, nor reads what another has written; each reads all weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...analysis.iteration_space import Access, Atom, Space
from ...device import CpuDevice
from ...kernel_ir.expr import Tensor
from ..facts.memory.layout import cross_phase
from ..plan.forms import TOGETHER, Form
from ..plan.kernel_plan import Phase, Plan
from .loop_nests import group_loops
from .planner import tile_bytes_of

FORM = Form(cut=TOGETHER, products_meet=False)


def rows_apart(space: Space, states: Sequence[Tensor], device: CpuDevice) -> Plan | None:
    """Return the plan of a step whose tiles are rows of the states, None if there is none.

    `states` are what a step reads of the one before and what it leaves for the next.
    """
    row = _row(space, states)
    tiles = min(device.threads, row.extent) if row is not None else 1
    if tiles < 2:
        return None
    chunk = -(-row.extent // tiles)
    chunks = {row: chunk} if chunk > 1 else {}
    draft = Phase(tuple(space.nodes), (row,), chunks, ())
    groups = group_loops(draft.nodes, space, draft, device, FORM)
    phase = Phase(tuple(space.nodes), (row,), chunks, groups)
    crossing = cross_phase(space, [phase])
    inside = tile_bytes_of(phase, space, crossing)
    return Plan(
        space,
        (phase,),
        True,
        phase.tiles(),
        crossing,
        vector_bytes=device.vector_bytes,
        tile_bytes=inside,
    )


def keeps_rows(plan: Plan, states: Sequence[Tensor]) -> bool:
    """Return whether each tile of a plan reads of the states what itself wrote a step before."""
    if len(plan.phases) != 1 or plan.phases[0].partial:
        return False
    numbering = plan.phases[0].numbering()
    row = _row(plan.space, states)
    return row is not None and numbering == (row,)


def _row(space: Space, states: Sequence[Tensor]) -> Atom | None:
    """Return the atom of all nodes along which all accesses to states are whole first rows."""
    common = [a for a in space.nodes[0].spatial if all(a in n.spatial for n in space.nodes)]
    return next((a for a in common if _are_rows(a, space, set(states))), None)


def _are_rows(row: Atom, space: Space, states: set[Tensor]) -> bool:
    for node in space.nodes:
        touched = [node.store, *node.reads.values()]
        for access in (each for each in touched if each.tensor in states):
            if access.opaque or not _is_row(access, row, node.atoms):
                return False
    return True


def _is_row(access: Access, row: Atom, atoms: Iterable[Atom]) -> bool:
    """Return whether an access stays in the row that its atom names."""
    shape = access.tensor.shape
    if not shape or shape[0] != row.extent:
        return False
    width = access.tensor.elements // shape[0]
    rest = [(access.strides.get(a, 0), a.extent - 1) for a in atoms if a is not row]
    low, high = (access.const + sum(end(0, s * n) for s, n in rest) for end in (min, max))
    return access.stride(row) == width and low >= 0 and high < width

"""The register tile of a matrix product or convolution.

One operand runs along the lanes, the other is a scalar a row: rows x lanes accumulators stay in
registers over the whole reduction. `relay_passes.rewrites.pack_weights` lays weights out for it;
operands that come unpacked are read as they are.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from ....analysis.coalesce import uses_value
from ....analysis.iteration_space import Access, Atom, Node
from ....analysis.kernel_facts import is_contraction
from ....analysis.limits import LIMITS
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...plan.kernel_plan import Phase, buffer_atoms
from ..padding import bounds_of
from ..vectors import own_vector, vector_atom
from .register_file import LANE_REGISTERS, MOST_ROWS


@dataclass(frozen=True)
class RegisterTile:
    """The atoms of a contraction's output by the operands that move along them.

    `lane` runs along the lanes of one operand, the weight; the other, `moving`, is a scalar for
    each `row`. Along `panels` the weight alone moves too, along `pixels` the other operand alone,
    along `batch` both.
    """

    lane: Atom
    row: Atom
    panels: tuple[Atom, ...]
    pixels: tuple[Atom, ...]
    batch: tuple[Atom, ...]
    depth: tuple[Atom, ...]
    moving: Access
    weight: Access
    whole_row: bool  # a line of a padded image, whose borders are known only in one piece


@functools.lru_cache(maxsize=1 << 10)
def register_tile(node: Node) -> RegisterTile | None:
    """Return the register tile of a contraction, None if its operands do not allow one."""
    if not is_contraction(node.stage):
        return None
    lane = vector_atom(node, node.spatial)
    if lane is None or (lane.extent < LIMITS.least_lanes and lane is not own_vector(node)):
        return None
    along = [a for a in node.reads.values() if a.stride(lane) == 1]
    across = [a for a in node.reads.values() if a.stride(lane) == 0 and _moves(a, node)]
    if not along or not across:
        return None
    rest = [a for a in node.spatial if a is not lane]
    still = [a for a in rest if all(w.stride(a) == 0 for w in along)]
    rows = [a for a in still if any(x.stride(a) not in (0, None) for x in across)]
    if not rows:
        return None
    # Of those that fill a register tile the one whose rows lie closest: pixels, not lines.
    row = max(
        rows,
        key=lambda a: (
            min(_run(a, rows, node), MOST_ROWS),
            -min(abs(x.stride(a) or 0) for x in across),
        ),
    )
    panels = tuple(a for a in rest if all(x.stride(a) == 0 for x in across))
    return RegisterTile(
        lane,
        row,
        panels,
        pixels=tuple(a for a in still if a is not row and a not in panels),
        batch=tuple(a for a in rest if a not in still and a not in panels),
        depth=node.reduced,
        moving=max(across, key=lambda x: x.tensor.bytes),
        weight=max(along, key=lambda x: x.tensor.bytes),
        whole_row=any(row in b.atoms for b in bounds_of(node) or ()),
    )


def runs_on(node: Node, outer: Atom, row: Atom, phase: Phase) -> bool:
    """Return whether a step of `outer` is the one behind the last of `row`, in tile buffers too."""
    if not _steps_behind(node, outer, row):
        return False
    layouts = {n.stage.out: buffer_atoms(n, phase) for n in phase.nodes}
    own = [layouts.get(a.tensor, ()) for a in (*node.reads.values(), node.store)]
    return all(row not in o or (outer, row) in itertools.pairwise(o) for o in own)


def _run(row: Atom, rows: list[Atom], node: Node) -> int:
    """Return the extent of a row and of what it may run on over."""
    beside = next((a for a in rows if _steps_behind(node, a, row)), None)
    if beside is None:
        return row.extent
    return row.extent * _run(beside, rows, node)


def _steps_behind(node: Node, outer: Atom, row: Atom) -> bool:
    """Return whether a step of `outer` is the one behind the last of `row` in all tensors."""
    if outer is row or uses_value(node, outer) or uses_value(node, row):
        return False
    for access in (*node.reads.values(), node.store):
        step = access.stride(row)
        if step is None or access.stride(outer) != step * row.extent:
            return False
    return any(access.stride(row) for access in node.reads.values())


def _moves(access: Access, node: Node) -> bool:
    return any(access.stride(a) not in (0, None) for a in node.reduced)


def lanes_of(device: CpuDevice, extent: int, dtype: str) -> int:
    """Return the lanes of a register tile: two registers, fewer on a short axis."""
    lanes = device.vector_bytes // dtype_bytes(dtype) * LANE_REGISTERS
    while lanes > extent:
        lanes //= 2
    return max(1, lanes)


def panel_lanes(columns: int, dtype: str, device: CpuDevice) -> int | None:
    """Return the columns of a panel, None if there are no whole ones of half a register."""
    lanes = lanes_of(device, columns, dtype)
    while columns % lanes:
        lanes //= 2
    return lanes if 2 * lanes * dtype_bytes(dtype) >= device.vector_bytes else None


def filled_lanes(columns: int, dtype: str, device: CpuDevice) -> int:
    """Return the lanes of a short register, or of one, that fewer columns take as long as."""
    register = device.vector_bytes // dtype_bytes(dtype)
    fitting = [lanes for lanes in (LIMITS.least_lanes, register) if lanes >= columns]
    return min(fitting) if fitting and columns > LIMITS.summed_columns else columns

"""What a block has in shared memory: tensors, tiles, parts of sums, and how large they are."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...analysis.iteration_space import Atom, Node
from ...device.cuda import STATIC_SHARED, VECTOR_BYTES
from ...kernel_ir.expr import Axis as StageAxis
from ...kernel_ir.expr import dtype_bytes
from ...kernel_ir.index import normalize
from .axes import Axis
from .kernel_plan import Phase
from .nest import values_of
from .tile import Tile


class _Array(NamedTuple):
    """An array of a block, as far as others of its launch may have its place."""

    dtype: str
    bytes: int
    feeds_fragments: bool = False


@dataclass(frozen=True)
class Local:
    """One dimension of a tensor in a block's shared memory: its size, and the axis it is cut by.

    Without an axis the block has all of the dimension, or one position of it.
    """

    size: int
    axis: Axis | None
    pad: int = 0  # elements behind each line


def shared_dims(node: Node, phase: Phase) -> tuple[Local, ...] | None:
    """Return a node's tensor as a block keeps it, dimension by dimension; None if it can't."""
    if isinstance(node.stage.out, Tile) or phase.nest_of(node).warps is not None:
        return _tile_dims(node, phase)
    dims = []
    for extent, atoms in zip(node.stage.out.shape, dim_atoms(node), strict=True):
        axes = {phase.axis_of(a) for a in atoms}
        if all(axis.pieces == 1 for axis in axes):
            dims.append(Local(extent, None))
        elif all(axis.block == 1 for axis in axes):
            dims.append(Local(1, None))
        elif len(axes) == 1 and atoms in next(iter(axes)).views:
            (axis,) = axes
            dims.append(Local(axis.block, axis))
        else:
            return None
    return tuple(dims)


def _tile_dims(node: Node, phase: Phase) -> tuple[Local, ...]:
    """Return the axes of a tile as dimensions, a vector's room behind each line.

    It is filled along one axis and read along another: neighbours of both are in other banks. Tiles
    of fragments, which are loaded along either, have the lines along which they are filled: a
    thread stores a vector, not halves in lines of their own.
    """
    axes = list(dict.fromkeys(phase.axis_of(atom) for atom in node.spatial))
    if phase.has_fragments() and isinstance(node.stage.out, Tile):
        along = phase.nest_of(node).walked()[-1].axis
        axes.sort(key=lambda axis: axis is along)
    dims = [Local(_room(axis, phase), axis) for axis in axes]
    if len(dims) > 1:
        dims[-1] = replace(dims[-1], pad=VECTOR_BYTES // dtype_bytes(node.stage.out.dtype))
    return tuple(dims)


def _room(axis: Axis, phase: Phase) -> int:
    """Return how many positions of an axis a tile has room for: fragments are whole."""
    if axis.block == 1 or not phase.has_fragments():
        return axis.block
    grain = phase.fragment_grain(axis)
    return -(-axis.block // grain) * grain


def shared_bytes(node: Node, phase: Phase) -> int:
    """Return the shared memory of a node that can be kept there."""
    count = math.prod(dim.size + dim.pad for dim in shared_dims(node, phase))
    return count * dtype_bytes(node.stage.out.dtype)


def dim_atoms(node: Node) -> tuple[tuple[Atom, ...], ...]:
    """Return the atoms that each dimension of what a node makes is numbered by, outer first."""
    found = []
    for expr in node.stage.out_index:
        bases = [t.base for t in normalize(expr).terms if isinstance(t.base, StageAxis)]
        found.append(tuple(a for base in bases for a, _ in node.digits[base]))
    return tuple(found)


def block_bytes(*phases: Phase) -> int:
    """Return the shared memory of a block of phases beside each other: they share arrays."""
    return sum(array.bytes for array in _most_arrays(phases).elements())


def is_of_one_type(*phases: Phase) -> bool:
    """Return whether a block's shared memory has numbers of one type only."""
    return len({array.dtype for array in _most_arrays(phases) if array.bytes}) < 2


def fits_static(*phases: Phase) -> bool:
    """Return whether what is shared, but for tiles of fragments, is in static memory.

    TVM gives arrays of several types one memory, and one by one what were vectors: a dynamic one it
    knows as bytes.
    """
    found = _most_arrays(phases)
    if any(phase.has_fragments() for phase in phases):
        return sum(a.bytes for a in found.elements() if not a.feeds_fragments) <= STATIC_SHARED
    return block_bytes(*phases) <= STATIC_SHARED and is_of_one_type(*phases)


def _most_arrays(phases: Sequence[Phase]) -> Counter[_Array]:
    return functools.reduce(operator.or_, map(_arrays, phases))


def _arrays(phase: Phase) -> Counter[_Array]:
    """Return how many arrays of each kind a block of a phase has."""
    found = []
    for node in phase.shared:
        feeds = phase.has_fragments() and isinstance(node.stage.out, Tile)
        found.append(_Array(node.stage.out.dtype, shared_bytes(node, phase), feeds))
    found += [_Array(each.load.dtype, each.bytes) for each in phase.staged]
    for node in (n for nest in phase.nests for n in nest.nodes):
        found.append(_Array(node.stage.out.dtype, parts_bytes(node, phase)))
    return Counter(found)


def parts_bytes(node: Node, phase: Phase) -> int:
    """Return the shared memory that parts of a node's sums take."""
    nest = phase.nest_of(node)
    if not node.reduced or nest.warps is not None:
        return 0
    count = values_of(node.spatial, nest) * phase.sum_places(node)
    return count * dtype_bytes(node.stage.out.dtype)

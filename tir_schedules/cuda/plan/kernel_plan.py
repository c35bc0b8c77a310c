"""How the stages of one kernel lie over blocks, threads, registers and shared memory. Data only.

A position of an axis is `(trip * threads + digit) * width + lane` within a block: `digit` is the
thread's, by its number, `trip` a loop of each thread. A value that two nests spread alike never
leaves the registers of the threads that make it. Source of the schemes: FusionStitching (arXiv
2009.10924) section 4, AStitch (ASPLOS 2022) section 4; here they follow from how axes are spread.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from ...analysis.iteration_space import Access, Atom, Node, Space
from ...device.cuda import VECTOR_BYTES, WARP
from ...kernel_ir.expr import Axis as StageAxis
from ...kernel_ir.expr import Load, Tensor, dtype_bytes
from ...kernel_ir.index import normalize
from ...kernel_ir.stage import Kernel
from .tile import Tile

FRAGMENT = 16  # rows and columns, and terms, that tensor cores multiply at once (wmma)
WRITTEN_OUT = 16  # trips of a loop at the most that is written out though registers need it not


@dataclass(frozen=True)
class Axis:
    """Atoms walked as one, outer first; blocks have `block` positions of it each, the last less.

    Along a `serial` axis a block goes in steps of so many: what it adds up over that is whole
    behind the last. Stages may have other atoms for the same positions: each has one of the
    `views`.
    """

    views: tuple[tuple[Atom, ...], ...]
    block: int
    serial: bool = False

    @property
    def extent(self) -> int:
        return math.prod(a.extent for a in self.views[0])

    @property
    def pieces(self) -> int:
        """How many blocks or steps it is cut into."""
        return -(-self.extent // self.block)

    @property
    def blocks(self) -> int:
        return 1 if self.serial else self.pieces

    @property
    def is_ragged(self) -> bool:
        """Whether the last block has fewer positions than others."""
        return self.extent % self.block != 0

    def has(self, atom: Atom) -> bool:
        return any(atom in view for view in self.views)

    def meets(self, atoms: Collection[Atom]) -> bool:
        """Return whether some view has any of the atoms."""
        return any(atom in atoms for view in self.views for atom in view)

    def view(self, atoms: Collection[Atom]) -> tuple[Atom, ...]:
        """Return the view that has some of the atoms, an axis that `meets` them."""
        return next(view for view in self.views if any(atom in atoms for atom in view))

    def __str__(self) -> str:
        name = " = ".join("*".join(map(str, view)) for view in self.views)
        cut = f" by {self.block}" if self.serial else f" /{self.block}"
        return name if self.pieces == 1 else f"{name}{cut}"


@dataclass(frozen=True)
class Spread:
    """How the positions of an axis go over the threads of a block.

    Threads `stride` apart are neighbours along it.
    """

    axis: Axis
    threads: int
    stride: int
    width: int

    @property
    def trips(self) -> int:
        return -(-self.axis.block // (self.threads * self.width))

    @property
    def is_whole(self) -> bool:
        """Whether every thread has a position in every trip."""
        return self.axis.block % (self.threads * self.width) == 0 and not self.axis.is_ragged

    @property
    def bits(self) -> int:
        """The bits of a thread's number that are its place along the axis."""
        return (self.threads - 1) * self.stride

    def __str__(self) -> str:
        by = f" by {self.width}" if self.width > 1 else ""
        return f"{self.axis} over {self.threads} threads{by}, {self.trips} trips"


@dataclass(frozen=True)
class Nest:
    """Nodes of the same axes, computed point by point; the last spread's threads are neighbours."""

    nodes: tuple[Node, ...]
    spreads: tuple[Spread, ...]
    warps: tuple[int, int] | None = None  # of a product by tensor cores, along rows and columns

    def walked(self) -> tuple[Spread, ...]:
        """Return the spreads that are loops: those of axes that the nodes have."""
        return self.of(self.nodes[0].atoms)

    def of(self, atoms: Collection[Atom]) -> tuple[Spread, ...]:
        """Return the spreads of axes that have any of the atoms."""
        return tuple(s for s in self.spreads if s.axis.meets(atoms))

    def vector(self) -> Spread | None:
        """Return the spread of which a thread has positions side by side."""
        return next((s for s in self.walked() if s.width > 1), None)

    def vector_atom(self) -> Atom | None:
        """Return the atom along which a thread has positions side by side."""
        spread = self.vector()
        return None if spread is None else spread.axis.view(self.nodes[0].atoms)[-1]

    def __str__(self) -> str:
        made = ", ".join(n.stage.name for n in self.nodes)
        if self.warps is not None:
            return f"{made}: fragments of {self.warps[0]} by {self.warps[1]} warps"
        return f"{made}: {'; '.join(map(str, self.walked())) or 'one point'}"


@dataclass(frozen=True)
class Staged:
    """A read of a node that goes through shared memory: loaded along its lines, read across them.

    The last of `spreads` is along the lines, which are a word longer than they need be: elements
    below each other are in other banks.
    """

    node: Node
    load: Load
    spreads: tuple[Spread, ...]

    @property
    def pitch(self) -> int:
        """How many elements apart lines are."""
        return self.spreads[-1].axis.block + max(1, 4 // dtype_bytes(self.load.dtype))

    @property
    def elements(self) -> int:
        return math.prod(s.axis.block for s in self.spreads[:-1]) * self.pitch

    @property
    def bytes(self) -> int:
        return self.elements * dtype_bytes(self.load.dtype)

    def nest(self) -> Nest:
        """Return the nest that loads it."""
        return Nest((self.node,), self.spreads)


@dataclass(frozen=True)
class HeldKey:
    """Elements of a tensor: one for each position of some spreads, so many elements apart."""

    tensor: Tensor
    const: int
    steps: tuple[tuple[Spread, int], ...]

    @property
    def spreads(self) -> tuple[Spread, ...]:
        return tuple(spread for spread, _ in self.steps)

    @property
    def elements(self) -> int:
        return math.prod(s.trips * s.width for s in self.spreads)

    @property
    def words(self) -> int:
        """How many 32-bit registers of a thread keep them."""
        return -(-self.elements * dtype_bytes(self.tensor.dtype) // 4)


@dataclass(frozen=True)
class Phase:
    """One launch. `registers` and `shared` are nodes by where a later nest of it reads them.

    `space` is what of the kernel it computes: what other launches make or read are parameters of
    it. `held` are the keys of reads that are loaded once for several nests.
    """

    space: Space
    axes: tuple[Axis, ...]
    nests: tuple[Nest, ...]
    threads: int
    registers: tuple[Node, ...] = ()
    shared: tuple[Node, ...] = ()
    held: tuple[HeldKey, ...] = ()
    staged: tuple[Staged, ...] = ()
    ahead: bool = False  # tiles of a step are in registers before it begins

    @property
    def blocks(self) -> int:
        return math.prod(axis.blocks for axis in self.axes)

    @property
    def shared_bytes(self) -> int:
        """What a block has in shared memory."""
        kept = sum(shared_bytes(node, self) for node in self.shared)
        kept += sum(each.bytes for each in self.staged)
        return kept + sum(self.parts_bytes(n) for nest in self.nests for n in nest.nodes)

    @property
    def tile_bytes(self) -> int:
        """What of that tiles of operands take."""
        tiles = (node for node in self.shared if isinstance(node.stage.out, Tile))
        return sum(shared_bytes(node, self) for node in tiles)

    def parts_bytes(self, node: Node) -> int:
        """Return the shared memory that parts of a node's sums take."""
        if not node.reduced or self.nest_of(node).warps is not None:
            return 0
        count = values_of(node.spatial, self.nest_of(node)) * self.sum_places(node)
        return count * dtype_bytes(node.stage.out.dtype)

    def has_fragments(self) -> bool:
        """Return whether tensor cores compute a part of it."""
        return any(nest.warps is not None for nest in self.nests)

    def serial_axis(self) -> Axis | None:
        """Return the axis along which a block goes in steps."""
        return next((axis for axis in self.axes if axis.serial), None)

    def in_steps(self, nest: Nest) -> bool:
        """Return whether a nest is done in each step."""
        axis = self.serial_axis()
        return axis is not None and axis.meets(nest.nodes[0].atoms)

    def fills_tiles(self, nest: Nest) -> bool:
        """Return whether a nest does nothing but fill tiles in each step."""
        return self.in_steps(nest) and all(isinstance(n.stage.out, Tile) for n in nest.nodes)

    def tiles_ahead(self) -> tuple[Node, ...]:
        """Return the nodes whose tiles registers have before their step begins."""
        nests = (nest for nest in self.nests if self.ahead and self.fills_tiles(nest))
        return tuple(node for nest in nests for node in nest.nodes)

    def is_whole_behind(self, node: Node) -> bool:
        """Return whether a sum is whole only behind the last step."""
        axis = self.serial_axis()
        return axis is not None and axis.meets(node.reduced)

    def writes_out(self, spread: Spread, nest: Nest) -> bool:
        """Return whether the trips of a spread are written out: registers are numbered by them."""
        if spread.axis.serial and not any(spread.axis.meets(n.spatial) for n in nest.nodes):
            return False
        if spread.trips <= WRITTEN_OUT:
            return True
        if self.ahead and self.fills_tiles(nest):
            return True
        kept = (n for n in nest.nodes if n.reduced or n in self.registers)
        if any(spread.axis.meets(node.spatial) for node in kept):
            return True
        reads = (access for node in nest.nodes for access in node.reads.values())
        keys = (held_key(access, nest) for access in reads)
        return any(key in self.held and spread in key.spreads for key in keys)

    def sum_bits(self, node: Node) -> int:
        """Return the bits of a thread's number by which the terms of a sum are shared."""
        bits = 0
        for spread in self.nest_of(node).of(node.reduced):
            bits |= spread.bits
        return bits

    def sum_places(self, node: Node) -> int:
        """Return how many parts of each sum a block has in shared memory, none for one warp's.

        Of warps that add up with all of their lanes one each, of others one a thread.
        """
        bits = self.sum_bits(node)
        if bits < WARP:
            return 0
        return self.threads // WARP if bits % WARP == WARP - 1 else self.threads

    def nest_of(self, node: Node) -> Nest:
        return next(nest for nest in self.nests if node in nest.nodes)

    def axis_of(self, atom: Atom) -> Axis:
        return next(axis for axis in self.axes if axis.has(atom))

    def __str__(self) -> str:
        cut = ", ".join(str(axis) for axis in self.axes if axis.blocks > 1)
        lines = [f"{self.blocks} blocks of {self.threads} threads{f', of {cut}' if cut else ''}"]
        lines += [f"  {nest}" for nest in self.nests]
        for what, nodes in (("registers", self.registers), ("shared memory", self.shared)):
            if nodes:
                lines.append(f"  in {what}: {', '.join(n.stage.name for n in nodes)}")
        for each in self.staged:
            along = "; ".join(map(str, each.spreads))
            lines.append(f"  {each.load.tensor.name} through shared memory: {along}")
        if self.ahead:
            lines.append("  tiles are loaded a step ahead")
        if self.held:
            lines.append(f"  loaded once: {', '.join(key.tensor.name for key in self.held)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Plan:
    """What a kernel is made of: its launches in order."""

    space: Space
    phases: tuple[Phase, ...]

    @property
    def workspace(self) -> tuple[Tensor, ...]:
        """What one launch makes, and a later one reads, that is no result of the kernel."""
        made = dict.fromkeys(t for phase in self.phases for t in phase.space.kernel.outputs)
        return tuple(t for t in made if t not in self.space.kernel.params)

    @property
    def kernel(self) -> Kernel:
        """The kernel as it was read, and its stages inlined."""
        return self.space.kernel

    def __str__(self) -> str:
        launches = (f"launch {n}: {phase}" for n, phase in enumerate(self.phases, 1))
        kept = [f"between launches: {t.name} ({t.bytes} bytes)" for t in self.workspace]
        return "\n".join([self.space.kernel.name, *launches, *kept])


def held_key(access: Access, nest: Nest) -> HeldKey | None:
    """Return what tells an access from others: threads read the same by equal ones.

    None if its element does not go in steps with the positions of each axis.
    """
    if access.opaque:
        return None
    steps: dict[Spread, int] = {}
    moving = [a for a, s in access.strides.items() if s]
    for spread in nest.of(moving):
        view = spread.axis.view(moving)
        step = inner = access.strides.get(view[-1], 0)
        for atom in reversed(view):
            if access.strides.get(atom, 0) != inner:
                return None
            inner *= atom.extent
        steps[spread] = step
    return HeldKey(access.tensor, access.const, tuple(steps.items()))


def register_words(node: Node, nest: Nest) -> int:
    """Return how many 32-bit registers of a thread keep a node's values."""
    return values_of(node.spatial, nest) * -(-dtype_bytes(node.stage.out.dtype) // 4)


def values_of(atoms: tuple[Atom, ...], nest: Nest) -> int:
    """Return how many positions of some atoms a thread has."""
    return math.prod(s.trips * s.width for s in nest.of(atoms))


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

    It is filled along one axis and read along another: neighbours of both are in other banks.
    """
    axes = dict.fromkeys(phase.axis_of(atom) for atom in node.spatial)
    grain = FRAGMENT if phase.has_fragments() else 1
    dims = [Local(-(-axis.block // grain) * grain if axis.block > 1 else 1, axis) for axis in axes]
    if len(dims) > 1:
        dims[-1] = replace(dims[-1], pad=VECTOR_BYTES // dtype_bytes(node.stage.out.dtype))
    return tuple(dims)


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

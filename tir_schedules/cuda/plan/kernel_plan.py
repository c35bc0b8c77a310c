"""How the stages of one kernel lie over launches, blocks and threads. Data only.

A value that two nests spread alike never leaves the registers of the threads that make it, others
go through shared memory, or from launch to launch. Source of the schemes: FusionStitching (arXiv
2009.10924) section 4, AStitch (ASPLOS 2022) section 4; here they follow from how axes are spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...analysis.iteration_space import Atom, Node, Space
from ...device.cuda import WARP
from ...kernel_ir.expr import Tensor
from ...kernel_ir.stage import Kernel
from .axes import FRAGMENT, Axis, Spread
from .decisions import by_launch
from .nest import HeldKey, Nest, Staged, held_key
from .tile import Tile


@dataclass(frozen=True)
class Phase:
    """One launch, or blocks of one `beside` those of the phase before.

    `registers` and `shared` are nodes by where a later nest of it reads them.
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
    unrolls: int = 0  # positions of loops that are written out, though registers need it not
    beside: bool = False

    @property
    def blocks(self) -> int:
        return math.prod(axis.blocks for axis in self.axes)

    def has_fragments(self) -> bool:
        """Return whether tensor cores compute a part of it."""
        return any(nest.warps is not None for nest in self.nests)

    def serial_axis(self, nest: Nest) -> Axis | None:
        """Return the axis along which a block goes in steps of a nest."""
        axes = (axis for axis in self.axes if axis.serial)
        return next((axis for axis in axes if axis.meets(nest.nodes[0].atoms)), None)

    def in_steps(self, nest: Nest) -> bool:
        """Return whether a nest is done in each step of some axis."""
        return self.serial_axis(nest) is not None

    def fills_tiles(self, nest: Nest) -> bool:
        """Return whether a nest does nothing but fill tiles in each step."""
        return self.in_steps(nest) and all(isinstance(n.stage.out, Tile) for n in nest.nodes)

    def pads_tiles(self, nest: Nest) -> bool:
        """Return whether tiles have zeros where a sum ends: fragments are added up whole."""
        axis = self.serial_axis(nest)
        ragged = axis is not None and axis.is_ragged
        return ragged and self.has_fragments() and self.fills_tiles(nest)

    def fragment_grain(self, axis: Axis) -> int:
        """Return of how many positions along an axis the warps of products have whole numbers."""
        found = FRAGMENT
        for nest in (nest for nest in self.nests if nest.warps is not None):
            cut = (self.axis_of(atom) for atom in nest.nodes[0].spatial)
            sides = [each for each in dict.fromkeys(cut) if each.block > 1]
            if axis in sides[:2]:
                found = math.lcm(found, FRAGMENT * nest.warps[sides.index(axis)])
        return found

    def tiles_ahead(self) -> tuple[Node, ...]:
        """Return the nodes whose tiles registers have before their step begins."""
        nests = (nest for nest in self.nests if self.ahead and self.fills_tiles(nest))
        return tuple(node for nest in nests for node in nest.nodes)

    def is_whole_behind(self, node: Node) -> bool:
        """Return whether a sum is whole only behind the last step."""
        return any(axis.serial and axis.meets(node.reduced) for axis in self.axes)

    def writes_out(self, spread: Spread, nest: Nest) -> bool:
        """Return whether the trips of a spread are written out: registers are numbered by them."""
        if spread.axis.serial and not any(spread.axis.meets(n.spatial) for n in nest.nodes):
            return False
        if spread.trips * spread.width <= self.unrolls:
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
    """What a kernel is made of: its launches in order, as phases."""

    space: Space
    phases: tuple[Phase, ...]

    def launches(self) -> tuple[tuple[Phase, ...], ...]:
        """Return the phases of each launch."""
        return by_launch(self.phases)

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
        launches = (
            f"launch {n}: {'; beside them '.join(map(str, phases))}"
            for n, phases in enumerate(self.launches(), 1)
        )
        kept = [f"between launches: {t.name} ({t.bytes} bytes)" for t in self.workspace]
        return "\n".join([self.space.kernel.name, *launches, *kept])

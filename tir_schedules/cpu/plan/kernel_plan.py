"""A stitch plan: how the stages of one kernel are laid over tiles, loops and buffers. Data only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...analysis.iteration_space import Atom, Node, Space
from ...kernel_ir.expr import Load, Tensor, dtype_bytes
from ...kernel_ir.stage import Kernel
from .memory import Deinterleave, Fetch, NextTilePrefetch
from .streaming_attention import StreamingAttention
from .window import Window


@dataclass(frozen=True)
class LoopNest:
    """Nodes that run in one loop nest: `dims` outer to inner, the last of them in vector lanes.

    `lanes` is 1 where no dimension is contiguous. The loop over strips of the last dimension stands
    inside `strip_level` of the other loops: all of them, or fewer for a blocked transpose and for a
    reduction whose accumulators stay in the registers of one strip. `rows` of the loop just outside
    the strip share its loads: a register tile of rows x lanes accumulators. `epilogue` are nodes
    over the same points that take a register tile's accumulators where they are. The rows of a
    register tile run on over `flattened_outer`, which is no loop of its own. A `transposed` nest is
    read along the last dimension and stored along the one before, in blocks of `lanes` of each.
    Rows of a `window` share its lines instead: its taps are the last loop but the lanes. What rows
    read of `packed` is copied side by side first, a line of each row at a time. Each point asks for
    its `fetches`, each step of a sum for a part of what the `next_tile` reads and writes. Where it
    `shuffles`, what lanes read or store apart goes through registers that are shuffled, where it
    has `reciprocals`, lanes that are divided by one number are multiplied.
    """

    nodes: tuple[Node, ...]
    dims: tuple[Atom, ...]
    lanes: int
    strip_level: int
    rows: int = 1
    epilogue: LoopNest | None = None
    flattened_outer: Atom | None = None
    transposed: bool = False
    window: Window | None = None
    packed: Load | None = None
    fetches: tuple[Fetch, ...] = ()
    next_tile: tuple[NextTilePrefetch, ...] = ()
    shuffles: bool = True
    reciprocals: bool = False

    def all_nodes(self) -> tuple[Node, ...]:
        """Return the nodes of the nest and of its epilogue."""
        return (*self.nodes, *(self.epilogue.nodes if self.epilogue is not None else ()))

    def __str__(self) -> str:
        """Return the loops outside the strip, the strip, what is inside it, and the nodes."""
        strips = self.dims[-1:] if self.lanes > 1 else ()
        inner = self.dims[self.strip_level : len(self.dims) - len(strips)]
        loops = [f"for {a}" for a in self.dims[: min(self.strip_level, len(self.dims))]]
        if self.rows > 1:
            loops[-1] += f" by {self.rows}"
        loops += [f"strips of {self.lanes} of {a}" for a in strips] + [f"for {a}" for a in inner]
        made = ", ".join(n.stage.name for n in self.nodes)
        return f"{self._kind()} of {made}: {', '.join(loops) or 'one point'}{self._more()}"

    def _kind(self) -> str:
        if self.transposed:
            return "transposed nest"
        if self.window is not None:
            return "window"
        return "register tile" if self.is_product else "nest"

    def _more(self) -> str:
        more = [] if self.flattened_outer is None else [f"rows run on over {self.flattened_outer}"]
        more += [] if self.packed is None else [f"rows of {self.packed.tensor.name} packed"]
        more += [f"{f.access.tensor.name} fetched {f.ahead} ahead" for f in self.fetches]
        more += [f"the next tile's {each.access.tensor.name} fetched" for each in self.next_tile]
        if self.epilogue is not None:
            more.append(f"then {', '.join(n.stage.name for n in self.epilogue.nodes)}")
            more += [
                f"{f.access.tensor.name} fetched before the sums"
                for f in self.epilogue.fetches
                if not f.ahead
            ]
        return "".join(f"; {each}" for each in more)

    @property
    def is_product(self) -> bool:
        """Whether this is the register tile of a matrix product or convolution."""
        return self.rows > 1 and self.window is None


@dataclass(frozen=True)
class Phase:
    """One pass over the tiles; phases of a kernel are separated by barriers.

    `tile` are the atoms that number the tiles, outer first. An atom in `chunks` is split: its outer
    part numbers tiles, its inner part (that many elements, the last piece ragged) stays inside.
    `partial` nodes reduce a tiled atom: each tile leaves a partial result, combined a phase later.
    The last of `tile` may be the `serial_tile_axis`: a loop in each tile, behind what is the same
    all along it. A node in `shared` has its tile buffer over another's, lines of `deinterleaved`
    are in parts.
    """

    nodes: tuple[Node, ...]
    tile: tuple[Atom, ...]
    chunks: dict[Atom, int]
    groups: tuple[LoopNest, ...]
    partial: tuple[Node, ...] = ()
    combine: tuple[Node, ...] = ()
    serial_tile_axis: Atom | None = None
    shared: dict[Node, Node] = field(default_factory=dict)
    deinterleaved: dict[Node, Deinterleave] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.combine:
            return f"partial sums of {', '.join(n.stage.name for n in self.combine)} added up"
        cut = [f"{a}/{self.chunks[a]}" if a in self.chunks else f"{a}" for a in self.numbering()]
        lines = [f"{self.tiles()} tiles" + (f" of {', '.join(cut)}" if cut else "")]
        if self.partial:
            lines[0] += f", partial sums of {', '.join(n.stage.name for n in self.partial)}"
        for group in self.groups:
            along = self.serial_tile_axis is not None and not self._is_once(group)
            axis = self.serial_tile_axis
            head = f"for {axis}/{self.chunks[axis]}: " if along else ""
            lines.append(f"  {head}{group}")
        for node, over in self.shared.items():
            lines.append(f"  {node.stage.name} is written over {over.stage.name}")
        for node, parts in self.deinterleaved.items():
            lines.append(f"  lines of {node.stage.name} are stored in {parts.ways} parts")
        return "\n".join(lines)

    def steps(self, group: LoopNest) -> int:
        """Return how often a loop group runs in a tile."""
        walks = self.serial_tile_axis is not None and not self._is_once(group)
        return self.outer_extent(self.serial_tile_axis) if walks else 1

    def once(self) -> tuple[LoopNest, ...]:
        """Return the loop groups, the first ones, that are the same all along the walked atom."""
        return tuple(g for g in self.groups if self._is_once(g))

    def _is_once(self, group: LoopNest) -> bool:
        axis = self.serial_tile_axis
        return axis is not None and not any(axis in n.atoms for n in group.nodes)

    def nests(self) -> tuple[LoopNest, ...]:
        """Return the loop groups in order, each epilogue behind its own."""
        return tuple(g for each in self.groups for g in (each, each.epilogue) if g is not None)

    def products(self) -> tuple[LoopNest, ...]:
        return tuple(g for g in self.groups if g.is_product)

    def registers(self, space: Space) -> set[Tensor]:
        """Return the tensors that are made and read at one point of one nest only."""
        outputs = set(space.kernel.outputs)
        found = {n.stage.out for g in self.groups if g.epilogue for n in g.nodes}
        for group in self.nests():
            members = set(group.nodes)
            for node in group.nodes:
                readers = [e.consumer for e in space.edges if e.producer is node]
                reduced = any(d in node.reduced for d in group.dims)
                if not reduced and all(r in members for r in readers):
                    found.add(node.stage.out)
        return found - outputs

    def buffered(self, space: Space, crossing: Sequence[Tensor]) -> tuple[Node, ...]:
        """Return the nodes whose results have a tile buffer: none that `crossing` phases keep."""
        elsewhere = {*space.kernel.outputs, *crossing} | self.registers(space)
        kept = (n for n in self.nodes if n.stage.out not in elsewhere)
        return tuple(n for n in kept if n not in self.partial)

    def tiles(self) -> int:
        count = 1
        for atom in self.numbering():
            count *= self.outer_extent(atom)
        return count

    def numbering(self) -> tuple[Atom, ...]:
        """Return the atoms that tell tiles apart, without the one that a tile walks."""
        return tuple(a for a in self.tile if a is not self.serial_tile_axis)

    def outer_extent(self, atom: Atom) -> int:
        return -(-atom.extent // self.chunks[atom]) if atom in self.chunks else atom.extent

    def inside(self, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
        """Return those of `atoms` that a loop inside the tile walks."""
        return tuple(a for a in atoms if a not in self.tile or a in self.chunks)

    def whole(self, atoms: Iterable[Atom]) -> tuple[Atom, ...]:
        """Return those of `atoms` that no tile has a part of: emitted one by one, from 0 on."""
        return tuple(a for a in atoms if a not in self.tile)

    def inner_extent(self, atom: Atom) -> int:
        return self.chunks.get(atom, atom.extent)

    def tile_rows(self, group: LoopNest) -> int:
        """Return the rows of a tile that a nest takes some of at a time."""
        row, beside = group.dims[group.strip_level - 1], group.flattened_outer
        return self.inner_extent(row) if beside is None else self.inner_extent(beside) * row.extent


@dataclass(frozen=True)
class Guard:
    """Run `check` first: the plan it is in serves if the number `made` is 0, else `other`.

    `other` is None where a plan is judged and not emitted.
    """

    check: Plan
    made: Tensor
    other: Plan | None


@dataclass(frozen=True)
class Plan:
    """The decisions of the stitch template for one kernel."""

    space: Space
    phases: tuple[Phase, ...]
    parallel: bool
    tasks: int
    crossing: tuple[Tensor, ...] = ()  # what one phase makes and a later one reads
    workspace: tuple[Tensor, ...] = ()  # intermediates among them
    streamed: tuple[Tensor, ...] = ()  # outputs stored past the caches
    vector_bytes: int = 64
    tile_bytes: int = 0
    streaming: StreamingAttention | None = None  # instead of phases
    guards: tuple[Guard, ...] = ()  # what must hold of its operands, the first one first

    def __str__(self) -> str:
        """Return the plan as a page: phases, their tiles, the loops of each nest, buffers."""
        how = f"in {self.tasks} parallel tasks" if self.parallel else "on one thread"
        lines = [f"{self.space.kernel.name}: {how}, {self.tile_bytes} bytes of buffers a tile"]
        if self.streaming is not None:
            lines.append(f"{self.streaming}")
        for number, phase in enumerate(self.phases, 1):
            lines.append(f"phase {number}: {phase}")
        if self.workspace:
            kept = ", ".join(f"{t.name} ({t.bytes} bytes)" for t in self.workspace)
            lines.append(f"kept between phases: {kept}; {self.barriers} barriers")
        if self.streamed:
            lines.append(f"stored past the caches: {', '.join(t.name for t in self.streamed)}")
        for guard in self.guards:
            lines += ["unless it is made 0 by", _indented(guard.check)]
            lines += [] if guard.other is None else ["do instead", _indented(guard.other)]
        return "\n".join(lines)

    @property
    def kernel(self) -> Kernel:
        """The kernel as it was read, and its stages inlined."""
        return self.space.kernel

    @property
    def barriers(self) -> int:
        """How many barriers stand between the phases: none if no phase needs another."""
        needed = self.crossing or any(p.partial for p in self.phases)
        return len(self.phases) - 1 if needed else 0


def _indented(plan: Plan) -> str:
    return "\n".join(f"  {line}" for line in str(plan).splitlines())


def buffer_atoms(node: Node, phase: Phase) -> tuple[Atom, ...]:
    """Return the atoms of a node's tile buffer, outer first."""
    return phase.inside(node.spatial)


def buffer_elements(node: Node, phase: Phase) -> int:
    count = 1
    for atom in buffer_atoms(node, phase):
        count *= phase.inner_extent(atom)
    return count


def buffer_stride(node: Node, atom: Atom, phase: Phase) -> int:
    """Return how many elements of a node's tile buffer two positions of an atom are apart."""
    atoms = buffer_atoms(node, phase)
    return math.prod(phase.inner_extent(a) for a in atoms[atoms.index(atom) + 1 :])


def buffer_bytes(node: Node, phase: Phase) -> int:
    return buffer_elements(node, phase) * dtype_bytes(node.stage.out.dtype)


def most_alive(spans: list[tuple[int, int, int]]) -> int:
    """Return the most bytes in use at a time by buffers that are (first, last step, bytes)."""
    return max((sum(n for a, b, n in spans if a <= step <= b) for step, *_ in spans), default=0)

"""Where every tensor of a plan lives, and the address of an element of it."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ....analysis.iteration_space import Access, Atom, Node
from ....kernel_ir.expr import Axis, AxisRef, Expr, Load, Tensor, dtype_bytes, walk
from ....kernel_ir.index import normalize
from ....tensor_ir.numbers import INDEX, cast, ramp, total
from ...plan.kernel_plan import LoopNest, Phase, Plan, buffer_atoms
from ...plan.memory import Deinterleave
from ..arithmetic import bfloat16
from .deinterleave import place_of
from .streamed_stores import stream


class Storage:
    """Buffers of a kernel: parameters and workspace by global position, tiles by local position."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self.vector_bytes = plan, plan.vector_bytes
        self._declared: list[tirx.Stmt] = []
        self._flat: dict[Tensor, ir.Var] = {}
        self._tiles: dict[Tensor, ir.Var] = {}
        self._layout: dict[Tensor, dict[Atom, int]] = {}
        self._splits: dict[Tensor, Deinterleave] = {}
        self._home = {n.stage.out: n for n in plan.space.nodes}
        for tensor in plan.workspace:
            self._flat[tensor] = self._allocate(tensor.name, tensor.elements, tensor.dtype)
        self.partials: dict[Node, tuple[ir.Var, int]] = {}
        for phase in plan.phases:
            for node in phase.partial:
                pieces = phase.tiles()
                count = pieces * node.stage.out.elements
                name = f"{node.stage.out.name}_partial"
                buffer = self._allocate(name, count, node.stage.value.dtype)
                self.partials[node] = (buffer, pieces)

    def _allocate(self, name: str, elements: int, dtype: str) -> ir.Var:
        buffer = tirx.decl_buffer((elements,), stored(dtype), name)
        self._declared.append(tirx.AllocBuffer(buffer))
        return buffer

    def parameter(self, tensor: Tensor) -> ir.Var:
        """Declare a parameter and the flat view it is accessed through."""
        align = dtype_bytes(tensor.dtype)
        param = tirx.decl_buffer(
            tensor.shape, tensor.dtype, tensor.name, data_alignment=align, layout=None
        )
        pointer = tirx.buffer_data(param)
        flat = tirx.decl_buffer(
            (tensor.elements,),
            stored(tensor.dtype),
            f"{tensor.name}_",
            data=pointer,
            data_alignment=align,
        )
        self._declared.append(tirx.DeclBuffer(flat, data=pointer))
        self._flat[tensor] = flat
        return param

    def share(self, result: Tensor, operand: Tensor) -> None:
        """Let a result have the memory of a parameter."""
        self._flat[result] = self._flat[operand]

    def lodge(self, tensor: Tensor) -> ir.Var:
        """Return a buffer of its own for a result that no parameter holds."""
        self._flat[tensor] = self._allocate(tensor.name, tensor.elements, tensor.dtype)
        return self._flat[tensor]

    def another(self, plan: Plan) -> Storage:
        """Return the storage of another plan for the same parameters."""
        other = Storage(plan)
        for tensor in self._plan.space.kernel.params:
            other._flat[tensor] = self._flat[tensor]
        return other

    def declarations(self) -> list[tirx.Stmt]:
        return self._declared

    def offset(self, access: Access, position: Position) -> ir.Expr:
        """Return the global position of an affine access."""
        return self._global(access, position, None)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameters of the kernel."""
        return self._plan.space.kernel.params

    def is_flat(self, tensor: Tensor) -> bool:
        """Return whether a tensor is a parameter or in the workspace, not in a tile buffer."""
        return tensor in self._flat

    def flat(self, tensor: Tensor) -> ir.Var:
        """Return the one-dimensional buffer of a parameter or workspace tensor."""
        return self._flat[tensor]

    def open_tile(self, phase: Phase) -> list[tirx.Stmt]:
        """Allocate the tile buffers of a phase."""
        out: list[tirx.Stmt] = []
        space, crossing = self._plan.space, self._plan.crossing
        for node in phase.buffered(space, crossing):
            tensor = node.stage.out
            atoms = buffer_atoms(node, phase)
            strides, step = {}, 1
            split = phase.deinterleaved.get(node)
            if split is not None:
                self._splits[tensor] = split
            for atom in reversed(atoms):
                strides[atom] = step
                parted = split is not None and atom is split.atom
                step *= split.ways * split.part if parted else phase.inner_extent(atom)
            self._layout[tensor] = strides
            if node in phase.shared:
                self._tiles[tensor] = self._tiles[phase.shared[node].stage.out]
                continue
            buffer = tirx.decl_buffer((step,), stored(tensor.dtype), tensor.name)
            self._tiles[tensor] = buffer
            out.append(tirx.AllocBuffer(buffer))
        return out

    def tiles_of(self, group: LoopNest) -> list[ir.Var]:
        """Return the tile buffers of what a nest and its epilogue make."""
        made = (node.stage.out for node in group.all_nodes())
        return [self._tiles[tensor] for tensor in made if tensor in self._tiles]

    def load(
        self,
        load: Load,
        reader: Node,
        access: Access,
        position: Position,
        emit: Callable[[Expr], ir.Expr],
    ) -> ir.Expr:
        """Return the element `load` names at `position`."""
        tensor = load.tensor
        if tensor in self._flat:
            value = tirx.BufferLoad(self._flat[tensor], [self._global(access, position, emit)])
        else:
            offset = self._local(load, reader, position, emit)
            value = tirx.BufferLoad(self._tiles[tensor], [offset])
        return cast(value, "bool") if load.dtype == "bool" else value

    def addressed_by(
        self, load: Load, reader: Node, access: Access, position: Position
    ) -> set[Atom]:
        """Return the atoms that the address of a load is computed of.

        In a tile buffer read at any position these are all atoms of its index: of i // 4 the inner
        one too, along which the address stays.
        """
        used = {a for a, stride in access.strides.items() if stride} | access.opaque_atoms
        home = self._home.get(load.tensor)
        if not self.is_flat(load.tensor) and position.unaligned(home, reader):
            axes = {n.axis for i in load.index for n in walk(i) if isinstance(n, AxisRef)}
            used |= {a for axis in axes for a, _ in reader.digits[axis]}
        return used

    def store(self, node: Node, value: ir.Expr, position: Position) -> tirx.Stmt:
        """Return the store of the node's element at `position`."""
        tensor = node.stage.out
        value = as_stored(value, tensor.dtype)
        if tensor in self._flat:
            offset = self._global(node.store, position, None)
            return tirx.BufferStore(self._flat[tensor], value, [offset])
        offset = self._in_tile(tensor, {a: position.inner(a) for a in self._layout[tensor]})
        return tirx.BufferStore(self._tiles[tensor], value, [offset])

    def splits(self, node: Node, along: Atom | None) -> bool:
        """Return whether the lines of the node's result are split, and run along that atom."""
        split = self._splits.get(node.stage.out)
        return split is not None and split.atom is along

    def store_split(
        self, node: Node, lanes: ir.Var, width: int, position: Position
    ) -> list[tirx.Stmt]:
        """Return the stores of `lanes` from `position` on, one to each part of a split line."""
        tensor, split = node.stage.out, self._splits[node.stage.out]
        at = {a: position.inner(a) for a in self._layout[tensor]}
        first, out = at[split.atom], []
        whole = tirx.BufferLoad(lanes, [ramp(tirx.IntImm(INDEX, 0), width)])
        for number in range(min(split.ways, width)):
            at[split.atom] = total([(1, first)], number)
            picks = [tirx.IntImm(INDEX, lane) for lane in range(number, width, split.ways)]
            place = ramp(self._in_tile(tensor, at), len(picks))
            value = tirx.Shuffle([whole], picks)
            out.append(tirx.BufferStore(self._tiles[tensor], value, [place]))
        return out

    def _in_tile(self, tensor: Tensor, at: dict[Atom, ir.Expr]) -> ir.Expr:
        """Return where in its tile buffer the element at a position is."""
        split, parts = self._splits.get(tensor), []
        for atom, stride in self._layout[tensor].items():
            inside = split is not None and atom is split.atom
            parts.append((stride, place_of(split, at[atom]) if inside else at[atom]))
        return total(parts)

    def streams(self, node: Node, width: int) -> bool:
        """Return whether `width` lanes of the node's result go past the caches."""
        tensor = node.stage.out
        whole = width * dtype_bytes(tensor.dtype) % self.vector_bytes == 0
        return whole and any(t is tensor for t in self._plan.streamed)

    def stream(self, node: Node, lanes: ir.Var, width: int, position: Position) -> tirx.Stmt:
        """Return the streaming store of `lanes` at `position`."""
        tensor = node.stage.out
        offset = self._global(node.store, position, None)
        flat = self._flat[tensor]
        return stream(flat, offset, lanes, width, tensor.dtype)

    def store_partial(
        self, node: Node, value: ir.Expr, piece: ir.Expr, position: Position
    ) -> tirx.Stmt:
        """Return the store of piece number `piece` of a partial reduction."""
        buffer, _ = self.partials[node]
        offset = self._global(node.store, position, None)
        offset = total([(1, offset), (node.stage.out.elements, piece)])
        return tirx.BufferStore(buffer, as_stored(value, node.stage.value.dtype), [offset])

    def _global(
        self, access: Access, position: Position, emit: Callable[[Expr], ir.Expr] | None
    ) -> ir.Expr:
        parts = [(s, position.full(a)) for a, s in access.strides.items()]
        if emit is not None:
            parts += [(s, cast(emit(e), INDEX)) for s, e in access.opaque]
        return total(parts, access.const)

    def _local(
        self, load: Load, reader: Node, position: Position, emit: Callable[[Expr], ir.Expr]
    ) -> ir.Expr:
        """Address a tile buffer: shared atoms by their position, unaligned dimensions by index."""
        layout, node = self._layout[load.tensor], self._home[load.tensor]
        unaligned = position.unaligned(node, reader)
        split = self._splits.get(load.tensor)
        parts = [(s, position.inner(a)) for a, s in layout.items() if a not in unaligned]
        for expr, home in zip(load.index, node.stage.out_index, strict=True):
            terms = normalize(home).terms
            base = terms[0].base if terms else None
            if not isinstance(base, Axis):
                continue
            digits = [a for a, _ in node.digits[base] if a in layout]
            if not digits or digits[-1] not in unaligned:
                continue
            if split is not None and digits[-1] is split.atom:
                whole, rest = (cast(emit(part), INDEX) for part in split.apart(expr))
                parts += [(1, whole), (1, place_of(split, rest))]
                continue
            parts.append((layout[digits[-1]], cast(emit(expr), INDEX)))
        return total(parts)


class Position:
    """The atoms' values at a point: `outer` numbers chunks of split atoms, `loops` the inside."""

    def __init__(
        self,
        phase: Phase,
        outer: dict[Atom, ir.Expr],
        unaligned: dict[tuple[Node, Node], frozenset[Atom]],
    ) -> None:
        self._phase, self.outer, self._unaligned = phase, outer, unaligned
        self.loops: dict[Atom, ir.Expr] = {}

    def inner(self, atom: Atom) -> ir.Expr:
        """Return the position inside the tile."""
        return self.loops[atom]

    def full(self, atom: Atom) -> ir.Expr:
        """Return the position in the whole iteration space."""
        if atom in self.outer and atom in self._phase.chunks:
            start = self.outer[atom] * tirx.IntImm(INDEX, self._phase.chunks[atom])
            return start + self.loops[atom] if atom in self.loops else start
        if atom in self.outer:
            return self.outer[atom]
        return self.inner(atom)

    def unaligned(self, producer: Node, reader: Node) -> frozenset[Atom]:
        """Return the producer's atoms that `reader` takes at any position."""
        return self._unaligned.get((producer, reader), frozenset())


def stored(dtype: str) -> str:
    """Return the dtype of a tensor's memory; TVM's lowering has no vectors of bool in memory."""
    return {"bool": "int8", "bfloat16": bfloat16.BITS}.get(dtype, dtype)


def as_stored(value: ir.Expr, dtype: str) -> ir.Expr:
    """Return a value as the memory of a tensor has it; of bfloat16 it comes as bits."""
    return value if dtype == "bfloat16" else cast(value, stored(dtype))

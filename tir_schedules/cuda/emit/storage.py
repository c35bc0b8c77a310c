"""Where every tensor of a launch lives: parameters, shared memory, registers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm import ir, tirx

from ...analysis.iteration_space import Node
from ...kernel_ir.expr import Tensor
from ..plan.kernel_plan import Phase
from ..plan.nest import HeldKey, Nest, Staged, values_of
from ..plan.shared import fits_static, shared_dims
from ..plan.tile import Tile
from .code import local, number


class Parameters:
    """The parameters of a kernel and the flat views that they are read and written through."""

    def __init__(self, tensors: tuple[Tensor, ...], over: Mapping[Tensor, Tensor]) -> None:
        self.declared: list[tirx.Stmt] = []
        self.buffers: list[ir.Var] = []
        self.flat: dict[Tensor, ir.Var] = {}
        self._names: set[str] = set()
        for tensor in (t for t in tensors if t not in over):
            name = self._name(tensor)
            param = tirx.decl_buffer(tensor.shape, tensor.dtype, name, layout=None)
            pointer = tirx.buffer_data(param)
            flat = tirx.decl_buffer((tensor.elements,), tensor.dtype, name, data=pointer)
            self.declared.append(tirx.DeclBuffer(flat, data=pointer))
            self.buffers.append(param)
            self.flat[tensor] = flat
        for result, operand in over.items():
            self.flat[result] = self.flat[operand]

    def keep(self, tensor: Tensor) -> tirx.Stmt:
        """Return the allocation of what one launch makes and another reads."""
        buffer = tirx.decl_buffer((tensor.elements,), tensor.dtype, self._name(tensor))
        self.flat[tensor] = buffer
        return tirx.AllocBuffer(buffer)

    def _name(self, tensor: Tensor) -> str:
        """Return a tensor's name, with a number behind it if another has it."""
        taken = tensor.name in self._names
        name = f"{tensor.name}_{len(self._names)}" if taken else tensor.name
        self._names.add(name)
        return name


class BlockMemory:
    """The shared memory of a launch: phases beside each other have arrays of one size in common."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        self.is_static = fits_static(*phases)
        self.declared: list[tirx.Stmt] = []
        self._made: dict[tuple[int, str, str], list[ir.Var]] = {}
        self._free: dict[tuple[int, str, str], list[ir.Var]] = {}

    def begin(self) -> None:
        """Let another phase take what the ones before it have taken."""
        self._free = {key: list(arrays) for key, arrays in self._made.items()}

    def array(self, name: str, elements: int, dtype: str, scope: str) -> ir.Var:
        """Return an array that this phase has to itself."""
        key = elements, dtype, scope
        if self._free.get(key):
            return self._free[key].pop(0)
        made = tirx.decl_buffer((elements,), dtype, name, scope=scope)
        self._made.setdefault(key, []).append(made)
        self.declared.append(tirx.AllocBuffer(made))
        return made


class Storage:
    """The arrays of one launch; `declared` are to stand before its nests."""

    def __init__(self, phase: Phase, parameters: Parameters, block: BlockMemory) -> None:
        self.phase, self.flat = phase, parameters.flat
        self.declared: list[tirx.Stmt] = []
        self._block = block
        block.begin()
        self.registers: dict[Node, ir.Var] = {}
        self.shared: dict[Node, ir.Var] = {}
        self.held: dict[HeldKey, ir.Var] = {}
        self._scope = "shared" if block.is_static else "shared.dyn"
        for node in phase.shared:
            count = math.prod(dim.size + dim.pad for dim in shared_dims(node, phase))
            # TVM's StorageRewrite would give the result of tensor cores the memory of tiles, of
            # another type, if it were of one scope with them, and refuse pointers into it. What is
            # alive from the start on keeps its own.
            apart = isinstance(node.stage.out, Tile) and phase.has_fragments()
            scope, dtype = "shared.dyn" if apart else self._scope, node.stage.out.dtype
            self.shared[node] = made = block.array(_name(node), count, dtype, scope)
            if phase.has_fragments() and not apart and not block.is_static:
                self.declared.append(tirx.Evaluate(tirx.BufferLoad(made, [number(0)])))
        self.staged: dict[Staged, ir.Var] = {}
        for each in phase.staged:
            dtype, name = each.load.dtype, f"{each.load.tensor.name}_staged"
            self.staged[each] = block.array(name, each.elements, dtype, self._scope)
        for nest in phase.nests:
            for node in nest.nodes:
                summed = node.reduced and nest.warps is None
                if summed or node in (*phase.registers, *phase.tiles_ahead()):
                    self.registers[node] = self.array(_name(node), node, nest)

    def array(self, name: str, node: Node, nest: Nest) -> ir.Var:
        """Return an array of what a thread makes of a node."""
        return self.local(name, values_of(node.spatial, nest), node.stage.out.dtype)

    def local(self, name: str, elements: int, dtype: str) -> ir.Var:
        return self._declare(local(name, elements, dtype))

    def fragments(self, name: str, elements: int, dtype: str, scope: str) -> ir.Var:
        """Return fragments of a warp."""
        return self._declare(tirx.decl_buffer((elements,), dtype, name, scope=scope))

    def between_warps(self, name: str, elements: int, dtype: str) -> ir.Var:
        """Return an array of the block."""
        return self._block.array(name, elements, dtype, self._scope)

    def _declare(self, buffer: ir.Var) -> ir.Var:
        self.declared.append(tirx.AllocBuffer(buffer))
        return buffer


def _name(node: Node) -> str:
    return f"{node.stage.out.name}_kept"

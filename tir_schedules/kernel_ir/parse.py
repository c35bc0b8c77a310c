"""Read a TensorIR PrimFunc into stages, or say why it can't be read."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir, s_tir, tirx

from .cost import is_data_dependent
from .expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor, walk
from .index import bounds, normalize
from .sharing import BRANCH
from .stage import Kernel, Reduction, Refusal, Stage, fresh_axes

_BINARY = (
    *("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"),
    *("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift", "RShift"),
)
_BINARY_NODES = {getattr(tirx, name): name for name in _BINARY}
_COMBINERS = {"Add": "sum", "Mul": "prod", "Max": "max", "Min": "min", "And": "and", "Or": "or"}
_PURE = """exp exp2 exp10 log log2 log10 log1p tanh sigmoid erf pow sqrt rsqrt sin cos tan asin
    acos atan sinh cosh asinh acosh atanh atan2 fabs floor ceil round nearbyint trunc isnan isinf
    isfinite if_then_else reinterpret bitwise_and bitwise_or bitwise_xor bitwise_not shift_left
    shift_right popcount hypot copysign fmod clz call_llvm_pure_intrin likely ldexp nextafter"""
_MOST_ELEMENTS = 2**31 - 1  # positions are 32-bit
_PURE_CALLS = frozenset(f"tirx.{name}" for name in _PURE.split())


class _Unreadable(Exception):
    """Internal: carries a refusal out of the recursive reader."""


def read(func: tirx.PrimFunc) -> Kernel | str:
    """Return what a PrimFunc computes as stages, or why no template reads it."""
    kernel = read_prim_func(func)
    if isinstance(kernel, Refusal):
        return str(kernel)
    if any(p.elements > _MOST_ELEMENTS for p in kernel.params):
        return "a tensor has 2**31 elements or more"
    return kernel


def read_prim_func(func: tirx.PrimFunc) -> Kernel | Refusal:
    """Return the stages of `func`, whose sblocks must be static, pure and unpredicated."""
    name = str(func.attrs["global_symbol"]) if "global_symbol" in func.attrs else "main"
    reader = _Reader()
    try:
        params = tuple(reader.tensor(p) for p in func.params)
        root = func.body
        if not isinstance(root, s_tir.SBlockRealize):
            raise _Unreadable("no root sblock")
        nests = [nest for nest in _sequence(root.block.body) if not _is_nop(nest)]
        stages = tuple(stage for nest in nests for stage in reader.stages(nest))
    except _Unreadable as refusal:
        return Refusal(str(refusal), name)
    written = {s.out for s in stages}
    if len(written) != len(stages):
        return Refusal("a buffer is written by more than one sblock", name)
    outputs = tuple(p for p in params if p in written)
    return Kernel(name, params, outputs, stages)


def _sequence(stmt: tirx.Stmt) -> list[tirx.Stmt]:
    return list(stmt.seq) if isinstance(stmt, tirx.SeqStmt) else [stmt]


def _is_nop(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm)


class _Reader:
    def __init__(self) -> None:
        self._tensors: dict[ir.Var, Tensor] = {}
        self._memo: dict[object, Expr] = {}
        self._axes: dict[ir.Var, Axis] = {}
        self._lets: dict[ir.Var, Expr] = {}

    def tensor(self, buffer: ir.Var) -> Tensor:
        if buffer not in self._tensors:
            if not tirx.is_buffer_var(buffer):
                raise _Unreadable(f"parameter {buffer.name} is not a tensor")
            ty = buffer.ty
            if not all(isinstance(d, tirx.IntImm) for d in ty.shape):
                raise _Unreadable(f"the shape of {buffer.name} is not static")
            if len(ty.strides):
                raise _Unreadable(f"{buffer.name} has strides")
            shape = tuple(int(d) for d in ty.shape)
            self._tensors[buffer] = Tensor(buffer.name, shape, str(ty.dtype.dtype))
        return self._tensors[buffer]

    def stages(self, nest: tirx.Stmt) -> list[Stage]:
        loops: dict[ir.Var, int] = {}
        while isinstance(nest, tirx.For):
            if nest.kind != tirx.ForKind.SERIAL or not _is_zero(nest.min):
                raise _Unreadable("a loop is already scheduled")
            if not isinstance(nest.extent, tirx.IntImm):
                raise _Unreadable("a loop extent is not static")
            loops[nest.loop_var] = int(nest.extent)
            nest = nest.body
        if not isinstance(nest, s_tir.SBlockRealize):
            raise _Unreadable("a statement stands outside any sblock")
        block = nest.block
        if not _is_true(nest.predicate):
            raise _Unreadable(f"sblock {block.name_hint} has a predicate")
        if len(block.alloc_buffers) or len(block.match_buffers):
            raise _Unreadable(f"sblock {block.name_hint} has buffers of its own")
        self._axes, self._memo, self._lets = {}, {}, {}
        axes = []
        for iter_var, value in zip(block.iter_vars, nest.iter_values, strict=True):
            axes.append(self._axis(iter_var, value, loops, block.name_hint))
        stores, inits = self._stores(block.body, block), []
        if block.init is not None:
            inits = self._stores(block.init, block)
        made = [self._store(block, store, _matching(inits, store), tuple(axes)) for store in stores]
        tensors = {s.out for s in made}
        if any(ld.tensor in tensors for s in made for ld in s.loads()):
            raise _Unreadable(f"the results of sblock {block.name_hint} depend on each other")
        return made if len(made) == 1 else [fresh_axes(s) for s in made]

    def _stores(self, stmt: tirx.Stmt, block: s_tir.SBlock) -> list[tirx.BufferStore]:
        """Return the stores of a body; what its Binds name is read in their place."""
        out = []
        for part in _sequence(stmt):
            if isinstance(part, tirx.Bind):
                self._lets[part.var] = self.expr(part.value)
            elif isinstance(part, tirx.BufferStore):
                out.append(part)
            else:
                raise _Unreadable(f"sblock {block.name_hint} holds more than stores")
        return out

    def _axis(self, iter_var: tirx.IterVar, value: ir.Expr, loops: dict, where: str) -> Axis:
        extent = iter_var.dom.extent
        if not isinstance(extent, tirx.IntImm) or not _is_zero(iter_var.dom.min):
            raise _Unreadable(f"an axis of sblock {where} is not static")
        size = int(extent)
        bound = isinstance(value, ir.Var) and loops.pop(value, None) == size
        if not bound and not (size == 1 and _is_zero(value)):
            raise _Unreadable(f"an axis of sblock {where} is not bound to one loop")
        if iter_var.iter_type not in (0, 2):
            raise _Unreadable(f"an axis of sblock {where} is neither spatial nor a reduction")
        axis = Axis(iter_var.var.name, size, iter_var.iter_type == 2)
        self._axes[iter_var.var] = axis
        return axis

    def _store(
        self,
        block: s_tir.SBlock,
        store: tirx.BufferStore,
        init: tirx.BufferStore | None,
        axes: tuple[Axis, ...],
    ) -> Stage:
        out = self.tensor(store.buffer)
        index = tuple(self.expr(i) for i in store.indices)
        if any(is_data_dependent(i) for i in index):
            raise _Unreadable(f"sblock {block.name_hint} stores where a tensor says")
        value = self.expr(store.value)
        if init is None:
            if _reads(value, out) or any(a.is_reduce for a in axes):
                raise _Unreadable(f"sblock {block.name_hint} updates in place without an init")
            return Stage(block.name_hint, out, axes, index, value)
        identity = self.expr(init.value)
        kind = _COMBINERS.get(value.name) if isinstance(value, Op) else None
        mine = Load(out, index)
        if kind is None or mine not in value.args or not isinstance(identity, Const):
            raise _Unreadable(f"the reduction of sblock {block.name_hint} is not a known one")
        term = value.args[1] if value.args[0] == mine else value.args[0]
        if _reads(term, out):
            raise _Unreadable(f"sblock {block.name_hint} reads what it reduces")
        return Stage(block.name_hint, out, axes, index, term, Reduction(kind, identity.value))

    def expr(self, node: ir.Expr) -> Expr:
        if isinstance(node, (tirx.IntImm, tirx.FloatImm)):
            # Not memoised: TVM calls equal literals of different dtypes equal keys.
            return Const(_literal(node), _dtype(node))
        if node not in self._memo:
            self._memo[node] = self._read(node)
        return self._memo[node]

    def _read(self, node: ir.Expr) -> Expr:
        name = _BINARY_NODES.get(type(node))
        if name is not None:
            return Op(name, (self.expr(node.a), self.expr(node.b)), _dtype(node))
        if isinstance(node, ir.Var):
            if node in self._axes:
                return AxisRef(self._axes[node], _dtype(node))
            if node in self._lets:
                return self._lets[node]
            raise _Unreadable(f"a value depends on {node.name}, which no axis defines")
        if isinstance(node, ir.TensorLoad):
            return Load(self.tensor(node.source), tuple(self.expr(i) for i in node.indices))
        if isinstance(node, tirx.Cast):
            return Op("Cast", (self.expr(node.value),), _dtype(node))
        if isinstance(node, (tirx.Not, tirx.BitwiseNot)):
            return Op(type(node).__name__, (self.expr(node.a),), _dtype(node))
        if isinstance(node, tirx.Select):
            parts = (node.condition, node.true_value, node.false_value)
            return _chosen(tuple(self.expr(p) for p in parts), _dtype(node))
        if isinstance(node, tirx.Let):
            self._lets[node.var] = self.expr(node.value)
            return self.expr(node.body)
        if isinstance(node, ir.Call):
            return self._call(node)
        raise _Unreadable(f"expression {type(node).__name__} is not supported")

    def _call(self, node: ir.Call) -> Expr:
        name = "tirx." + getattr(node.op, "name", "").rpartition(".")[2]
        if name not in _PURE_CALLS:
            raise _Unreadable(f"call {name or node.op} is not known to be pure")
        if name == "tirx.likely":
            return self.expr(node.args[0])
        if name == "tirx.call_llvm_pure_intrin":
            args = tuple(self.expr(a) for a in node.args[1:])
            return Op(f"call:{name}", args, _dtype(node), (int(node.args[0]),))
        return Op(f"call:{name}", tuple(self.expr(a) for a in node.args), _dtype(node))


def _chosen(parts: tuple[Expr, Expr, Expr], dtype: str) -> Op:
    """Return a choice; one of two branches if a side reads where only its condition lets it.

    TVM drops a bound of an index that the condition implies, of a Select too, both of whose sides
    run: LLVM then takes the condition for true.
    """
    leaves = any(_may_leave(load) for side in parts[1:] for load in _run_loads(side))
    return Op(BRANCH if leaves else "Select", parts, dtype)


def _run_loads(value: Expr) -> Iterator[Load]:
    """Yield the loads of a value that run whatever the conditions of its branches."""
    if isinstance(value, Load):
        yield value
    if isinstance(value, Op):
        for arg in value.args[:1] if value.name == BRANCH else value.args:
            yield from _run_loads(arg)


def _may_leave(load: Load) -> bool:
    for index, extent in zip(load.index, load.tensor.shape, strict=True):
        found = None if is_data_dependent(index) else bounds(normalize(index))
        if found is not None and not 0 <= found[0] <= found[1] < max(extent, 1):
            return True
    return False


def _reads(value: Expr, out: Tensor) -> bool:
    return any(isinstance(n, Load) and n.tensor is out for n in walk(value))


def _matching(inits: list[tirx.BufferStore], store: tirx.BufferStore) -> tirx.BufferStore | None:
    return next((i for i in inits if i.buffer.same_as(store.buffer)), None)


def _dtype(node: ir.Expr) -> str:
    return str(node.ty.dtype)


def _literal(node: ir.Expr) -> int | float | bool:
    if isinstance(node, tirx.FloatImm):
        return float(node.value)
    return bool(node.value) if _dtype(node) == "bool" else int(node.value)


def _is_zero(node: ir.Expr) -> bool:
    return isinstance(node, tirx.IntImm) and int(node) == 0


def _is_true(node: ir.Expr) -> bool:
    return isinstance(node, tirx.IntImm) and bool(node.value)

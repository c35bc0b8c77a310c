"""Turn the Let expressions of a kernel into local buffers of one vector.

TVM's analyzer substitutes the value of a Let for its variable in every pass and again in LLVM's
code generator, so compile time grows as the product of the use counts along a chain of Lets: two
math functions in a row take 0.4 s, three take minutes. It never substitutes a load, and LLVM keeps
a local buffer of constant size in a register (in scope "global" and below 1024 bytes: anything else
becomes a heap workspace). TVM's bfloat16 legalisation also aborts on Lets.
"""

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, Op, TensorLoad

_MAY_TRAP = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


def materialise_lets(node: tirx.Stmt | tirx.PrimFunc) -> tirx.Stmt | tirx.PrimFunc:
    """Store the value of every Let under a BufferStore in a local buffer before that store.

    rewrite: for v in T.vectorized(16): B[v] = T.Let(n * n, where={n: f(A[v])})
          -> n = T.alloc_buffer((16,))
             for v in T.vectorized(16): n[v] = f(A[v]); B[v] = n[v] * n[v]
    A value below an `if_then_else` that reads memory keeps its guard. Lets outside BufferStores
    stay. Run it after scheduling: the buffers are indexed by the loop variable, inside sblocks too.
    """
    if isinstance(node, tirx.PrimFunc):
        return node.with_body(materialise_lets(node.body))
    return _Loops().rewrite(node)


class _Loops:
    """Keeps the vectorised loop around the statement being rewritten, and its new buffers."""

    def __init__(self) -> None:
        self._lanes: tirx.For | None = None
        self._buffers: list[tirx.Buffer] = []

    def rewrite(self, stmt: tirx.Stmt) -> tirx.Stmt:
        callbacks = [(tirx.For, self._loop), (tirx.BufferStore, self._store)]
        return tvm_ffi.structural_mutate(stmt, callbacks)

    def _loop(self, loop: tirx.For, mutator: tvm_ffi.StructuralMutator) -> tirx.Stmt:
        if self._lanes is not None or loop.kind != tirx.ForKind.VECTORIZED:
            return mutator.default_mutate(loop)
        self._lanes = loop
        loop = mutator.default_mutate(loop)
        self._lanes = None
        return self._allocated(loop)

    def _store(self, store: tirx.BufferStore, _mutator: tvm_ffi.StructuralMutator) -> tirx.Stmt:
        values = _Values(self._lanes)
        value = values.rewrite(store.value)
        if not values.stores:
            return store
        self._buffers += [s.buffer for s in values.stores]
        last = tirx.BufferStore(store.buffer, value, store.indices)
        stmt = tirx.SeqStmt([*values.stores, last])
        return stmt if self._lanes is not None else self._allocated(stmt)

    def _allocated(self, stmt: tirx.Stmt) -> tirx.Stmt:
        buffers, self._buffers = self._buffers, []
        return tirx.SeqStmt([*map(tirx.AllocBuffer, buffers), stmt]) if buffers else stmt


class _Values:
    """Collects in `stores` what the Lets of one expression bind, in order of evaluation."""

    def __init__(self, lanes: tirx.For | None) -> None:
        self.stores: list[tirx.BufferStore] = []
        self._shape = [lanes.extent if lanes is not None else 1]
        self._index = [lanes.loop_var - lanes.min if lanes is not None else 0]
        self._loads: dict[tirx.Var, Expr] = {}
        self._made: set[tirx.Var] = set()
        self._guards: list[Expr] = []

    def rewrite(self, expr: Expr) -> Expr:
        callbacks = [(tirx.Let, self._let), (tirx.Var, self._var), (Call, self._call)]
        return tvm_ffi.structural_mutate(expr, callbacks)

    def _let(self, let: tirx.Let, mutator: tvm_ffi.StructuralMutator) -> Expr:
        if let.var not in self._loads:
            value = mutator.mutate(let.value)
            if self._guards and self._must_be_guarded(value):
                zero = tirx.const(0, value.ty.dtype)
                value = tirx.if_then_else(tirx.all(*self._guards), value, zero)
            buffer = tirx.decl_buffer(self._shape, value.ty.dtype, let.var.name, scope="global")
            self._made.add(buffer)
            self.stores.append(tirx.BufferStore(buffer, value, self._index))
            self._loads[let.var] = tirx.BufferLoad(buffer, self._index)
        return mutator.mutate(let.body)

    def _var(self, var: tirx.Var, _mutator: tvm_ffi.StructuralMutator) -> Expr:
        return self._loads.get(var, var)

    def _call(self, call: Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
        if not isinstance(call.op, Op) or not call.op.name.endswith(".if_then_else"):
            return mutator.default_mutate(call)
        condition = mutator.mutate(call.args[0])
        branches = []
        for guard, branch in zip((condition, tirx.Not(condition)), call.args[1:], strict=True):
            self._guards.append(guard)
            branches.append(mutator.mutate(branch))
            self._guards.pop()
        return tirx.if_then_else(condition, *branches)

    def _must_be_guarded(self, value: Expr) -> bool:
        def stop(node: Expr) -> tvm_ffi.VisitInterrupt | None:
            harmless = isinstance(node, TensorLoad) and node.source in self._made
            return None if harmless else tvm_ffi.VisitInterrupt()

        return tvm_ffi.structural_walk(value, ((TensorLoad, *_MAY_TRAP), stop)) is not None

"""Sort numbers of types that TVM's runtime does not sort as wider ones in the same order."""

from __future__ import annotations

import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..graph.graph_functions import rewritten

_SORTS = ("relax.topk", "relax.sort", "relax.argsort")
# What runtime/extra/contrib/sort/sort.cc has no case for, and what holds each of its numbers.
_WIDER = {
    "int16": "int64",
    "uint16": "int64",
    "uint32": "int64",
    "uint64": "int64",
    "bfloat16": "float32",
}
_TOP_BIT = 1 << 63


@tvm.transform.module_pass(opt_level=0, name="WidenSorts")
class WidenSorts:
    """Sort what the runtime has no code for as int64 or float32.

    rewrite: topk(x: uint16) -> values = topk(astype(x, int64)); astype(values, uint16), indices

    Of uint64 the top bit is flipped before and behind: as int64 they are in the same order then.
    Runs before DispatchSortScan, which knows every type and leaves the refusal to the run.
    """

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        return rewritten(mod, lambda mod, _: _Widener(mod))


@mutator
class _Widener(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.found = False

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, ir.Op) or call.op.name not in _SORTS:
            return call
        dtype = str(call.args[0].ty.dtype)
        wide = _WIDER.get(dtype)
        if wide is None:
            return call
        self.found = True
        emit = self.builder_.emit
        x = emit(_wider(call.args[0], dtype, wide))
        made = emit(relax.Call(call.op, [x], call.attrs))
        if isinstance(made.ty, relax.TupleType):
            values, indices = (emit(relax.TupleGetItem(made, n)) for n in range(2))
            return relax.Tuple([emit(_narrower(values, dtype)), indices])
        return _narrower(made, dtype) if _gives_values(call) else made


def _gives_values(call: relax.Call) -> bool:
    if call.op.name == "relax.topk":
        return call.attrs.ret_type == "values"
    return call.op.name == "relax.sort"


def _wider(x: relax.Expr, dtype: str, wide: str) -> relax.Expr:
    return relax.op.astype(_flipped(x) if dtype == "uint64" else x, wide)


def _narrower(x: relax.Expr, dtype: str) -> relax.Expr:
    narrow = relax.op.astype(x, dtype)
    return _flipped(narrow) if dtype == "uint64" else narrow


def _flipped(x: relax.Expr) -> relax.Expr:
    return relax.op.bitwise_xor(x, relax.const(_TOP_BIT, "uint64"))

"""LegalizeOps that names the call which no rule can legalise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm
from tvm import relax
from tvm.ir import IRModule, Op
from tvm.ir.transform import PassContext
from tvm_ffi import structural_equal

from ...graph.graph_functions import graph_functions
from .legalize import LEGALIZATIONS

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
# What TVM's converters and legalisations raise for an operator that they cannot translate.
REFUSALS = (RuntimeError, ValueError, TypeError, AttributeError, AssertionError,
            NotImplementedError, IndexError, KeyError, OverflowError)  # fmt: skip


class NotLegalized(Exception):
    """No rule can legalise a call: of `op`, bound to the variable `place`, for that `reason`."""

    def __init__(self, op: str, place: str, reason: str) -> None:
        self.op, self.place, self.reason = op, place, reason
        super().__init__(f"{op} {place!r}: {reason}")


@tvm.transform.module_pass(opt_level=0, name="NamedLegalize")
class NamedLegalize:
    """Apply our legalisations and TVM's.

    rewrite: y = relax.exp(x)   ->   y = call_tir(exp, (x,))

    What the rule for an operator raises comes out, and `refusal` then is what it means: of an
    exception of ours TVM, which calls this, would make another.
    """

    def __init__(self) -> None:
        self.refusal: NotLegalized | None = None

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        refused: list[tuple[relax.Call, Exception]] = []

        def watched(rule: Legalizer) -> Legalizer:
            def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
                try:
                    made = rule(builder, call)
                    _check_dtypes(made, call)
                    return made
                except REFUSALS as error:
                    refused.append((call, error))
                    raise

            return legalize

        rules = {name: watched(rule) for name, rule in _rules().items()}
        try:
            return relax.transform.LegalizeOps(rules)(mod)
        except REFUSALS:
            if refused:
                call, raised = refused[0]
                reason = str(raised).strip().splitlines() or [type(raised).__name__]
                self.refusal = NotLegalized(call.op.name, _place(mod, call), reason[-1])
            raise


def _check_dtypes(made: relax.Expr, call: relax.Call) -> None:
    """Raise TypeError if a rule makes other types than the operator says: nobody would see it."""
    of_kernel = isinstance(made, relax.Call) and made.op == Op.get("relax.call_tir")
    found = _dtypes(made.ty_args[0] if of_kernel else made.ty)
    wanted = _dtypes(call.ty)
    if None not in (found, wanted) and found != wanted:
        raise TypeError(f"TVM's kernel makes {', '.join(found)} of it, not {', '.join(wanted)}")


def _dtypes(ty: object) -> list[str] | None:
    """Return the types of elements of a tensor, or of those of a tuple; None: something else."""
    if isinstance(ty, relax.TupleType):
        fields = [_dtypes(field) for field in ty.fields]
        return None if None in fields else [dtype for field in fields for dtype in field]
    return [str(ty.dtype)] if isinstance(ty, relax.TensorType) else None


def _rules() -> Mapping[str, Legalizer]:
    """Return a rule for each operator of Relax that has one."""
    ops = (Op.get(name) for name in map(str, Op.list_op_names()) if name.startswith("relax."))
    of_tvm = {op.name: op.get_attr("FLegalize") for op in ops}
    return {**{name: rule for name, rule in of_tvm.items() if rule is not None}, **LEGALIZATIONS}


def _place(mod: IRModule, call: relax.Call) -> str:
    """Return the variable of the first call like this one, whose operands may be legalised yet."""
    for _, func in graph_functions(mod):
        for block in func.body.blocks:
            for binding in block.bindings:
                value = getattr(binding, "value", None)
                if (
                    isinstance(value, relax.Call)
                    and value.op == call.op
                    and structural_equal(value.attrs, call.attrs)
                    and structural_equal(value.ty, call.ty)
                ):
                    return binding.var.name
    return ""

"""The graph that fusion works on: call_tir bindings of a dataflow block, summarised."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import ir, relax, tirx
from tvm.ir import IRModule
from tvm_ffi import structural_hash

from tir_schedules.analysis.kernel_facts import op_class, summarize
from tir_schedules.kernel_ir.expr import Tensor
from tir_schedules.kernel_ir.stage import Kernel, Refusal

_CALL_TIR = "relax.call_tir"
Summary = tuple[Kernel | Refusal, int]


@dataclass(eq=False)
class OpNode:
    """One binding. `kernel` says what it computes, or why fusion must leave it alone.

    `inputs` has a tensor for each tensor argument and `outputs` one for each result; tensors are
    shared between the node that makes them and those that read them.
    """

    index: int
    name: str
    var: relax.Var
    kernel: Kernel | Refusal
    op_class: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    func_hash: int = 0
    producers: tuple[OpNode, ...] = ()
    consumers: list[OpNode] = field(default_factory=list)
    escapes: bool = False  # some result is an output of the block

    @property
    def is_constant(self) -> bool:
        return self.name == "GenericConst"

    @property
    def is_result(self) -> bool:
        """Return whether the binding only gathers the results of the block."""
        return self.escapes and self.name in ("Tuple", "Var", "DataflowVar")

    def __repr__(self) -> str:
        return f"{self.index}:{self.name}"


class OpGraph:
    """The op graph of one dataflow block, in program order."""

    def __init__(
        self, mod: IRModule, block: relax.DataflowBlock, cache: dict[str, Summary]
    ) -> None:
        self._mod, self._cache = mod, cache
        self.nodes: list[OpNode] = []
        self._tensors: dict[relax.Var, tuple[Tensor, ...]] = {}
        self._makers: dict[Tensor, OpNode] = {}
        for binding in block.bindings:
            self._add(binding)

    def tensors_of(self, var: relax.Var) -> tuple[Tensor, ...]:
        """Return the tensors a variable holds, one for each field of a tuple."""
        if var not in self._tensors:
            self._tensors[var] = _new_tensors(var)
        return self._tensors[var]

    def maker(self, tensor: Tensor) -> OpNode | None:
        return self._makers.get(tensor)

    def _add(self, binding: relax.Binding) -> None:
        var, value = binding.var, getattr(binding, "value", None)
        kernel: Kernel | Refusal = Refusal("not a call_tir binding")
        inputs: tuple[Tensor, ...] = ()
        name, digest = _short_name(value), 0
        alias = self._alias(value)
        if alias is not None:
            self._tensors[var] = alias
            node = OpNode(len(self.nodes), "tuple_get_item", var, kernel, "alias", alias, ())
        else:
            if isinstance(value, relax.Call) and getattr(value.op, "name", "") == _CALL_TIR:
                gvar = value.args[0]
                name, inputs = gvar.name_hint, self._arguments(value.args[1])
                kernel, digest = self._summary(gvar)
                if len(value.args) > 2:
                    kernel = Refusal("symbolic shape arguments")
            outputs = self.tensors_of(var)
            used = inputs or tuple(t for v in _free_vars(value) for t in self.tensors_of(v))
            node = OpNode(
                len(self.nodes), name, var, kernel, op_class(kernel), used, outputs, digest
            )
            for tensor in outputs:
                self._makers[tensor] = node
            if isinstance(kernel, Kernel) and len(kernel.params) != len(inputs) + len(outputs):
                node.kernel, node.op_class = Refusal("arguments do not match"), "opaque"
        if not isinstance(var, relax.DataflowVar):
            node.escapes = True
        makers = dict.fromkeys(map(self.maker, node.inputs))
        node.producers = tuple(m for m in makers if m is not None)
        for maker in node.producers:
            maker.consumers.append(node)
        self.nodes.append(node)

    def _alias(self, value: relax.Expr) -> tuple[Tensor, ...] | None:
        if isinstance(value, relax.TupleGetItem) and isinstance(value.tuple_value, relax.Var):
            fields = self.tensors_of(value.tuple_value)
            return (fields[value.index],) if value.index < len(fields) else None
        return None

    def _arguments(self, args: relax.Expr) -> tuple[Tensor, ...]:
        fields = args.fields if isinstance(args, relax.Tuple) else [args]
        out: list[Tensor] = []
        for arg in fields:
            out += self.tensors_of(arg) if isinstance(arg, relax.Var) else _new_tensors(arg)
        return tuple(out)

    def _summary(self, gvar: ir.GlobalVar) -> Summary:
        """Return what a function computes, and a hash of it: names say nothing of that."""
        key = gvar.name_hint
        if key not in self._cache:
            self._cache[key] = _summary(self._mod[gvar])
        return self._cache[key]


def _summary(func: object) -> Summary:
    if not isinstance(func, tirx.PrimFunc):
        return Refusal("not a PrimFunc"), 0
    return summarize(func), function_hash(func)


def function_hash(func: tirx.PrimFunc) -> int:
    """Return a hash of what a function computes, whatever it and what is in it are called."""
    return structural_hash(func.without_attr("global_symbol"), map_free_vars=True)


def _new_tensors(expr: relax.Expr) -> tuple[Tensor, ...]:
    """Return a tensor for each static tensor in the expression's type, none for anything else."""
    name = expr.name if isinstance(expr, relax.Var) else "constant"
    fields = expr.ty.fields if isinstance(expr.ty, ir.TupleType) else [expr.ty]
    out = []
    for number, ty in enumerate(fields):
        shape = getattr(ty, "shape", None)
        if shape is None or not all(isinstance(d, tirx.IntImm) for d in shape):
            return ()
        suffix = f"_{number}" if len(fields) > 1 else ""
        out.append(Tensor(name + suffix, tuple(int(d) for d in shape), str(ty.dtype)))
    return tuple(out)


def _short_name(value: relax.Expr) -> str:
    if isinstance(value, relax.Call):
        name = getattr(value.op, "name", None) or getattr(value.op, "name_hint", None)
        return str(name or "call")
    return type(value).__name__


def _free_vars(value: relax.Expr) -> list[relax.Var]:
    return list(relax.analysis.free_vars(value)) if value is not None else []

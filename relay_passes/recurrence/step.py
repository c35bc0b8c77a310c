"""One step of a loop as a single PrimFunc, and what its parameters are to the loop."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, relax, te, tirx
from tvm.ir import IRModule

from tir_schedules.device import Device
from tir_schedules.recurrence import Recurrence, Role

from ..fusion.stitch_ops import StitchOps
from ..graph.fusion_plan import FusionPlan
from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph
from .loops import Loop

_CALL_TIR = "relax.call_tir"


@dataclass(frozen=True)
class Step:
    """The PrimFunc and the roles of its parameters; `fixed` are those that every step reads."""

    name: str
    func: tirx.PrimFunc
    recurrence: Recurrence
    fixed: tuple[relax.Expr, ...]


@dataclass(frozen=True)
class _Single:
    """Main as one PrimFunc; `places` are its parameters' places among main's.

    Main's are its parameters, its results, and the `constants` in it.
    """

    name: str
    func: tirx.PrimFunc
    places: list[int]
    constants: tuple[relax.Expr, ...]


def one_step(mod: IRModule, loop: Loop, device: Device) -> Step | str:
    """Return a loop's step, or why it is not one kernel."""
    for binding in loop.body:
        if not _is_kernel(binding.value):
            return f"{binding.var.name} is no kernel"
    function, roles = _outlined(mod, loop)
    single = _fused(function, device)
    if isinstance(single, str):
        return single
    fixed = len(loop.fixed)
    more = [Role("fixed", fixed + n) for n in range(len(single.constants))]
    found = tuple([*roles, *more][place] for place in single.places)
    recurrence = Recurrence(loop.steps, found)
    return Step(single.name, single.func, recurrence, (*loop.fixed, *single.constants))


def _is_kernel(value: relax.Expr) -> bool:
    called = isinstance(value, relax.Call) and getattr(value.op, "name", "") == _CALL_TIR
    return (called and len(value.args) == 2) or isinstance(value, relax.TupleGetItem)


def _outlined(mod: IRModule, loop: Loop) -> tuple[IRModule, list[Role]]:
    """Return a module whose main is a step, and the roles of its parameters and results.

    Results are tensors of their own: one that is handed on twice, or on as it came, is copied.
    """
    kernels = {v: f for v, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    builder = relax.BlockBuilder(IRModule(kernels))
    sources = [*(b.var for b in loop.each), *(b.var for b in loop.carries), *loop.fixed]
    params = [relax.Var(f"p{n}", var.ty) for n, var in enumerate(sources)]
    inside: dict[relax.Var, relax.Expr] = dict(zip(sources, params, strict=True))
    made: set[relax.Expr] = set()
    with builder.function("main", params):
        with builder.dataflow():
            for binding in loop.body:
                inside[binding.var] = builder.emit(substituted(binding.value, inside))
            results = []
            for result in loop.results:
                value = inside.get(result, result)
                known = isinstance(value, relax.Var) and value not in params
                if not known or value in made:
                    value = builder.emit(builder.call_te(_copy, value))
                made.add(value)
                results.append(value)
            gv = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(gv)
    count = len(loop.carries)
    ways = loop.backwards(loop.end)
    roles = [
        *(Role("each", n, loop.backwards(b)[0]) for n, b in enumerate(loop.each)),
        *(Role("carry", n) for n in range(count)),
        *(Role("fixed", n) for n in range(len(loop.fixed))),
        *(Role("next", n) for n in range(count)),
        *(Role("stack", n, back) for n, back in enumerate(ways)),
    ]
    return builder.finalize(), roles


def substituted(value: relax.Expr, inside: dict[relax.Var, relax.Expr]) -> relax.Expr:
    """Return a binding's value on other operands."""
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(inside.get(value.tuple_value, value.tuple_value), value.index)
    gvar, arguments = value.args
    fields = arguments.fields if isinstance(arguments, relax.Tuple) else [arguments]
    args = [gvar, relax.Tuple([inside.get(field, field) for field in fields])]
    return relax.Call(value.op, args, value.attrs, value.ty_args, ret_ty=value.ty)


def _fused(mod: IRModule, device: Device) -> _Single | str:
    whole = _Whole()
    mod = StitchOps(device, planner=whole)(mod)
    if whole.refusal is not None:
        return whole.refusal
    mod = relax.transform.FuseTIR()(mod)
    main = mod["main"]
    bindings = [b for block in main.body.blocks for b in block.bindings]
    calls = [b for b in bindings if getattr(getattr(b.value, "op", None), "name", "") == _CALL_TIR]
    if len(calls) != 1:
        return f"it is {len(calls)} kernels"
    (call,) = calls
    gvar, arguments = call.value.args
    fields = arguments.fields if isinstance(arguments, relax.Tuple) else [arguments]
    known: dict[relax.Expr, int] = {param: n for n, param in enumerate(main.params)}
    results = _result_places(bindings, call)
    constants = tuple(field for field in fields if field not in known)
    behind = len(main.params) + len(results)
    known |= {constant: behind + n for n, constant in enumerate(constants)}
    places = [known[field] for field in fields]
    places += [len(main.params) + n for n in results]
    return _Single(gvar.name_hint, mod[gvar], places, constants)


def _result_places(bindings: list[relax.Binding], call: relax.VarBinding) -> list[int]:
    """Return for each result of the kernel its place among main's results."""
    values: dict[relax.Var, relax.Expr] = {b.var: b.value for b in bindings}
    single = not isinstance(call.var.ty, ir.TupleType)

    def result(expr: relax.Expr) -> int:
        if expr is call.var or (isinstance(expr, relax.Var) and expr.same_as(call.var)):
            if not single:
                raise ValueError("a step's results are one tuple")
            return 0
        if isinstance(expr, relax.TupleGetItem):
            return expr.index
        return result(values[expr])

    last = next(b.value for b in reversed(bindings) if isinstance(b.value, relax.Tuple))
    order = [result(field) for field in last.fields]
    return [order.index(n) for n in range(len(order))]


class _Whole:
    """A planner that makes all operators one kernel; `refusal` says why it can't."""

    def __init__(self) -> None:
        self.refusal: str | None = None

    def plan(self, graph: OpGraph) -> FusionPlan:
        nodes = [n for n in graph.nodes if n.op_class != "alias" and not n.is_result]
        reasons = (f"{n.name}: {why}" for n in nodes if (why := refuse_node(n)) is not None)
        self.refusal = next(reasons, None)
        rest = [Group([n]) for n in graph.nodes if n not in nodes]
        groups = [Group(nodes)] if self.refusal is None else [Group([n]) for n in nodes]
        return FusionPlan(graph, [*groups, *rest], 0)


def _copy(x: te.Tensor) -> te.Tensor:
    # A tensor by itself has one axis for te.compute: a state may be a number.
    return te.compute(x.shape, lambda *place: x(*place), "state")  # noqa: PLW0108

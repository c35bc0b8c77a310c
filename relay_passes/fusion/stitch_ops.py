"""Turn a fusion plan into Primitive functions, one a group. FuseTIR must follow."""

from __future__ import annotations

import logging
from typing import Protocol

import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.apply import OPAQUE_PATTERN
from tir_schedules.backend import current_device
from tir_schedules.decision_source import current
from tir_schedules.device import Device
from tir_schedules.kernel_ir.expr import Tensor

from ..graph.fusion_plan import FusionPlan
from ..graph.graph_functions import graph_functions
from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph, OpNode
from ..policy import POLICY, FusionPolicy
from .planner import StitchPlanner
from .take_apart import NOTHING, Apart, take_apart

logger = logging.getLogger("tvm_stitch.fusion")
_NAME_OPS = 4


class Planner(Protocol):
    """Decides which ops become one kernel."""

    def plan(self, graph: OpGraph) -> FusionPlan:
        """Return every op of the graph in one legal group."""


@tvm.transform.module_pass(opt_level=0, name="StitchOps")
class StitchOps:
    """Group call_tir bindings into functions that FuseTIR makes single kernels of.

    Constants become arguments: FuseTIR takes none, and identical layers then share one function.

    rewrite:
        lv = call_tir(add, (x, y)); lv1 = call_tir(softmax, (lv,)); lv2 = call_tir(exp, (lv1,))
      -> lv2 = stitch_add_softmax_exp(x, y)       # Primitive

    `device` defaults to what the current target describes, `planner` to one of our own for it, by a
    `policy`; a log that the caller has entered (tir_schedules.decision_source) regroups its plans.
    What `apart` tells of is taken apart behind it.
    `plans` maps each new function's name to its group after a run. Functions without dataflow
    blocks and all other bindings stay.
    """

    def __init__(
        self,
        device: Device | None = None,
        planner: Planner | None = None,
        apart: Apart = NOTHING,
        policy: FusionPolicy = POLICY.fusion,
    ) -> None:
        self._device, self._planner, self._apart = device, planner, apart
        self._policy = policy
        self.plans: dict[str, Group] = {}
        self.graphs: list[FusionPlan] = []

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or current_device()
        if device is None:
            logger.debug("the target has no backend: nothing is stitched")
            return mod
        deciding = device.deciding()
        planner = self._planner
        if planner is None:
            planner, source = StitchPlanner(deciding, self._policy), current()
            planner = planner if source is None else source.planner(planner, device)
        planner = _WithoutWrong(planner, self._apart, deciding)
        builder = relax.BlockBuilder(IRModule(mod.functions, attrs=mod.attrs))
        kernels: dict[str, object] = {}
        for gvar, func in graph_functions(mod):
            rewriter = _Rewriter(mod, builder, planner, kernels, self)
            rewritten = rewriter.function(func)
            if rewritten is not None:
                builder.update_func(builder.get().get_global_var(gvar.name_hint), rewritten)
        _keep_alone(builder, self.graphs)
        return relax.transform.Normalize()(builder.get())


class _WithoutWrong:
    """A planner whose plans have no group that was found wrong."""

    def __init__(self, planner: Planner, apart: Apart, device: Device) -> None:
        self._planner, self._apart, self._device = planner, apart, device

    def plan(self, graph: OpGraph) -> FusionPlan:
        return take_apart(self._planner.plan(graph), self._apart.groups, self._device)


class _Rewriter:
    def __init__(
        self,
        mod: IRModule,
        builder: relax.BlockBuilder,
        planner: Planner,
        kernels: dict,
        owner: StitchOps,
    ) -> None:
        self._mod, self._builder, self._planner = mod, builder, planner
        self._kernels, self._owner = kernels, owner

    def function(self, func: relax.Function) -> relax.Function | None:
        """Return the function with its groups outlined, None if it has none."""
        if not isinstance(func.body, relax.SeqExpr):
            return None
        blocks, changed = [], False
        for block in func.body.blocks:
            new = self._block(block) if isinstance(block, relax.DataflowBlock) else None
            blocks.append(block if new is None else new)
            changed = changed or new is not None
        if not changed:
            return None
        body = relax.SeqExpr(blocks, func.body.body)
        attrs = dict(func.attrs.items()) if func.attrs else {}
        new = relax.Function(func.params, body, func.ret_ty, func.is_pure)
        return new.with_attrs(attrs) if attrs else new

    def _block(self, block: relax.DataflowBlock) -> relax.DataflowBlock | None:
        graph = OpGraph(self._mod, block, self._kernels)
        plan = self._planner.plan(graph)
        plan.explain()
        self._owner.graphs.append(plan)
        if not any(len(g.nodes) > 1 for g in plan.groups):
            return None
        originals = list(block.bindings)
        out = [originals[n.index] for n in graph.nodes if n.op_class == "alias" and not n.producers]
        for group in plan.groups:
            first = group.nodes[0]
            if len(group.nodes) > 1:
                out += self._call(group, originals)
            elif first.op_class != "alias":
                out.append(originals[first.index])
                out += [originals[c.index] for c in first.consumers if c.op_class == "alias"]
        return relax.DataflowBlock(out)

    def _call(self, group: Group, originals: list[relax.Binding]) -> list[relax.Binding]:
        inputs, outputs = group.inputs(), group.outputs()
        arguments = _argument_exprs(group, originals)
        func = self._outline(group, inputs, outputs, originals, arguments)
        gvar = self._builder.add_func(func, _group_name(group))
        self._owner.plans[gvar.name_hint] = group
        logger.debug("%s: %s", gvar.name_hint, ", ".join(n.name for n in group.nodes))
        call = relax.Call(gvar, [arguments[t] for t in inputs], ret_ty=func.ret_ty)
        names = _result_vars(group, originals)
        if len(outputs) == 1:
            return [relax.VarBinding(names[outputs[0]], call)]
        holder = relax.DataflowVar(f"{gvar.name_hint}_out", func.ret_ty)
        bindings: list[relax.Binding] = [relax.VarBinding(holder, call)]
        for position, tensor in enumerate(outputs):
            item = relax.TupleGetItem(holder, position)
            bindings.append(relax.VarBinding(names[tensor], item))
        return bindings

    def _outline(
        self,
        group: Group,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        originals: list[relax.Binding],
        arguments: dict[Tensor, relax.Expr],
    ) -> relax.Function:
        inside: dict[Tensor, relax.Expr] = {}
        params = []
        for number, tensor in enumerate(inputs):
            param = relax.Var(f"p{number}", arguments[tensor].ty)
            params.append(param)
            inside[tensor] = param
        bindings: list[relax.Binding] = []
        for node in group.nodes:
            if node.op_class != "alias":
                bindings += _inner_bindings(node, originals[node.index].value, inside)
        fields = [inside[t] for t in outputs]
        result = fields[0] if len(fields) == 1 else relax.Tuple(fields)
        kind = fields[0].ty if len(fields) == 1 else ir.TupleType([f.ty for f in fields])
        gv = relax.Var("gv", kind)
        bindings.append(relax.VarBinding(gv, result))
        body = relax.SeqExpr([relax.DataflowBlock(bindings)], gv)
        func = relax.Function(params, body, gv.ty)
        return func.with_attr("Primitive", True)


def _inner_bindings(
    node: OpNode, value: relax.Call, inside: dict[Tensor, relax.Expr]
) -> list[relax.Binding]:
    """Copy a call_tir into the group function; a tuple of results is taken apart at once."""
    args = [inside[t] for t in node.inputs]
    call = relax.Call(
        value.op, [value.args[0], relax.Tuple(args)], value.attrs, value.ty_args, ret_ty=node.var.ty
    )
    var = relax.DataflowVar(f"v{node.index}", node.var.ty)
    out: list[relax.Binding] = [relax.VarBinding(var, call)]
    if not isinstance(node.var.ty, ir.TupleType):
        inside[node.outputs[0]] = var
        return out
    for position, tensor in enumerate(node.outputs):
        item = relax.DataflowVar(f"v{node.index}_{position}", node.var.ty.fields[position])
        out.append(relax.VarBinding(item, relax.TupleGetItem(var, position)))
        inside[tensor] = item
    return out


def _argument_exprs(group: Group, originals: list[relax.Binding]) -> dict[Tensor, relax.Expr]:
    """Return the expression that holds each tensor a group reads."""
    found: dict[Tensor, relax.Expr] = {}
    for node in group.nodes:
        if node.op_class == "alias":
            continue
        args = originals[node.index].value.args[1]
        fields = args.fields if isinstance(args, relax.Tuple) else [args]
        for tensor, expr in zip(node.inputs, fields, strict=True):
            found.setdefault(tensor, expr)
    return found


def _result_vars(group: Group, originals: list[relax.Binding]) -> dict[Tensor, relax.Var]:
    """Return the variable by which the rest of the block knows each result."""
    found: dict[Tensor, relax.Var] = {}
    for node in group.nodes:
        for consumer in (node, *node.consumers):
            if consumer.op_class == "alias":
                found[consumer.inputs[0]] = consumer.var
        if len(node.outputs) == 1 and not isinstance(node.var.ty, ir.TupleType):
            found[node.outputs[0]] = node.var
    return found


def _keep_alone(builder: relax.BlockBuilder, plans: list[FusionPlan]) -> None:
    """Mark the ops that are planned to stay kernels of their own: FuseOps would join them."""
    alone = (g.nodes[0] for plan in plans for g in plan.groups if len(g.nodes) == 1)
    for name in sorted({n.name for n in alone if refuse_node(n) is None}):
        gvar = builder.get().get_global_var(name)
        builder.update_func(gvar, builder.get()[gvar].with_attr("op_pattern", OPAQUE_PATTERN))


def _group_name(group: Group) -> str:
    names = [n.name for n in group.nodes if n.op_class != "alias"]
    more = [f"and_{len(names) - _NAME_OPS}"] if len(names) > _NAME_OPS else []
    return "_".join(["stitch", *names[:_NAME_OPS], *more])

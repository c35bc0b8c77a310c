"""A region as a model of its own, its kernels grouped by a partition and scheduled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, relax
from tvm.ir import IRModule
from tvm.target import Target

from relay_passes.graph.fusion_plan import FusionPlan, execution_order
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpGraph, OpNode
from relay_passes.transform import Sequential, StitchOps
from tir_schedules import ApplyStitchSchedules
from tir_schedules.device import Device
from tir_schedules.kernel_ir.expr import Tensor

from .partition import Partition, grouped, kernel_nodes
from .regions import union


class _Grouped:
    """A planner that groups a region's ops as it is told."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def plan(self, graph: OpGraph) -> FusionPlan:
        ops = [node for node in graph.nodes if node.func_hash]
        others = [Group([node]) for node in graph.nodes if not node.func_hash]
        made = grouped(ops, self._partition)
        return FusionPlan(graph, execution_order([*made, *others]), len(ops) - len(made))


def region_module(
    mod: IRModule, groups: Sequence[Group], calls: Mapping[OpNode, relax.Call]
) -> IRModule:
    """Return the ops of groups as a model: what they read is its inputs, in order of first use."""
    whole = union(groups)
    builder, inside = relax.BlockBuilder(), {}
    params = []
    for number, (tensor, value) in enumerate(read_by(whole, calls).items()):
        inside[tensor] = relax.Var(f"x{number}", value.ty)
        params.append(inside[tensor])
    functions: dict[str, ir.GlobalVar] = {}
    with builder.function("main", params):
        with builder.dataflow():
            for node in kernel_nodes([whole]):
                if node.name not in functions:
                    functions[node.name] = builder.add_func(mod[node.name], node.name)
                call = calls[node]
                arguments = relax.Tuple([inside[tensor] for tensor in node.inputs])
                made = relax.Call(
                    call.op, [functions[node.name], arguments], call.attrs, call.ty_args,
                    ret_ty=node.var.ty,
                )  # fmt: skip
                inside |= _results(builder, builder.emit(made), node)
            fields = [inside[tensor] for tensor in whole.outputs()]
            result = builder.emit_output(fields[0] if len(fields) == 1 else relax.Tuple(fields))
        builder.emit_func_output(result)
    return builder.finalize()


def scheduled(mod: IRModule, partition: Partition, target: Target, device: Device) -> IRModule:
    """Return a region's module with its groups as kernels, by their default decisions."""
    passes = [
        StitchOps(device, _Grouped(partition)),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        ApplyStitchSchedules(device),
    ]
    with target:
        return Sequential(passes)(mod)


def calls_of(graph: OpGraph, block: relax.DataflowBlock) -> dict[OpNode, relax.Call]:
    """Return the bindings of a graph's ops that are calls of kernels."""
    bindings = list(block.bindings)
    return {node: bindings[node.index].value for node in graph.nodes if node.func_hash}


def read_by(group: Group, calls: Mapping[OpNode, relax.Call]) -> dict[Tensor, relax.Expr]:
    """Return what each tensor is in the model that a group reads from outside."""
    read: dict[Tensor, relax.Expr] = {}
    for node in kernel_nodes([group]):
        arguments = calls[node].args[1]
        fields = arguments.fields if isinstance(arguments, relax.Tuple) else [arguments]
        for tensor, field in zip(node.inputs, fields, strict=True):
            read.setdefault(tensor, field)
    return {tensor: read[tensor] for tensor in group.inputs()}


def _results(builder: relax.BlockBuilder, var: relax.Var, node: OpNode) -> dict[Tensor, relax.Expr]:
    if not isinstance(node.var.ty, ir.TupleType):
        return {node.outputs[0]: var}
    fields = (builder.emit(relax.TupleGetItem(var, n)) for n in range(len(node.outputs)))
    return dict(zip(node.outputs, fields, strict=True))

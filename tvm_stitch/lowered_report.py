"""Read a report off lowered modules: launches, traffic, and loops that ought to be better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tvm import ir, relax, tirx
from tvm.ir import IRModule

from relay_passes.transform import StitchOps
from tir_schedules import ApplyStitchSchedules
from tir_schedules.decision_source import DEFAULT
from tvm_stitch.frontend.origins import origin_of
from tvm_stitch.reports.memory import overwritten, peak_bytes
from tvm_stitch.reports.report import GroupReport, Report

_LAUNCHES = (
    *("relax.call_tir", "relax.call_tir_inplace"),
    *("relax.call_dps_packed", "relax.call_pure_packed"),
)


def build_report(
    before: IRModule,
    after: IRModule,
    stitch: StitchOps,
    schedule: ApplyStitchSchedules,
    originals: Mapping[str, str],
    origins: Mapping[str, str],
    unrolled: Mapping[str, str],
) -> Report:
    """Return what happened between the legalised module and the scheduled one.

    Bytes are each launch's inputs and outputs once. `originals` names the kernels that others,
    which write over operands, are made of, `origins` the model's node behind each variable,
    `unrolled` by such a variable why a loop was written out.
    """
    singles = {
        g.nodes[0].var.name: g for plan in stitch.graphs for g in plan.groups if len(g.nodes) == 1
    }
    groups = []
    calls = list(_launches(after))
    for var, call in calls:
        kernel = _kernel_name(call)
        kernel = originals.get(kernel, kernel)
        group = stitch.plans.get(kernel) or singles.get(var.name)
        ops = [n.name for n in group.nodes if n.op_class != "alias"] if group else [kernel]
        moved = _call_bytes(var, call)
        saved = max(0, group.bytes_apart() - moved) if group and len(group.nodes) > 1 else 0
        stopped = list(group.stopped) if group else []
        fallback = kernel in schedule.declined or kernel in schedule.fallbacks
        made = [n.var.name for n in group.nodes if n.op_class != "alias"] if group else [var.name]
        nodes = list(dict.fromkeys(found for name in made if (found := origin_of(name, origins))))
        decided = _decided(kernel, schedule)
        groups.append(GroupReport(ops, kernel, saved, stopped, fallback, nodes, decided))
    unshared, planned = peak_bytes(after)
    return Report(
        kernels=sum(schedule.launches.get(g.kernel, 1) for g in groups),
        groups=groups,
        bytes_unfused=sum(_call_bytes(v, c) for v, c in _launches(before)),
        bytes_fused=sum(_call_bytes(v, c) for v, c in calls),
        peak_bytes_unshared=unshared,
        peak_bytes=planned,
        overwritten=overwritten(after),
        fallbacks=sum(g.fallback for g in groups),
        serial_above_threshold=sorted(schedule.serial),
        scalar_contiguous=sorted(schedule.scalar),
        unrolled=[f"{origin_of(var, origins) or var}: {why}" for var, why in unrolled.items()],
    )


def _decided(kernel: str, schedule: ApplyStitchSchedules) -> str:
    """Return how a log decided a kernel, nothing without a log, or where it had no say."""
    if kernel not in schedule.decided:
        return ""
    return str(schedule.decided[kernel] or DEFAULT)


def _launches(mod: IRModule) -> Iterator[tuple[relax.Var, relax.Call]]:
    for gvar, func in mod.functions_items():
        if gvar.name_hint != "main" or not isinstance(func, relax.Function):
            continue
        for block in func.body.blocks:
            for binding in block.bindings:
                value = getattr(binding, "value", None)
                if isinstance(value, relax.Call) and _is_launch(value):
                    yield binding.var, value


def _is_launch(call: relax.Call) -> bool:
    return isinstance(call.op, ir.GlobalVar) or getattr(call.op, "name", "") in _LAUNCHES


def _kernel_name(call: relax.Call) -> str:
    callee = call.op if isinstance(call.op, ir.GlobalVar) else call.args[0]
    return str(getattr(callee, "name_hint", None) or getattr(callee, "global_symbol", callee))


def _call_bytes(var: relax.Var, call: relax.Call) -> int:
    args = call.args if isinstance(call.op, ir.GlobalVar) else call.args[1:2]
    return _type_bytes(var.ty) + sum(_type_bytes(a.ty) for a in args)


def _type_bytes(ty: ir.Type) -> int:
    if isinstance(ty, ir.TupleType):
        return sum(_type_bytes(f) for f in ty.fields)
    shape = getattr(ty, "shape", None)
    if shape is None or not all(isinstance(d, tirx.IntImm) for d in shape):
        return 0
    count = 1
    for dim in shape:
        count *= int(dim)
    return count * max(1, ty.dtype.dtype.itemsize)

"""The only ordered list of passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.ir.transform import Pass, Sequential
from tvm.relax.backend.cpu_generic import pipeline as cpu_pipeline
from tvm.target import Target

from relay_passes.fusion.take_apart import NOTHING, Apart, KeepAlone
from relay_passes.graph.fusion_plan import FusionPlan
from relay_passes.rewrites.named_legalize import REFUSALS
from relay_passes.transform import (
    FoldSmallConstants,
    NamedLegalize,
    OverwriteOperands,
    PlanMemory,
    StitchOps,
    WidenSorts,
)
from tir_schedules import ApplyStitchSchedules, DropAlignment
from tir_schedules.backend import device_of
from tir_schedules.device.profile import Profile
from tir_schedules.fuel import spend, unnoted
from tvm_stitch.errors import StitchError
from tvm_stitch.lowered_report import build_report
from tvm_stitch.report import Report


def lower(
    mod: IRModule,
    target: Target,
    *,
    fusion: str,
    threads: int,
    profile: Profile | None = None,
    dump_dir: Path | None = None,
    watch: Callable[[str, IRModule], None] | None = None,
    apart: Apart = NOTHING,
    plans: dict[str, object] | None = None,
) -> tuple[IRModule, Report]:
    """Lower a Relax module for `target`; return it for `build_pipeline`, and what was done.

    `fusion` picks the planner only: `stitch`, `tvm` (stock FuseOps) or `none`. `profile` defaults
    to the shipped one of the device. `dump_dir` receives the module after each pass as
    `NN_Pass.py`; `watch` is called with each pass's name and result. `apart` is not fused.
    `plans` takes the plan of each kernel that our schedules take, by its name: a page as text.

    Raises: NotLegalized for an operator that no rule takes.
    """
    device = device_of(target, threads, profile)
    stitch, schedule = StitchOps(device, None, apart), ApplyStitchSchedules(device)
    overwrite = OverwriteOperands(schedule)
    steps = [*_passes(fusion, stitch, schedule, apart), ("OverwriteOperands", overwrite)]
    before: list[IRModule] = []
    with target:
        for number, (name, step) in enumerate(steps):
            if name != "FuseOps" or spend(name):
                mod = _applied(step, mod)
            if name == "AnnotateTIROpPattern":
                before.append(mod)
            if watch is not None:
                watch(name, mod)
            if dump_dir is not None:
                _dump(mod, dump_dir, f"{number:02}_{name}.py")
    if plans is not None:
        plans.update(schedule.plans)
    with unnoted():  # it plans memory to tell its size
        return mod, build_report(before[0], mod, stitch, schedule, overwrite.originals)


def build_pipeline(target: Target) -> Pass:
    """Return TVM's passes that make an executable of a lowered module, memory planned by ours.

    The executable needs `tvm_stitch.runtime` linked to it.
    """
    return Sequential(
        [
            *cpu_pipeline.library_dispatch_passes(target),
            *cpu_pipeline.legalize_passes(target),
            DropAlignment(),
            *cpu_pipeline.dataflow_lower_passes(target),
            PlanMemory(),
            *cpu_pipeline.finalize_passes(target),
        ]
    )


def planned(
    mod: IRModule, target: Target, *, threads: int, profile: Profile | None = None
) -> list[FusionPlan]:
    """Return what `lower` would fuse, a plan for each dataflow block, without doing it.

    Raises: NotLegalized for an operator that no rule takes.
    """
    device = device_of(target, threads, profile)
    stitch = StitchOps(device)
    with target:
        for name, step in _passes("stitch", stitch, ApplyStitchSchedules(device)):
            mod = _applied(step, mod)
            if name == "StitchOps":
                break
    return stitch.graphs


def relax_pipeline() -> Pass:
    """Return the passes as one, for `tvm.compile(mod, target, relax_pipeline="tvm_stitch")`.

    TVM plans the memory then, without our runtime. Results get memory of their own: its planner
    makes 4.7 MB of BERT's 3.5 where they are written over operands.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_stitch")
    def pipeline(mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        target = Target.current(allow_none=False)
        steps = [step for _, step in _passes("stitch", StitchOps(), ApplyStitchSchedules())]
        mod = Sequential([*steps, DropAlignment()])(mod)
        return relax.get_default_pipeline(target)(mod)

    return pipeline


def _passes(
    fusion: str, stitch: StitchOps, schedule: ApplyStitchSchedules, apart: Apart = NOTHING
) -> list[tuple[str, Callable[[IRModule], IRModule]]]:
    steps: list[tuple[str, Callable[[IRModule], IRModule]]] = [
        # Sorts and scans have no legalisation; left to TVM's pipeline, nothing here would see them.
        ("WidenSorts", WidenSorts()),
        ("DispatchSampling", relax.backend.DispatchSampling()),
        ("DispatchSortScan", relax.backend.DispatchSortScan()),
        ("LegalizeOps", NamedLegalize()),
        ("FoldSmallConstants", FoldSmallConstants()),
        ("DropFolded", relax.transform.DeadCodeElimination()),
        ("AnnotateTIROpPattern", relax.transform.AnnotateTIROpPattern()),
    ]
    if fusion == "stitch":
        steps.append(("StitchOps", stitch))
    if apart.ops:
        steps.append(("KeepAlone", KeepAlone(apart.ops)))
    if fusion != "none":
        steps.append(("FuseOps", relax.transform.FuseOps()))
    return [
        *steps,
        ("FuseTIR", relax.transform.FuseTIR()),
        ("RewriteDataflowReshape", relax.transform.RewriteDataflowReshape()),
        ("DeadCodeElimination", relax.transform.DeadCodeElimination()),
        ("ApplyStitchSchedules", schedule),
    ]


def _applied(step: Callable[[IRModule], IRModule], mod: IRModule) -> IRModule:
    try:
        return step(mod)
    except REFUSALS as error:
        if isinstance(step, NamedLegalize) and step.refusal is not None:
            raise step.refusal from error
        raise


def _dump(mod: IRModule, folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(mod.script(show_meta=True))
    except OSError as error:
        raise StitchError(folder, error.strerror, "choose another --dump-ir folder") from None

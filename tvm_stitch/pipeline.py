"""The only ordered list of passes, from the imported module to the executable.

`packing` lays weights out in front of them: PointwiseProducts, ChannelsLast, PackWeights,
FoldWeights, PrepareWeights. Each has a name, under which `--dump-ir` writes what it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.ir.transform import Pass, Sequential
from tvm.relax.backend.cpu_generic import pipeline as cpu_pipeline
from tvm.target import Target

from relay_passes.fusion.take_apart import NOTHING, Apart, KeepAlone
from relay_passes.graph.fusion_plan import FusionPlan
from relay_passes.policy import POLICY, FusionPolicy
from relay_passes.transform import (
    BlockScans,
    CaptureLaunches,
    ChannelsLast,
    FoldSmallConstants,
    LogOfSums,
    NamedLegalize,
    OverwriteOperands,
    PackWeights,
    PlanMemory,
    PointwiseProducts,
    ProductsOfEinsum,
    RollLoops,
    SortRows,
    StageTensors,
    StitchOps,
    WidenSorts,
)
from tir_schedules import ApplyStitchSchedules, DropAlignment
from tir_schedules.backend import device_of
from tir_schedules.device import Device, Measured
from tir_schedules.fuel import spend, unnoted
from tvm_stitch.lowered_report import build_report
from tvm_stitch.reports.report import Report
from tvm_stitch.runtime.weights import DEVICE_WEIGHTS, WEIGHTS, fetch_weights
from tvm_stitch.steps import Step, Steps


def lower(
    mod: IRModule,
    target: Target,
    *,
    fusion: str,
    threads: int,
    profile: Measured | None = None,
    steps: Steps | None = None,
    apart: Apart = NOTHING,
    plans: dict[str, object] | None = None,
    policy: FusionPolicy = POLICY.fusion,
    origins: Mapping[str, str] = MappingProxyType({}),
) -> tuple[IRModule, Report]:
    """Lower a Relax module for `target`; return it for `build_pipeline`, and what was done.

    `fusion` picks the planner only: `stitch`, `tvm` (stock FuseOps) or `none`. `profile` defaults
    to the shipped one of the device. `steps` runs the passes. `apart` is not fused, `policy` is
    what fusion chooses by. `plans` takes the plan of each kernel that our schedules take, by its
    name: a page as text. The report names the nodes that `origins` has behind variables.

    Raises: NotLegalized for an operator that no rule takes.
    """
    device, run = device_of(target, threads, profile), steps or Steps()
    stitch = StitchOps(device, None, apart, policy)
    schedule = ApplyStitchSchedules(device)
    overwrite = OverwriteOperands(schedule)
    roll = RollLoops(device)
    stage = StageTensors(device) if target.kind.name == "cuda" else None
    legalize, fuse = _legalize(device, roll), _fuse(fusion, stitch, schedule, apart, stage)
    with target:
        legalized = run.run(legalize, mod)
        mod = run.run([*fuse, ("OverwriteOperands", overwrite)], legalized)
    if plans is not None:
        plans.update({**roll.plans, **schedule.plans})
    with target, unnoted():  # it plans memory to tell its size
        return mod, build_report(
            legalized, mod, stitch, schedule, overwrite.originals, origins, roll.unrolled
        )


def build_pipeline(
    target: Target,
    steps: Steps | None = None,
    places: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Pass:
    """Return TVM's passes that make an executable of a lowered module, memory planned by ours.

    `places` are the numbers of each `main`'s weights, as `fetch_weights` takes them. The executable
    needs `tvm_stitch.runtime` linked to it.
    """
    # What of a model is in no dataflow block is legalised here; on a GPU its loops need threads.
    rest = [ApplyStitchSchedules()] if target.kind.name == "cuda" else []
    # Of parameters it is known that they stay where they are, of what is fetched it is not.
    capture = [CaptureLaunches()] if target.kind.name == "cuda" else []
    fetched = DEVICE_WEIGHTS if target.kind.name == "cuda" else WEIGHTS

    @tvm.transform.module_pass(opt_level=0, name="FetchWeights")
    def fetch(mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        return fetch_weights(mod, fetched, places)

    passes = [
        *cpu_pipeline.library_dispatch_passes(target),
        *cpu_pipeline.legalize_passes(target),
        *rest,
        DropAlignment(),
        *cpu_pipeline.dataflow_lower_passes(target),
        PlanMemory(),
        *capture,
        fetch,
        *cpu_pipeline.finalize_passes(target),
    ]
    if steps is None:
        return Sequential(passes)

    @tvm.transform.module_pass(opt_level=0, name="tvm_stitch_build")
    def build(mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        return steps.run([(str(each.info.name), each) for each in passes], mod)

    return build


def planned(
    mod: IRModule,
    target: Target,
    *,
    threads: int,
    profile: Measured | None = None,
    policy: FusionPolicy = POLICY.fusion,
) -> list[FusionPlan]:
    """Return what `lower` would fuse, a plan for each dataflow block, without doing it.

    Raises: NotLegalized for an operator that no rule takes.
    """
    device = device_of(target, threads, profile)
    stitch = StitchOps(device, policy=policy)
    with target:
        Steps().run([*_legalize(device), ("StitchOps", stitch)], mod)
    return stitch.graphs


def relax_pipeline() -> Pass:
    """Return the passes as one, for `tvm.compile(mod, target, relax_pipeline="tvm_stitch")`.

    Weights are laid out as `compile` does it where they are constants. TVM plans the memory,
    without our runtime, and results get memory of their own: its planner makes 4.7 MB of BERT's 3.5
    where they are written over operands.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_stitch")
    def pipeline(mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        target = Target.current(allow_none=False)
        layout = [ProductsOfEinsum(), PointwiseProducts(), ChannelsLast(), PackWeights()]
        fuse = _fuse("stitch", StitchOps(), ApplyStitchSchedules())
        steps = [*layout, *(step for _, step in (*_legalize(), *fuse))]
        mod = Sequential([*steps, DropAlignment()])(mod)
        return relax.get_default_pipeline(target)(mod)

    return pipeline


def _legalize(device: Device | None = None, roll: RollLoops | None = None) -> list[Step]:
    return [
        ("SortRows", SortRows(device)),
        # Sorts and scans have no legalisation; left to TVM's pipeline, nothing here would see them.
        ("WidenSorts", WidenSorts()),
        ("LogOfSums", LogOfSums()),
        ("BlockScans", BlockScans()),
        ("DispatchSampling", relax.backend.DispatchSampling()),
        ("DispatchSortScan", relax.backend.DispatchSortScan()),
        ("LegalizeOps", NamedLegalize()),
        ("FoldSmallConstants", FoldSmallConstants()),
        ("DropFolded", relax.transform.DeadCodeElimination()),
        ("RollLoops", roll or RollLoops(device)),
        ("AnnotateTIROpPattern", relax.transform.AnnotateTIROpPattern()),
    ]


def _fuse(
    fusion: str,
    stitch: StitchOps,
    schedule: ApplyStitchSchedules,
    apart: Apart = NOTHING,
    stage: StageTensors | None = None,
) -> list[Step]:
    """Return the passes from operators to scheduled kernels."""
    steps: list[Step] = [("StitchOps", stitch)] if fusion == "stitch" else []
    if apart.ops:
        steps.append(("KeepAlone", KeepAlone(apart.ops)))
    if fusion != "none":
        steps.append(("FuseOps", _fuse_ops))
    return [
        *steps,
        ("FuseTIR", relax.transform.FuseTIR()),
        ("RewriteDataflowReshape", relax.transform.RewriteDataflowReshape()),
        ("DeadCodeElimination", relax.transform.DeadCodeElimination()),
        *([("StageTensors", stage)] if stage is not None else []),
        ("ApplyStitchSchedules", schedule),
    ]


@tvm.transform.module_pass(opt_level=0, name="FuseOps")
def _fuse_ops(mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
    """Let TVM fuse what is left, if fuel is: it counts as one rewrite."""
    return relax.transform.FuseOps()(mod) if spend("FuseOps") else mod

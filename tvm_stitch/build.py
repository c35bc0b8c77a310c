"""From what a user asks for to a lowered module, and to a library that runs it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
from tvm.ir import IRModule
from tvm.target import Target

from relay_passes.fusion.take_apart import NOTHING, Apart
from relay_passes.policy import POLICY, Policy
from relay_passes.rewrites.legalize.named_legalize import NotLegalized
from tir_schedules.backend import device_of
from tir_schedules.device import Device, Measured, llvm_features
from tir_schedules.device.profile import ProfileError, load_profile, refuse_cpu
from tir_schedules.fuel import Fuel, burning
from tir_schedules.host import available_cpus
from tvm_stitch import pipeline, targets
from tvm_stitch.entries import entry_name, joined
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import ImportedModel, import_model
from tvm_stitch.frontend.origins import origin_of
from tvm_stitch.frontend.shape_sets import shape_sets
from tvm_stitch.packing import packed
from tvm_stitch.reports.report import Report
from tvm_stitch.runtime import cpu_features, library
from tvm_stitch.runtime.artifact import Meta, Tensor, stored_bytes
from tvm_stitch.runtime.linking.kernel_objects import building_kernels
from tvm_stitch.runtime.model import Model
from tvm_stitch.runtime.shaped_model import ShapedModel
from tvm_stitch.runtime.weights import constant_outputs, makes_new_outputs
from tvm_stitch.steps import Steps
from tvm_stitch.targets import gpu_arch

if TYPE_CHECKING:
    from tvm_stitch.tuning.reuse import LogSource

FUSIONS = ("stitch", "tvm", "none")
FALLBACKS = ("refuse", "onnxruntime")
_PLACES = 4  # of a rewrite, that are named
PathLike = str | os.PathLike


@dataclass(frozen=True)
class Request:
    """What `tvm_stitch.compile` is asked for, its keywords, and what it must not fuse.

    `policy` chooses where several things can be done.
    """

    model: Any
    target: str | dict | Target = "x86"
    shapes: Mapping[str, Sequence[int]] | None = None
    log: PathLike | None = None
    profile: PathLike | None = None
    threads: int | None = None
    fusion: str = "stitch"
    fuel: int | None = None
    dump_dir: PathLike | None = None
    values: Mapping[str, object] | None = None
    fallback: str = "refuse"
    apart: Apart = NOTHING
    policy: Policy = POLICY


@dataclass(frozen=True)
class Asked:
    """A request understood: its model imported and packed for its target."""

    imported: ImportedModel
    target: Target
    threads: int
    profile: Measured | None


@dataclass(frozen=True)
class Lowered:
    """A module for `build`, and how it came about.

    `stages`: the module after each pass, by the pass's name; `fuel`: the rewrites applied; `plans`:
    of the kernels that our schedules take, by their names, each a page as text; `steps` runs what
    is left to do.
    """

    imported: ImportedModel
    mod: IRModule
    report: Report
    target: Target
    threads: int
    stages: Mapping[str, IRModule]
    fuel: Fuel
    plans: Mapping[str, object]
    steps: Steps


def understand(request: Request, steps: Steps | None = None) -> Asked:
    """Raises: StitchError for a user's mistake."""
    threads = available_cpus() if request.threads is None else request.threads
    target, measured = targets.resolve(request.target, threads), None
    if request.profile:
        measured = measured_profile(request.profile, target, threads)
    device = device_of(target, threads, measured)
    if request.fallback not in FALLBACKS:
        rule = f"use one of {', '.join(FALLBACKS)}"
        raise StitchError(f"fallback {request.fallback!r}", "unknown", rule)
    if len(several := shape_sets(request.shapes)) > 1:
        rule, remedy = "one is looked at at a time", "give one shape of each input"
        raise StitchError(f"{len(several)} shapes", rule, remedy)
    imported = import_model(request.model, request.shapes, request.values, request.fallback)
    if imported.left and gpu_arch(target):
        rule, remedy = "ONNX Runtime would run it on the CPU", "compile for x86, or without it"
        raise StitchError(imported.left[0].node, rule, remedy)
    imported = packed(imported, device, request.policy.layout, steps)
    return Asked(imported, target, threads, measured)


@contextlib.contextmanager
def reading_log(
    log: PathLike | None, parts: Sequence[str] | None = None
) -> Iterator[LogSource | None]:
    """Fuse and schedule by a tuning log, if there is one, in this context, or by parts of it.

    Raises: StitchError.
    """
    if log is None:
        yield None
        return
    if importlib.util.find_spec("xgboost") is None:
        rule = "XGBoost, which predicts what of it suits other kernels, is not installed"
        raise StitchError(f"log {log}", rule, "pip install 'tvm-stitch[tune]'")
    from tvm_stitch.tuning.reuse import LogSource

    with LogSource.open(log, parts) as source:
        yield source


def lower(request: Request) -> Lowered:
    """Lower a model: twice if a log says that the whole of it is faster by less of that log.

    Raises: StitchError for a user's mistake.
    """
    if request.fusion not in FUSIONS:
        rule = f"use one of {', '.join(FUSIONS)}"
        raise StitchError(f"fusion {request.fusion!r}", "unknown", rule)
    with reading_log(request.log) as log:
        if log is None:
            return _lower(request, None)
        lowered = _lower(dataclasses.replace(request, fuel=None, dump_dir=None), log)
        settled = log.settles(lowered.mod, device_for(request, lowered))
        if settled or request.fuel is not None or request.dump_dir is not None:
            lowered = _lower(request, log)
        return lowered


def _lower(request: Request, log: LogSource | None) -> Lowered:
    """Lower a model in the context of a log, if there is one."""
    stages: dict[str, IRModule] = {}
    plans: dict[str, object] = {}
    dump_dir = Path(request.dump_dir) if request.dump_dir is not None else None
    steps = Steps(dump_dir, stages.__setitem__)
    with burning(Fuel(request.fuel)) as fuel:
        asked = understand(request, steps)
        with legalizing(asked.imported):
            mod, report = pipeline.lower(
                asked.imported.mod,
                asked.target,
                fusion=request.fusion,
                threads=asked.threads,
                profile=asked.profile,
                steps=steps,
                apart=request.apart,
                policy=request.policy.fusion,
                origins=asked.imported.origins,
                plans=plans,
            )
        if log is not None:
            device = device_of(asked.target, asked.threads, asked.profile)
            report = dataclasses.replace(report, log=log.about(device))
    stored = stored_bytes(asked.imported.weights)
    made = sum(weight.bytes for weight in asked.imported.prepared)
    report = dataclasses.replace(
        report,
        weight_bytes=stored,
        resident_weight_bytes=stored + made,
        rewrites=len(fuel.spent),
        last_rewrite=describe_last(fuel, asked.imported) if request.fuel is not None else "",
    )
    return Lowered(
        asked.imported, mod, report, asked.target, asked.threads, stages, fuel, plans, steps
    )


def device_for(request: Request, lowered: Lowered) -> Device:
    """Return the device that a request was lowered for."""
    target, threads, given = lowered.target, lowered.threads, request.profile
    profile = None if given is None else measured_profile(given, target, threads)
    return device_of(target, threads, profile)


@contextlib.contextmanager
def legalizing(imported: ImportedModel) -> Iterator[None]:
    """Name the node of the user's model that no rule legalises. Raises: StitchError."""
    try:
        yield
    except NotLegalized as refusal:
        raise StitchError(
            origin_of(refusal.place, imported.origins) or refusal.op,
            f"TVM has no kernel for it ({refusal.reason})",
            "rewrite this part of the model",
        ) from refusal


def describe_last(fuel: Fuel, imported: ImportedModel) -> str:
    """Return the last rewrite applied, in words, its places by the nodes of the user's model."""
    if not fuel.spent:
        return "none"
    last = fuel.spent[-1]
    places = [origin_of(place, imported.origins) or place for place in last.places]
    more = [f"{len(places) - _PLACES} more"] if len(places) > _PLACES else []
    return " at ".join([last.name, *filter(None, [", ".join([*places[:_PLACES], *more])])])


def build(*several: Lowered) -> Model | ShapedModel:
    """Return the library of a model in this process, lowered for one target and for some shapes.

    Placing tensors costs fuel too.
    """
    lowered = several[0]
    arch = gpu_arch(lowered.target)
    entries = joined([(each.imported, each.mod) for each in several])
    names = [entry_name(number) for number in range(len(several))]
    places = dict(zip(names, entries.places, strict=True))
    count = len(entries.weights) + len(entries.prepared)
    metas = [
        _meta(each, entries.mod, name, count) for each, name in zip(several, names, strict=True)
    ]
    meta = dataclasses.replace(metas[0], others=tuple(metas[1:]))
    passes = pipeline.build_pipeline(lowered.target, lowered.steps.unwatched(), places)
    cpus = 1 if arch else available_cpus()
    with (
        burning(lowered.fuel),
        machine_code(arch),
        lowered.target,
        building_kernels(lowered.target, cpus) as kernels,
    ):
        passes = tvm.transform.Sequential([passes, kernels.taken])
        executable = tvm.compile(entries.mod, lowered.target, relax_pipeline=passes)
        return library.from_executable(
            executable, meta, entries.weights, entries.prepared, kernels.paths()
        )


def _meta(lowered: Lowered, mod: IRModule, entry: str, weights: int) -> Meta:
    imported, target = lowered.imported, lowered.target
    arch = gpu_arch(target)
    host = target.host if arch else target
    return Meta(
        inputs=tuple(Tensor(spec.name, tuple(spec.shape), spec.dtype) for spec in imported.inputs),
        outputs=tuple(
            Tensor(spec.name, tuple(spec.shape), spec.dtype) for spec in imported.outputs
        ),
        index_bounds=dict(imported.index_bounds),
        copied_outputs=constant_outputs(mod, entry),
        threads=lowered.threads,
        target=str(target),
        cpu_features=tuple(cpu_features.required(llvm_features(host))),
        tvm_version=tvm.__version__,
        report=json.loads(lowered.report.to_json()),
        weights=weights,
        new_outputs=makes_new_outputs(mod, entry),
        arch=arch,
        narrow=imported.narrow,
        left=tuple(str(each) for each in imported.left),
        entry=entry,
    )


@contextlib.contextmanager
def machine_code(arch: str) -> Iterator[None]:
    """Let TVM build for a GPU in this context, whether or not it is here; for none with ""."""
    if not arch:
        yield
        return
    from tvm_stitch.runtime import cuda_toolkit, gpu_driver

    cuda_toolkit.find_toolkit()
    gpu_driver.load_runtime()
    with cuda_toolkit.compiling(functools.partial(cuda_toolkit.fat_binary, arch=arch)):
        yield


def measured_profile(path: PathLike, target: Target, threads: int) -> Measured:
    """Return what was measured of a target's machine. Raises: StitchError."""
    device = device_of(target, threads)
    try:
        if arch := gpu_arch(target):
            from tir_schedules.device.gpu_profile import load_gpu_profile

            return load_gpu_profile(Path(path), arch)
        profile = load_profile(Path(path))
    except ProfileError as error:
        raise StitchError(error.given, error.rule, error.remedy) from None
    if (reason := refuse_cpu(profile, device.mcpu, device.vector_bytes)) is not None:
        remedy = "measure the machine with tvm-stitch calibrate -o FILE"
        raise StitchError(f"profile {path}", reason, remedy)
    return profile

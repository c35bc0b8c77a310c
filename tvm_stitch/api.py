"""The front door: compile a model, explain what that would do, advise whether to."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm.ir import IRModule
from tvm.target import Target

from tir_schedules.analysis.stage import Kernel
from tir_schedules.device import Device, llvm_features
from tir_schedules.host import available_cpus
from tir_schedules.profile import Profile, ProfileError, load_profile, refuse_cpu
from tvm_stitch import pipeline, targets
from tvm_stitch.advice import Advice
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import ImportedModel, import_model
from tvm_stitch.packing import packed
from tvm_stitch.report import Report
from tvm_stitch.runtime import cpu_features, library
from tvm_stitch.runtime.artifact import Meta, Tensor, stored_bytes
from tvm_stitch.runtime.link import find_compiler
from tvm_stitch.runtime.model import Model
from tvm_stitch.runtime.weights import constant_outputs, fetch_weights, makes_new_outputs

if TYPE_CHECKING:
    from tvm_stitch.verification.verification import Verification

FUSIONS = ("stitch", "tvm", "none")


@dataclass(frozen=True)
class _Lowered:
    """`stages`: the module after each pass, by the pass's name."""

    imported: ImportedModel
    mod: IRModule
    report: Report
    target: Target
    threads: int
    stages: Mapping[str, IRModule]


def compile(
    model: Any,
    target: str | dict | Target = "x86",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    log: str | os.PathLike | None = None,
    profile: str | os.PathLike | None = None,
    threads: int | None = None,
    fusion: str = "stitch",
    fuel: int | None = None,
    dump_dir: str | os.PathLike | None = None,
) -> Model:
    """Compile a path to an ONNX file, a ModelProto, an ExportedProgram or a Relax module.

    `threads` defaults to the CPUs this process may use. `fuel` stops after that many fusions;
    `dump_dir` receives the module after each pass.

    `profile` is a file of `tvm-stitch calibrate`; the shipped figures nearest to the CPU serve
    without one.

    Raises: StitchError for a user's mistake in any of them.
    """
    find_compiler()
    lowered = _lower(
        model,
        target,
        shapes=shapes,
        log=log,
        profile=profile,
        threads=threads,
        fusion=fusion,
        fuel=fuel,
        dump_dir=dump_dir,
    )
    return _built(lowered)


def _built(lowered: _Lowered) -> Model:
    imported = lowered.imported
    mod = fetch_weights(lowered.mod)
    meta = Meta(
        inputs=tuple(Tensor(spec.name, tuple(spec.shape), spec.dtype) for spec in imported.inputs),
        outputs=tuple(
            Tensor(spec.name, tuple(spec.shape), spec.dtype) for spec in imported.outputs
        ),
        index_bounds=dict(imported.index_bounds),
        copied_outputs=constant_outputs(mod),
        threads=lowered.threads,
        target=str(lowered.target),
        cpu_features=tuple(cpu_features.required(llvm_features(lowered.target))),
        tvm_version=tvm.__version__,
        report=json.loads(lowered.report.to_json()),
        weights=len(imported.weights) + len(imported.prepared),
        new_outputs=makes_new_outputs(mod),
    )
    passes = pipeline.build_pipeline(lowered.target)
    executable = tvm.compile(mod, lowered.target, relax_pipeline=passes)
    return library.from_executable(executable, meta, imported.weights, imported.prepared)


def explain(
    model: Any,
    target: str | dict | Target = "x86",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    log: str | os.PathLike | None = None,
    profile: str | os.PathLike | None = None,
    threads: int | None = None,
    fusion: str = "stitch",
    fuel: int | None = None,
) -> Report:
    """Return the report `compile` would give, without building code.

    Raises: StitchError as `compile`.
    """
    lowered = _lower(
        model,
        target,
        shapes=shapes,
        log=log,
        profile=profile,
        threads=threads,
        fusion=fusion,
        fuel=fuel,
    )
    return lowered.report


def verify(
    model: Any,
    target: str | dict | Target = "x86",
    *,
    inputs: Mapping[str, np.ndarray] | str | os.PathLike | None = None,
    seed: int = 0,
    budget: float | None = None,
    reproducers: str | os.PathLike | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    log: str | os.PathLike | None = None,
    profile: str | os.PathLike | None = None,
    threads: int | None = None,
    fusion: str = "stitch",
    fuel: int | None = None,
) -> Verification:
    """Compile a model and compare each of its kernels with its operators one by one, in float64.

    `inputs` are arrays by name, or a folder with NAME.npy for each; without them random ones of
    `seed` serve. After `budget` seconds a kernel that was compared already is not compared again.
    Of each wrong kernel a folder is written in `reproducers`, a new temporary one if it is None.

    Raises: StitchError as `compile`, and for inputs that the model refuses.
    """
    from tvm_stitch.verification import verification

    find_compiler()
    folder = Path(reproducers) if reproducers is not None else None
    if folder is not None:
        verification.refuse_output(folder)
    lowered = _lower(
        model,
        target,
        shapes=shapes,
        log=log,
        profile=profile,
        threads=threads,
        fusion=fusion,
        fuel=fuel,
    )
    return verification.verify_model(
        _built(lowered),
        verification.Origin(lowered.imported, lowered.stages),
        inputs=Path(inputs) if isinstance(inputs, str | os.PathLike) else inputs,
        seed=seed,
        budget=math.inf if budget is None else budget,
        folder=folder,
    )


def advise(
    model: Any,
    target: str | dict | Target = "x86",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    log: str | os.PathLike | None = None,
    profile: str | os.PathLike | None = None,
    threads: int | None = None,
) -> Advice:
    """Return what stitching is predicted to gain, without building code.

    Raises: StitchError as `compile`.
    """
    asked = _asked(model, target, shapes, log, profile, threads)
    plans = pipeline.planned(
        asked.imported.mod, asked.target, threads=asked.threads, profile=asked.profile
    )
    ops = [n for p in plans for n in p.graph.nodes if isinstance(n.kernel, Kernel)]
    forecasts = [plan.forecast() for plan in plans]
    groups = [g for p in plans for g in p.groups if isinstance(g.nodes[0].kernel, Kernel)]
    return Advice.of(forecasts, len(ops), len(groups))


@dataclass(frozen=True)
class _Asked:
    imported: ImportedModel
    target: Target
    threads: int
    profile: Profile | None


def _asked(
    model: Any,
    target: str | dict | Target,
    shapes: Mapping[str, Sequence[int]] | None,
    log: str | os.PathLike | None,
    profile: str | os.PathLike | None,
    threads: int | None,
) -> _Asked:
    if log is not None:
        raise StitchError(f"log {log}", "log comes with a later release", "leave log out")
    threads = available_cpus() if threads is None else threads
    tvm_target = targets.resolve(target, threads)
    measured = _profile(profile, Device.detect(tvm_target, threads)) if profile else None
    imported = packed(import_model(model, shapes), tvm_target)
    return _Asked(imported, tvm_target, threads, measured)


def _lower(
    model: Any,
    target: str | dict | Target,
    *,
    shapes: Mapping[str, Sequence[int]] | None,
    log: str | os.PathLike | None,
    profile: str | os.PathLike | None,
    threads: int | None,
    fusion: str,
    fuel: int | None = None,
    dump_dir: str | os.PathLike | None = None,
) -> _Lowered:
    if fusion not in FUSIONS:
        raise StitchError(f"fusion {fusion!r}", "unknown", f"use one of {', '.join(FUSIONS)}")
    asked = _asked(model, target, shapes, log, profile, threads)
    stages: dict[str, IRModule] = {}
    mod, report = pipeline.lower(
        asked.imported.mod,
        asked.target,
        fusion=fusion,
        threads=asked.threads,
        profile=asked.profile,
        fuel=fuel,
        dump_dir=Path(dump_dir) if dump_dir is not None else None,
        watch=stages.__setitem__,
    )
    stored = stored_bytes(asked.imported.weights)
    made = sum(weight.bytes for weight in asked.imported.prepared)
    report = dataclasses.replace(report, weight_bytes=stored, resident_weight_bytes=stored + made)
    return _Lowered(asked.imported, mod, report, asked.target, asked.threads, stages)


def _profile(path: str | os.PathLike, device: Device) -> Profile:
    try:
        profile = load_profile(Path(path))
    except ProfileError as error:
        raise StitchError(error.given, error.rule, error.remedy) from None
    if (reason := refuse_cpu(profile, device.mcpu, device.vector_bytes)) is not None:
        remedy = "measure the machine with tvm-stitch calibrate -o FILE"
        raise StitchError(f"profile {path}", reason, remedy)
    return profile

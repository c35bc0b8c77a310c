"""The front door: compile a model, explain what that would do, verify it, advise whether to."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.target import Target

from tir_schedules.kernel_ir.stage import Kernel
from tvm_stitch import pipeline
from tvm_stitch.build import Request, build, legalizing, lower, reading_log, understand
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import is_torch_module
from tvm_stitch.frontend.shape_sets import Shapes, shape_sets
from tvm_stitch.reports.advice import Advice
from tvm_stitch.reports.report import Report
from tvm_stitch.runtime.linking.link import find_compiler
from tvm_stitch.runtime.model import Model
from tvm_stitch.runtime.shaped_model import ShapedModel

if TYPE_CHECKING:
    from typing import Unpack

    from tvm_stitch.open_shapes.specialised import Specialised
    from tvm_stitch.options import CompileOptions, ModelOptions
    from tvm_stitch.verification.verification import Verification

ON_MISMATCH = ("refuse", "unfuse")


def compile(
    model: Any,
    target: str | dict | Target | Sequence[Any] = "x86",
    *,
    example_inputs: Sequence[Any] | None = None,
    shapes: Shapes | None = None,
    log: str | os.PathLike | None = None,
    profile: str | os.PathLike | None = None,
    threads: int | None = None,
    fusion: str = "stitch",
    fuel: int | None = None,
    dump_dir: str | os.PathLike | None = None,
    verify: bool = False,
    on_mismatch: str = "refuse",
    values: Mapping[str, object] | None = None,
    fallback: str = "refuse",
    cache: str | os.PathLike | None = None,
) -> Model | ShapedModel | Specialised:
    """Compile a path to an ONNX file, a ModelProto, an ExportedProgram or a Relax module.

    A torch.nn.Module is exported, in eval mode, on `example_inputs`, a tuple of tensors, which may
    stand in the place of the target too. Lists of shapes, as long for each input that has one, make
    one model for all of them, with one set of weights. Of an ONNX model extents in `shapes` may be
    names, equal ones for extents that are equal: then a model is returned that compiles each shape
    when it meets it, once for all processes with a folder `cache`. `values` binds inputs of an ONNX
    model that decide shapes: the compiled model has no such inputs. `threads` defaults to the CPUs
    this process may use. `fuel` stops after that many rewrites and fusions; `dump_dir` receives the
    module after each pass.

    `profile` is a file of `tvm-stitch calibrate`; the shipped figures nearest to the CPU serve
    without one. `log` is a file or URL that `tvm-stitch tune` wrote: `report` says of each kernel
    whether it was tuned, tuned in another size (near), learnt of other kernels, or runs by default.

    With the `fallback` "onnxruntime" operators that no one here compiles are left to ONNX Runtime,
    within the model; `model.meta.left` names them.

    With `verify` each kernel is compared with its operators, as the function of that name does, and
    no wrong model is returned: where one is wrong it is refused, or with `on_mismatch="unfuse"` the
    wrong kernel is taken apart into smaller ones, as `report.unfused` then tells.

    Raises: StitchError for a user's mistake in any of them, and for a wrong model.
    """
    find_compiler()
    if isinstance(target, tuple | list):
        target, example_inputs = "x86", target
    if example_inputs is not None:
        model = _exported(model, example_inputs)
    if on_mismatch not in ON_MISMATCH:
        remedy = f"use one of {', '.join(ON_MISMATCH)}"
        raise StitchError(f"on_mismatch {on_mismatch!r}", "unknown", remedy)
    if on_mismatch != "refuse" and not verify:
        rule = "without verification no mismatch is found"
        raise StitchError(f"on_mismatch {on_mismatch!r}", rule, "verify too")
    several = shape_sets(shapes)
    if any(isinstance(extent, str) for shape in (shapes or {}).values() for extent in shape):
        from tvm_stitch.open_shapes.specialised import Specialised

        options = {"log": log, "profile": profile, "threads": threads, "fusion": fusion}
        options |= {"verify": verify, "on_mismatch": on_mismatch, "fallback": fallback}
        return Specialised(model, shapes=shapes, cache=cache, target=target, **options)
    if cache is not None:
        rule, remedy = "every extent has a number: export the model", "name extents in shapes="
        raise StitchError(f"cache {os.fspath(cache)}", rule, remedy)
    asked = Request(
        model, target, several[0], log, profile, threads, fusion, fuel, dump_dir, values
    )
    asked = replace(asked, fallback=fallback)
    if len(several) > 1:
        if verify:
            rule, remedy = "one shape is verified at a time", "verify each, then compile them"
            raise StitchError(f"{len(several)} shapes", rule, remedy)
        return build(*(lower(_for_shapes(asked, n, each)) for n, each in enumerate(several)))
    if not verify:
        return build(lower(asked))
    from tvm_stitch.verification.unfuse import compile_verified

    return compile_verified(asked, unfuse=on_mismatch == "unfuse")


def _exported(model: Any, inputs: Sequence[Any]) -> Any:
    """Return a torch.nn.Module as an ExportedProgram. Raises: StitchError for anything else."""
    if not is_torch_module(model):
        rule = "only a torch.nn.Module takes example inputs"
        raise StitchError(f"a {type(model).__name__}", rule, "leave them out")
    from tvm_stitch.frontend.torch_import import exported

    return exported(model, inputs, f"module {type(model).__name__}")


def _for_shapes(asked: Request, number: int, shapes: Mapping[str, Sequence[int]]) -> Request:
    """Return the request of one of several shapes; each has a folder of its own."""
    folder = None if asked.dump_dir is None else Path(asked.dump_dir) / f"shape_{number}"
    return replace(asked, shapes=shapes, dump_dir=folder)


def explain(
    model: Any,
    target: str | dict | Target = "x86",
    **options: Unpack[CompileOptions],
) -> Report:
    """Return the report `compile` would give, without building code.

    Raises: StitchError as `compile`.
    """
    return lower(Request(model, target, **options)).report


def plans(
    model: Any,
    target: str | dict | Target = "x86",
    **options: Unpack[CompileOptions],
) -> dict[str, str]:
    """Return how each kernel of a model would run, a page by the kernel's name.

    Kernels that no template takes are not in it.

    Raises: StitchError as `compile`.
    """
    lowered = lower(Request(model, target, **options))
    return {name: str(plan) for name, plan in lowered.plans.items()}


def verify(
    model: Any,
    target: str | dict | Target = "x86",
    *,
    inputs: Mapping[str, np.ndarray] | str | os.PathLike | None = None,
    seed: int = 0,
    budget: float | None = None,
    reproducers: str | os.PathLike | None = None,
    **options: Unpack[CompileOptions],
) -> Verification:
    """Compile a model and compare each of its kernels with its operators one by one, in float64.

    `inputs` are arrays by name, or a folder with NAME.npy for each; without them random ones of
    `seed` serve. After `budget` seconds a kernel that was compared already is not compared again.
    Of each wrong kernel a folder is written in `reproducers`, a new temporary one if it is None.
    The outputs are compared with those of the operators before any rewrite; where only they are
    wrong, the rewrite that makes them so is found by fuel.

    Raises: StitchError as `compile`, and for inputs that the model refuses.
    """
    from tvm_stitch.verification import verification

    find_compiler()
    folder = Path(reproducers) if reproducers is not None else None
    if folder is not None:
        verification.refuse_output(folder)
    return verification.verify_model(
        Request(model, target, **options),
        inputs=Path(inputs) if isinstance(inputs, str | os.PathLike) else inputs,
        seed=seed,
        budget=math.inf if budget is None else budget,
        folder=folder,
    )


def advise(
    model: Any,
    target: str | dict | Target = "x86",
    **options: Unpack[ModelOptions],
) -> Advice:
    """Return what stitching is predicted to gain, without building code.

    Raises: StitchError as `compile`.
    """
    request = Request(model, target, **options)
    asked = understand(request)
    with legalizing(asked.imported), reading_log(request.log):
        plans = pipeline.planned(
            asked.imported.mod, asked.target, threads=asked.threads, profile=asked.profile
        )
    ops = [n for p in plans for n in p.graph.nodes if isinstance(n.kernel, Kernel)]
    forecasts = [plan.forecast() for plan in plans]
    groups = [g for p in plans for g in p.groups if isinstance(g.nodes[0].kernel, Kernel)]
    return Advice.of(forecasts, len(ops), len(groups))

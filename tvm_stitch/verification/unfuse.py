"""Compile a model that is verified: a wrong one is refused, or its wrong groups are taken apart."""

from __future__ import annotations

import logging
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tvm import tirx
from tvm.ir import IRModule

from relay_passes.fusion.take_apart import NOTHING, Apart
from relay_passes.graph.op_graph import function_hash
from tvm_stitch.build import Lowered, Request, build, lower
from tvm_stitch.errors import StitchError
from tvm_stitch.reports.report import Unfused
from tvm_stitch.runtime.model import Model
from tvm_stitch.targets import refuse_gpu, resolve
from tvm_stitch.verification.kernels import Finding
from tvm_stitch.verification.program import Program, kernel_names, read_function
from tvm_stitch.verification.verification import verify_built

logger = logging.getLogger(__name__)

# Halves of halves of a group of 96 stages are ops; once more for ops that were copied.
_ROUNDS = 9


def compile_verified(request: Request, unfuse: bool) -> Model:
    """Return a model whose kernels, and all of it, compute what its operators do.

    If `unfuse`, groups of wrong kernels are taken apart; the model's report tells which.

    Raises: StitchError as `tvm_stitch.compile`, and if the model stays wrong.
    """
    refuse_gpu(resolve(request.target, request.threads), "verification")
    unfused: list[Unfused] = []
    for _ in range(_ROUNDS):
        lowered = lower(request)
        lowered = replace(lowered, report=replace(lowered.report, unfused=list(unfused)))
        model = build(lowered)
        findings = _findings(request, lowered, model)
        if not findings:
            return model
        wrong = [f for f in findings if f.group is not None]
        apart = _apart(wrong, lowered) if unfuse else NOTHING
        if request.apart | apart == request.apart:
            break
        request = replace(request, apart=request.apart | apart)
        unfused += [_told(finding) for finding in wrong]
        logger.warning("verify: %s", "; ".join(map(str, unfused[-len(wrong) :])))
    raise _refusal(request, findings[0], unfuse)


def _findings(request: Request, lowered: Lowered, model: Model) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-wrong-") as folder:
        found = verify_built(
            request, lowered, model, inputs=None, seed=0, budget=math.inf, folder=Path(folder)
        )
    return found.findings


def _apart(findings: Sequence[Finding], lowered: Lowered) -> Apart:
    """Return what must not be one kernel any more: nothing of a kernel that is one operator."""
    apart = NOTHING
    for finding in findings:
        stitched = _body(lowered.stages.get("StitchOps"), finding.group)
        fused = _body(lowered.stages.get("FuseOps"), finding.group)
        if stitched is not None:
            apart |= Apart(groups=frozenset((_signature(stitched, lowered.stages["StitchOps"]),)))
        elif fused is not None:
            apart |= Apart(ops=frozenset(kernel_names(fused)))
    return apart


def _body(mod: IRModule | None, name: str) -> Program | None:
    """Return the operators of a group's function, None if there is none of that name."""
    known = mod is not None and name in (gvar.name_hint for gvar in mod.get_global_vars())
    if not known or isinstance(mod[name], tirx.PrimFunc):
        return None
    return read_function(mod, mod[name])


def _signature(body: Program, mod: IRModule) -> tuple:
    """Return what `Group.signature` is of the group whose function this is."""
    number: dict = {}
    rows = []
    for step in body.steps:
        values = (*step.inputs, *step.results)
        wires = tuple(number.setdefault(value, len(number)) for value in values)
        rows.append((function_hash(mod[step.name]), wires))
    return tuple(rows), tuple(number[value] for value in body.results)


def _told(finding: Finding) -> Unfused:
    return Unfused([*map(str, finding.operators)], f"given {finding.given}: {finding.problem}")


def _refusal(request: Request, finding: Finding, unfuse: bool) -> StitchError:
    is_path = isinstance(request.model, str | os.PathLike)
    given = str(request.model) if is_path else "the model"
    ops = f" ({', '.join(map(str, finding.operators))})" if finding.operators else ""
    rule = f"{finding.kernel}{ops}, given {finding.given}, is wrong: {finding.problem}"
    remedy = "report what tvm-stitch verify writes of it"
    if not unfuse and finding.group is not None:
        remedy = f"compile with on_mismatch='unfuse', and {remedy}"
    return StitchError(given, rule, remedy)

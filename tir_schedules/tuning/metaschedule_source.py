"""Decisions from a MetaSchedule database, whose records are traces of our design space."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..decision_source import TUNED, Decided, DecisionSource
from ..decisions import DecisionsError
from ..device import Device
from ..kernel_ir.stage import Kernel
from .candidates import Candidates
from .design_space import KNOB, VARIANT, read_annotations

SAMPLE, ANNOTATE = "SampleCategorical", "Annotate"
logger = logging.getLogger("tvm_stitch.schedule")


class MetaScheduleSource(DecisionSource):
    """Decides by the fastest record of a kernel for a target that has a plan on the device.

    It knows of kernels alone. Traces are read and not replayed. A database's own lookup ignores
    the target (apache/tvm#15549).
    """

    def __init__(self, database: ms.database.Database, target: Target) -> None:
        self._database, self._target = database, target

    def decide(self, func: tirx.PrimFunc, kernel: Kernel, device: Device) -> Decided | None:
        module = workload_module(func)
        if not self._database.has_workload(module):
            return None
        candidates = Candidates.of_kernel(kernel, device)
        if isinstance(candidates, str):
            return None
        workload = self._database.commit_workload(module)  # the one that it has
        records = self._database.get_top_k(workload, len(self._database))
        times: dict[Any, float] = {}
        for record in records:
            decisions = self._decisions(record, candidates)
            if decisions is not None:
                seconds = [float(each) for each in record.run_secs]
                times.setdefault(decisions, sum(seconds) / len(seconds))
        if not times:
            return None
        best = min(times, key=times.__getitem__)
        usual = times.get(candidates.default)
        return Decided(best, TUNED, None if usual is None else usual / times[best])

    def _decisions(self, record: ms.database.TuningRecord, candidates: Candidates) -> Any:
        """Return what a record decides, None if it is of another target, or has no plan here."""
        if record.target is None or not _same(record.target, self._target):
            return None
        try:
            decisions = read_annotations(type(candidates.default), trace_annotations(record.trace))
        except DecisionsError as error:
            logger.warning("%s: a record is left out: %s", candidates.kernel.name, error)
            return None
        if candidates.space_of(decisions) is None or isinstance(candidates.plan(decisions), str):
            return None
        return decisions


def workload_module(func: tirx.PrimFunc) -> IRModule:
    """Return a kernel as a database keys it, whatever it is called in its model."""
    return IRModule({"main": func.with_attr("global_symbol", "main")})


def trace_annotations(trace: Any) -> dict[str, Any]:
    """Return what a trace of the design space annotates, each sampled value as it was decided.

    Raises: DecisionsError if it does anything else.
    """
    return annotated(_steps(trace))


def annotated(steps: Iterable[tuple[str, Any, Any]]) -> dict[str, Any]:
    """Return what instructions annotate: of each its kind, then two of what it is about.

    Those are a variable and the place sampled for it, or a key and a value, which may be a variable
    before. Raises: DecisionsError if there are other instructions, or other keys than ours.
    """
    sampled: dict[Any, Any] = {}
    found: dict[str, Any] = {}
    for kind, subject, value in steps:
        if kind == SAMPLE:
            sampled[subject] = value
        elif kind == ANNOTATE:
            if subject != VARIANT and not subject.startswith(KNOB):
                raise DecisionsError(f"it annotates {subject!r}")
            found[subject] = sampled.get(value, value)
        elif kind != "GetSBlock":
            raise DecisionsError(f"it has the instruction {kind!r}")
    return found


def _steps(trace: Any) -> Iterator[tuple[str, Any, Any]]:
    for step in trace.insts:
        kind = step.kind.name
        if kind == SAMPLE:
            yield kind, step.outputs[0], trace.decisions[step]
        elif kind == ANNOTATE:
            yield kind, str(step.attrs[0]), step.inputs[1]
        else:
            yield kind, None, None


def _same(one: Target, other: Target) -> bool:
    return tvm_ffi.structural_equal(one, other)

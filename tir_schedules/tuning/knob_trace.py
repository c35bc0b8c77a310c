"""The knobs that a trace samples: where each is in it, what it may be, what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.s_tir.schedule import Instruction, Trace

from .design_space import KNOB, VARIANT

_SAMPLE, _ANNOTATE = "SampleCategorical", "Annotate"


@dataclass(frozen=True, eq=False)
class SampledKnob:
    """A knob by its path, its candidates as JSON values, and the place of the one taken."""

    path: str
    candidates: tuple[Any, ...]
    at: int
    sampled_by: Instruction

    @property
    def name(self) -> str:
        """What the knob is, whatever nest or phase it belongs to."""
        return self.path.rpartition(".")[2]


def sampled_knobs(trace: Trace) -> list[SampledKnob]:
    """Return the knobs of a trace that `design_space.annotate` began, in its order."""
    known: dict[str, Any] = {}
    found, before = [], None
    for instruction, key, value in _steps(trace):
        if key == VARIANT:
            known = json.loads(str(value))["knobs"]
        elif key is not None and key.startswith(KNOB) and before is not None:
            path = key.removeprefix(KNOB)
            at = int(trace.decisions[before])
            found.append(SampledKnob(path, tuple(known[path]), at, before))
        before = instruction if key is None else None
    return found


def _steps(trace: Trace) -> Iterator[tuple[Instruction, str | None, Any]]:
    """Yield what samples, with no key, and what annotates, with its key and value."""
    for instruction in trace.insts:
        kind = instruction.kind.name
        if kind == _SAMPLE:
            yield instruction, None, None
        elif kind == _ANNOTATE:
            yield instruction, str(instruction.attrs[0]), instruction.inputs[1]

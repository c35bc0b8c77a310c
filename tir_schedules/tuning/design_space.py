"""Decisions of a kernel as a MetaSchedule space: each knob a sampled categorical on the root block.

A trace annotates and schedules nothing; whoever builds a kernel reads the annotations. So a trace
replays exactly, and no Python branches on a value that was sampled. Each variant is a space of its
own, whose first annotation is the variant in full: a record needs no code of its time to be read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from tvm import tirx
from tvm.s_tir import Schedule

from ..decisions import DecisionsError, from_json, knobs, to_json
from .policy import POLICY

T = TypeVar("T")
VARIANT, KNOB = "stitch.variant", "stitch.knob."
_ROOT = "root"


class Knob(Protocol):
    """A decision that may change alone, by its path, and what it may be, as decided among them."""

    path: str
    candidates: tuple[Any, ...]


class VariantSpace(Protocol):
    """One structure of a kernel: the decisions of the cost model for it, and its knobs."""

    default: Any
    knobs: tuple[Knob, ...]


class DecisionSpace(Protocol):
    """All variants of a kernel, the one that the cost model chooses first."""

    variants: tuple[VariantSpace, ...]


def design_space(func: tirx.PrimFunc, space: DecisionSpace) -> list[Schedule]:
    """Return a schedule for each variant, in their order, with the decisions of the cost model."""
    found = []
    for variant in space.variants:
        schedule = Schedule(func)
        annotate(schedule, variant)
        found.append(schedule)
    return found


def annotate(schedule: Schedule, variant: VariantSpace, decided: Any = None) -> None:
    """Sample every free knob of a variant on the root block: as the cost model decides, first.

    `decided` are other decisions of that variant. Raises: ValueError if a knob is not among the
    candidates then.
    """
    wanted = {} if decided is None else knobs(decided)
    free = free_knobs(variant)
    root = schedule.get_sblock(_ROOT)
    schedule.annotate(root, VARIANT, written(variant))
    for knob in free:
        count = len(knob.candidates)
        changed = min(0.5, POLICY.changed / len(free))
        odds = [1 - changed, *[changed / (count - 1)] * (count - 1)]
        at = knob.candidates.index(wanted.get(knob.path, knob.candidates[0]))
        schedule.annotate(
            root, KNOB + knob.path, schedule.sample_categorical([*range(count)], odds, at)
        )


def decisions_of(kind: type[T], schedule: Schedule) -> T:
    """Return the decisions that the root block of a schedule is annotated with.

    Raises: DecisionsError if the annotations are none of ours.
    """
    return read_annotations(kind, annotations_of(schedule))


def annotations_of(schedule: Schedule) -> Mapping[str, Any]:
    return schedule.get(schedule.get_sblock(_ROOT)).annotations


def read_annotations(kind: type[T], annotations: Mapping[str, Any]) -> T:
    """Return the decisions that annotations tell.

    Raises: DecisionsError if they are none of ours: nothing that they hold is taken unchecked.
    """
    text = annotations.get(VARIANT)
    if text is None:
        raise DecisionsError(f"there is no annotation {VARIANT}")
    try:
        data = json.loads(str(text))
        default, candidates = data["default"], data["knobs"]
        for path, values in candidates.items():
            _put(default, path.split("."), values[int(annotations[KNOB + path])])
    except (json.JSONDecodeError, LookupError, TypeError, AttributeError, ValueError) as error:
        raise DecisionsError(f"annotation {VARIANT} is no variant: {error}") from None
    return from_json(kind, json.dumps(default))


def free_knobs(variant: VariantSpace) -> list[Knob]:
    """Return the knobs that may be something else than is decided."""
    return [knob for knob in variant.knobs if len(knob.candidates) > 1]


def written(variant: VariantSpace) -> str:
    """Return a variant in full, as its annotation holds it."""
    free = free_knobs(variant)
    known = {knob.path: [_plain(each) for each in knob.candidates] for knob in free}
    data = {"default": json.loads(to_json(variant.default)), "knobs": known}
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _plain(candidate: Any) -> Any:
    """Return a candidate of a knob as JSON has it."""
    if dataclasses.is_dataclass(candidate):
        return dataclasses.asdict(candidate)
    return [_plain(each) for each in candidate] if isinstance(candidate, tuple) else candidate


def _put(part: Any, path: list[str], value: Any) -> None:
    *way, last = path
    for step in way:
        part = part[int(step) if isinstance(part, list) else step]
    part[last] = value

"""A kernel's candidates: what a schedule of its space decides, and the plan of that, if it has one.

The search meets the same decisions many times; each is planned once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from tvm import tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from ..backend import Backend, Plan, backend
from ..decisions import knobs, variant, with_knob
from ..device import Device
from ..kernel_ir.stage import Kernel
from .design_space import (
    KNOB,
    VARIANT,
    DecisionSpace,
    VariantSpace,
    annotate,
    annotations_of,
    design_space,
    free_knobs,
    written,
)
from .mutators import mutators
from .workload import Workload, workload_of


class Candidates:
    """The space of one kernel on a device, and the plans of what was met in it.

    Without its PrimFunc it has no schedules.
    """

    def __init__(
        self, func: tirx.PrimFunc | None, kernel: Kernel, space: DecisionSpace, device: Device
    ) -> None:
        self.func, self.kernel, self.space, self.device = func, kernel, space, device
        self.backend: Backend = backend(device)
        self.workload: Workload = workload_of(kernel)
        self.default = space.variants[0].default
        self._plans: dict[Any, Plan | str] = {}
        self._first: dict[str, list[Any]] = {}
        self._spaces = {written(each): each for each in space.variants}
        self._decided: dict[tuple[str, tuple[int, ...]], Any] = {}

    @classmethod
    def of(cls, func: tirx.PrimFunc, device: Device) -> Candidates | str:
        """Return the candidates of a PrimFunc, or why its target's template declines it."""
        kernel = backend(device).read(func)
        return kernel if isinstance(kernel, str) else cls.of_kernel(kernel, device, func)

    @classmethod
    def of_kernel(
        cls, kernel: Kernel, device: Device, func: tirx.PrimFunc | None = None
    ) -> Candidates | str:
        """Return the candidates of a kernel as it was read, or why the template declines it."""
        space = backend(device).decision_space(kernel, device)
        return space if isinstance(space, str) else cls(func, kernel, space, device)

    @functools.cached_property
    def schedules(self) -> list[Schedule]:
        """A schedule for each variant, with the decisions of the cost model."""
        return design_space(self.func, self.space)

    def decisions(self, schedule: Schedule) -> Any:
        """Return what a schedule of the space decides.

        The same as its annotations say by themselves, without reading them as JSON each time.
        """
        told = annotations_of(schedule)
        text = str(told[VARIANT])
        free = free_knobs(self._spaces[text])
        places = tuple(int(told[KNOB + knob.path]) for knob in free)
        if (text, places) not in self._decided:
            decisions = self._spaces[text].default
            for knob, place in zip(free, places, strict=True):
                if place:
                    decisions = with_knob(decisions, knob.path, knob.candidates[place])
            self._decided[text, places] = decisions
        return self._decided[text, places]

    def plan(self, decisions: Any) -> Plan | str:
        """Return the plan of decisions, or why the kernel can't be run so."""
        if decisions not in self._plans:
            self._plans[decisions] = self.backend.plan(self.kernel, decisions, self.device)
        return self._plans[decisions]

    def same(self, decisions: Any) -> Any:
        """Return those of the decisions met so far that make the same plan: the first ones.

        They have a plan.
        """
        plan = self.plan(decisions)
        alike = self._first.setdefault(str(plan), [])
        for each in alike:
            if self.plan(each) == plan:
                return each
        alike.append(decisions)
        return decisions

    def space_of(self, decisions: Any) -> VariantSpace | None:
        """Return the variant that decisions are of, None if a knob of theirs is no candidate."""
        structure = variant(decisions)
        for space in self.space.variants:
            if variant(space.default) == structure:
                have = knobs(decisions)
                inside = all(have[knob.path] in knob.candidates for knob in space.knobs)
                return space if inside else None
        return None

    def carried(self, decisions: Any) -> Any:
        """Return decisions of another kernel as far as they are candidates here, else the default.

        None if no variant here is that of the decisions.
        """
        structure, wanted = variant(decisions), knobs(decisions)
        spaces = (each for each in self.space.variants if variant(each.default) == structure)
        space = next(spaces, None)
        if space is None:
            return None
        made = space.default
        for knob in space.knobs:
            if wanted[knob.path] in knob.candidates:
                made = with_knob(made, knob.path, wanted[knob.path])
        return made

    def schedule(self, decisions: Any) -> Schedule | None:
        """Return a schedule of the space that decides so, None if they are not of it."""
        space = self.space_of(decisions)
        if space is None:
            return None
        schedule = Schedule(self.func)
        annotate(schedule, space, decisions)
        return schedule

    def neighbours(self, decisions: Any) -> Iterator[Any]:
        """Yield the decisions of the same variant that have another candidate of one knob."""
        space = self.space_of(decisions)
        have = knobs(decisions)
        for knob in space.knobs if space is not None else ():
            for candidate in knob.candidates:
                if candidate != have[knob.path]:
                    yield with_knob(decisions, knob.path, candidate)

    def generator(self, seed: int) -> ms.space_generator.SpaceGenerator:
        """Return the space as MetaSchedule searches it, without what can't be run."""
        return ms.space_generator.ScheduleFn(
            lambda _schedule: self.schedules,
            sch_rules=[],
            postprocs=[Legal(self)],
            mutator_probs=mutators(seed),
        )


@derived_object
class Legal(ms.postproc.PyPostproc):
    """Reject what `plan` refuses."""

    def __init__(self, candidates: Candidates) -> None:
        super().__init__()
        self._candidates = candidates

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        pass

    def apply(self, schedule: Schedule) -> bool:
        decided = self._candidates.decisions(schedule)
        return not isinstance(self._candidates.plan(decided), str)

    def clone(self) -> Legal:
        return Legal(self._candidates)

"""A kernel's candidates: what a schedule of its space decides, and the plan of that, if it has one.

The search meets the same decisions many times; each is planned once.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from ..backend import Backend, Plan, backend
from ..device import Device
from ..kernel_ir.stage import Kernel
from .design_space import DecisionSpace, decisions_of, design_space
from .mutators import mutators
from .workload import Workload, workload_of


class Candidates:
    """The space of one PrimFunc on a device, and the plans of what was met in it."""

    def __init__(
        self, func: tirx.PrimFunc, kernel: Kernel, space: DecisionSpace, device: Device
    ) -> None:
        self.func, self.kernel, self.space, self.device = func, kernel, space, device
        self.backend: Backend = backend(device)
        self.workload: Workload = workload_of(kernel)
        self.default = space.variants[0].default
        self._plans: dict[Any, Plan | str] = {}

    @classmethod
    def of(cls, func: tirx.PrimFunc, device: Device) -> Candidates | str:
        """Return the candidates of a PrimFunc, or why its target's template declines it."""
        template = backend(device)
        kernel = template.read(func)
        if isinstance(kernel, str):
            return kernel
        space = template.decision_space(kernel, device)
        return space if isinstance(space, str) else cls(func, kernel, space, device)

    def decisions(self, schedule: Schedule) -> Any:
        """Return what a schedule of the space decides. Raises: DecisionsError if it is of none."""
        return decisions_of(type(self.default), schedule)

    def plan(self, decisions: Any) -> Plan | str:
        """Return the plan of decisions, or why the kernel can't be run so."""
        if decisions not in self._plans:
            self._plans[decisions] = self.backend.plan(self.kernel, decisions, self.device)
        return self._plans[decisions]

    def generator(self, seed: int) -> ms.space_generator.SpaceGenerator:
        """Return the space as MetaSchedule searches it, without what can't be run."""
        return ms.space_generator.ScheduleFn(
            lambda schedule: design_space(schedule.mod["main"], self.space),
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

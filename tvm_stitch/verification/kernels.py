"""Check kernel calls against their operators one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tvm_stitch.verification.compiled import Compiled, Operator
from tvm_stitch.verification.judge import worst_of
from tvm_stitch.verification.program import Step
from tvm_stitch.verification.recorder import Call, Recorder
from tvm_stitch.verification.reference import References


@dataclass(frozen=True)
class Finding:
    """A kernel that is wrong: what it was `given`, and what is wrong with it then."""

    kernel: str
    operators: tuple[Operator, ...]
    given: str
    problem: str

    def __str__(self) -> str:
        ops = "; ".join(map(str, self.operators))
        return f"{self.kernel}, given {self.given}: {self.problem}. Its operators: {ops}"


@dataclass
class Checked:
    """`calls` of `kernels` were compared; `left` calls of known kernels were not, for time."""

    findings: list[Finding] = field(default_factory=list)
    calls: int = 0
    left: int = 0
    kernels: set[str] = field(default_factory=set)


class KernelChecker:
    """Compares the kernel calls of a compiled model.

    Once `budget` seconds are over, a kernel that was compared before is not compared again.
    """

    def __init__(self, compiled: Compiled, budget: float) -> None:
        self._compiled, self._end = compiled, time.monotonic() + budget
        steps = [step for step in compiled.program.walk() if step.kind == "kernel"]
        self.references = References(compiled.groups, map(compiled.group, steps))
        self.checked = Checked()
        self._times: Counter[str] = Counter()

    def run(self, inputs: Mapping[str, np.ndarray], given: str) -> dict[str, np.ndarray]:
        """Run the model once, comparing each call; return its outputs."""
        self._given = given
        return Recorder(self._compiled.model, self._compiled.program, self._observe).run(inputs)

    def _observe(self, call: Call) -> None:
        for complaint in call.complaints:
            self._report(call.step, complaint)
        name = call.step.name
        self.checked.kernels.add(name)
        self._times[name] += 1
        if self._times[name] > 1 and time.monotonic() > self._end:
            self.checked.left += 1
            return
        self.checked.calls += 1
        if (problem := self.problem(call)) is not None:
            self._report(call.step, problem)

    def problem(self, call: Call) -> str | None:
        """Return what is wrong with a call's results, None if nothing is."""
        group = self._compiled.group(call.step).name
        reference = self.references.run(group, call.inputs)
        dtypes = [str(array.dtype) for array in call.results]
        worst = worst_of(
            call.results,
            reference,
            dtypes,
            lambda: self.references.alternatives(group, call.inputs),
        )
        return None if worst is None else str(worst)

    def _report(self, step: Step, problem: str) -> None:
        operators = tuple(self._compiled.operators_of(step))
        self.checked.findings.append(Finding(step.name, operators, self._given, problem))

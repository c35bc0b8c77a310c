"""Check kernel calls against their operators one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvm_stitch.verification.compiled import Compiled, Operator
from tvm_stitch.verification.program import Step
from tvm_stitch.verification.recorder import Call, Recorder
from tvm_stitch.verification.reference import References
from tvm_stitch.verification.reproducer import Case, write_case
from tvm_stitch.verification.samples.adversarial import Kind, adversarial
from tvm_stitch.verification.samples.poison import LARGE
from tvm_stitch.verification.trial import Arrays, compare, differences, try_kernel


@dataclass(frozen=True)
class Finding:
    """A kernel that is wrong: what it was `given`, what is wrong then, where that can be seen.

    `group` is the function that it was before operators became kernels, if what it computes is
    wrong: not if others spoil its memory.
    """

    kernel: str
    operators: tuple[Operator, ...]
    given: str
    problem: str
    reproducer: Path | None = None
    group: str | None = None

    @property
    def command(self) -> str | None:
        """The command that shows it again."""
        if self.reproducer is None:
            return None
        return f"python -m tvm_stitch.verification.replay {self.reproducer}"

    def __str__(self) -> str:
        lines = [f"{self.kernel}, given {self.given}: {self.problem}"]
        lines += [f"    {operator}" for operator in self.operators]
        return "\n".join([*lines, *([f"    {self.command}"] if self.command else [])])


@dataclass
class Checked:
    """`calls` of `kernels` were compared; `left` calls of known kernels were not, for time.

    `trials`: how often kernels were called by themselves, on other inputs. `whole`: whether the
    model's outputs were compared too.
    """

    findings: list[Finding] = field(default_factory=list)
    calls: int = 0
    trials: int = 0
    left: int = 0
    kernels: set[str] = field(default_factory=set)
    whole: bool = True


class KernelChecker:
    """Compares the kernel calls of a compiled model, and each kernel on adversarial inputs too.

    Once `budget` seconds are over, a kernel that was compared before is not compared again. Of
    each wrong kernel a reproducer is written in `folder`.
    """

    def __init__(self, compiled: Compiled, budget: float, seed: int, folder: Path) -> None:
        self._compiled, self._seed, self._folder = compiled, seed, folder
        self._end = time.monotonic() + budget
        steps = [step for step in compiled.program.walk() if step.kind == "kernel"]
        self._references = References(compiled.groups, map(compiled.group, steps))
        self._times: Counter[str] = Counter()
        self.checked = Checked()

    def run(self, inputs: Mapping[str, np.ndarray], given: str) -> dict[str, np.ndarray]:
        """Run the model once, comparing each call; return its outputs."""
        self._given = given
        return Recorder(self._compiled.model, self._compiled.program, self._observe).run(inputs)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._end

    def _observe(self, call: Call) -> None:
        step = call.step
        for complaint in call.complaints:
            self._report(step, self._given, complaint)
        self.checked.kernels.add(step.name)
        self._times[step.name] += 1
        if self._times[step.name] > 1 and self._is_late:
            self.checked.left += 1
            return
        self.checked.calls += 1
        group = self._compiled.group(step).name
        problem = compare(self._references, group, call.inputs, call.results)
        if problem is not None:
            self._report(step, self._given, problem, call.inputs, call.results)
        elif self._times[step.name] == 1:
            self._try(call, group)

    def _try(self, call: Call, group: str) -> None:
        """Call a kernel by itself, on what it was given and on adversarial inputs."""
        step, threads = call.step, self._compiled.model.meta.threads
        kernel = self._compiled.kernel(step, call.results)
        again = kernel.run(call.inputs, 1, LARGE)
        if (problem := differences(call.results, again)) is not None:
            self._report(step, self._given, problem, call.inputs, again)
            return
        for kind in self._kinds(call, group):
            if self._is_late:
                return
            self.checked.trials += 1
            results, problem = try_kernel(kernel, self._references, group, kind.arrays, threads)
            if problem is not None:
                self._report(step, kind.words, problem, kind.arrays, results)
                return

    def _kinds(self, call: Call, group: str) -> Iterator[Kind]:
        if self._references.truncates(group):
            return iter(())
        weights = [self._compiled.is_weight(value) for value in call.step.inputs]
        return adversarial(call.inputs, weights, self._seed)

    def _report(
        self,
        step: Step,
        given: str,
        problem: str,
        inputs: Sequence[np.ndarray] | None = None,
        results: Arrays | None = None,
    ) -> None:
        operators = tuple(self._compiled.operators_of(step))
        folder = None
        group = None if inputs is None else self._compiled.group(step).name
        if inputs is not None and all(f.kernel != step.name for f in self.checked.findings):
            folder = self._folder / step.name
            case = self._case(step, given, problem, inputs, results)
            compiled = self._compiled
            write_case(folder, case, compiled.groups, compiled.kernels, inputs, results)
        finding = Finding(step.name, operators, given, problem, folder, group)
        self.checked.findings.append(finding)

    def _case(
        self,
        step: Step,
        given: str,
        problem: str,
        inputs: Sequence[np.ndarray],
        results: Arrays,
    ) -> Case:
        meta = self._compiled.model.meta
        return Case(
            kernel=step.name,
            group=self._compiled.group(step).name,
            operators=[str(operator) for operator in self._compiled.operators_of(step)],
            given=given,
            problem=problem,
            target=meta.target,
            threads=meta.threads,
            inputs=[str(array.dtype) for array in inputs],
            results=[(list(array.shape), str(array.dtype)) for array in results],
            places=list(step.places or (-1,) * len(results)),
        )

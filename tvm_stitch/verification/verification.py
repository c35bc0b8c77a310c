"""Verify a compiled model: each of its kernels, and all of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvm_stitch.verification.compiled import Compiled
from tvm_stitch.verification.inputs import given_inputs
from tvm_stitch.verification.kernels import Checked, Finding, KernelChecker


@dataclass(frozen=True)
class Verification:
    """What was verified, and the `findings`: what is wrong, first the first call."""

    checked: Checked
    seconds: float

    @property
    def findings(self) -> list[Finding]:
        return self.checked.findings

    def __bool__(self) -> bool:
        """Return whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        checked = self.checked
        left = f", {checked.left} left out for time" if checked.left else ""
        wrong = len({finding.kernel for finding in self.findings})
        head = (
            f"{len(checked.kernels)} kernels in {checked.calls} calls{left}, {self.seconds:.1f} s: "
            f"{wrong} wrong"
        )
        return "\n".join([head, *map(str, self.findings)])


def verify_compiled(
    compiled: Compiled,
    inputs: Mapping[str, np.ndarray] | Path | None,
    seed: int,
    budget: float,
) -> Verification:
    """Verify a model on inputs by name, those in a folder, or random ones of a seed."""
    start = time.monotonic()
    arrays = given_inputs(inputs, compiled.model.meta, seed)
    given = f"random inputs of seed {seed}" if inputs is None else "the inputs given"
    checker = KernelChecker(compiled, budget)
    checker.run(arrays, given)
    return Verification(checker.checked, time.monotonic() - start)

"""Verify a compiled model: each of its kernels, and all of it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tvm.ir import IRModule

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.runtime.model import Model
from tvm_stitch.verification.compiled import compiled_of
from tvm_stitch.verification.inputs import given_inputs
from tvm_stitch.verification.kernels import Checked, Finding, KernelChecker
from tvm_stitch.verification.wiring import Rewired


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
            f"{len(checked.kernels)} kernels in {checked.calls} calls{left} and {checked.trials} "
            f"trials, {self.seconds:.1f} s: {wrong} wrong"
        )
        return "\n".join([head, *map(str, self.findings)])


@dataclass(frozen=True)
class Origin:
    """What a model was made of: its import, and the module after each pass, by the pass's name."""

    imported: ImportedModel
    stages: Mapping[str, IRModule]


def verify_model(
    model: Model,
    origin: Origin,
    *,
    inputs: Mapping[str, np.ndarray] | Path | None,
    seed: int,
    budget: float,
    folder: Path | None,
) -> Verification:
    """Verify a model on inputs by name, those in a folder, or random ones of a seed.

    Reproducers are written in `folder`, which is made for them if it is None.
    """
    start = time.monotonic()
    arrays = given_inputs(inputs, model.meta, seed)
    given = f"random inputs of seed {seed}" if inputs is None else "the inputs given"
    try:
        compiled = compiled_of(model, origin.imported, origin.stages)
    except Rewired as reason:
        checked = Checked([Finding("the plan", (), "the graph", str(reason))])
        return Verification(checked, time.monotonic() - start)
    with _folder(folder) as made:
        checker = KernelChecker(compiled, budget, seed, made)
        checker.run(arrays, given)
    return Verification(checker.checked, time.monotonic() - start)


def refuse_output(folder: Path) -> None:
    """Raises: StitchError if reproducers cannot be written there, beside nothing else."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise StitchError(folder, error.strerror, "choose another folder") from None
    if taken:
        raise StitchError(folder, "it is not empty", "choose another folder")


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Return the folder given, or a temporary one that goes if nothing is written in it."""
    if given is not None:
        yield given
        return
    made = Path(tempfile.mkdtemp(prefix="tvm-stitch-wrong-"))
    try:
        yield made
    finally:
        if not any(made.iterdir()):
            made.rmdir()

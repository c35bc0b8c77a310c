"""Verify a compiled model: each of its kernels, and all of it."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tvm_stitch.build import Lowered, Request, build, lower
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.model import Model
from tvm_stitch.targets import refuse_gpu, resolve
from tvm_stitch.verification.bisect import find_rewrite
from tvm_stitch.verification.compiled import compiled_of
from tvm_stitch.verification.kernels import Checked, Finding, KernelChecker
from tvm_stitch.verification.samples.inputs import given_inputs
from tvm_stitch.verification.whole import CannotTell, Expected, WholeModel
from tvm_stitch.verification.wiring import Rewired

logger = logging.getLogger(__name__)


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
        whole = ", and all of it" if checked.whole else ""
        wrong = len({finding.kernel for finding in self.findings})
        head = (
            f"{len(checked.kernels)} kernels in {checked.calls} calls{left} and {checked.trials} "
            f"trials{whole}, {self.seconds:.1f} s: {wrong} wrong"
        )
        return "\n".join([head, *map(str, self.findings)])


def verify_model(
    request: Request,
    *,
    inputs: Mapping[str, np.ndarray] | Path | None,
    seed: int,
    budget: float,
    folder: Path | None,
) -> Verification:
    """Compile and verify a model on inputs by name, those in a folder, or random ones of a seed.

    Reproducers are written in `folder`, which is made for them if it is None.

    Raises: StitchError as `tvm_stitch.compile`, and for inputs that the model refuses.
    """
    refuse_gpu(resolve(request.target, request.threads), "verification")
    lowered = lower(request)
    return verify_built(
        request, lowered, build(lowered), inputs=inputs, seed=seed, budget=budget, folder=folder
    )


def verify_built(
    request: Request,
    lowered: Lowered,
    model: Model,
    *,
    inputs: Mapping[str, np.ndarray] | Path | None,
    seed: int,
    budget: float,
    folder: Path | None,
) -> Verification:
    """Verify what was built of a request, as `verify_model`."""
    start = time.monotonic()
    arrays = given_inputs(inputs, model.meta, seed)
    given = f"random inputs of seed {seed}" if inputs is None else "the inputs given"
    try:
        compiled = compiled_of(model, lowered.imported, lowered.stages)
    except Rewired as reason:
        checked = Checked([Finding("the plan", (), "the graph", str(reason))])
        return Verification(checked, time.monotonic() - start)
    with _folder(folder) as made:
        checker = KernelChecker(compiled, budget, seed, made)
        outputs = checker.run(arrays, given)
    checked = checker.checked
    if (problem := _whole(request, lowered, arrays, outputs, checked)) is not None:
        checked.findings.append(Finding("the whole model", (), given, problem))
    return Verification(checked, time.monotonic() - start)


def _whole(
    request: Request,
    lowered: Lowered,
    arrays: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    checked: Checked,
) -> str | None:
    """Return how a model's outputs are not those of its operators before any rewrite, and why."""
    plain = lower(replace(request, fuel=0, dump_dir=None))
    whole = WholeModel(plain.stages["AnnotateTIROpPattern"], plain.imported.weights)
    expected = Expected(whole, [arrays[spec.name] for spec in plain.imported.inputs])
    try:
        problem = expected.problem(list(outputs.values()))
    except CannotTell as reason:
        logger.info("verify: the whole model was not compared: %s", reason)
        checked.whole = False
        return None
    if problem is None or checked.findings:
        return problem  # a wrong kernel is why
    cause = find_rewrite(request, len(lowered.fuel.spent), arrays, expected)
    return f"{problem}. {cause}"


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

"""A step in a process of its own: a kernel that ends it ends no other step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from suite.steps import Step
from tvm_stitch.profiling.child import last_error


def command(what: str, step: Step, folder: Path, simulated: bool) -> list[str]:
    """Return the command line of `suite.one`."""
    words = [sys.executable, "-m", "suite.one", what, step.kind, step.name, step.dtype]
    return [*words, str(folder), *["--simulated"] * simulated]


def asked(what: str, step: Step, folder: Path, seconds: float, simulated: bool) -> dict:
    """Return what `suite.one` prints, `wrong` with an `error` if it fails."""
    done = call(command(what, step, folder, simulated), seconds)
    if done is None:
        return {"error": f"not done in {seconds:.0f} s", "wrong": True}
    if done.returncode:
        return {"error": last_error(done.stderr), "log": done.stderr[-2000:], "wrong": True}
    return json.loads(done.stdout.splitlines()[-1])


def call(words: Sequence[str], seconds: float) -> subprocess.CompletedProcess | None:
    """Run a command that finds what this process does, None if it takes longer.

    TVM does not load PyTorch there to exchange tensors: 5 seconds.
    """
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"}
    try:
        return subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return None

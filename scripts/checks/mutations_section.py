"""Mutations of planner, analysis and emission: each is found by `verify`, and by a test of CI.

Each runs in processes of its own: support/mutations/table.py, support/mutations/case.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from support.mutations.mutation import Mutation
from support.mutations.table import MUTATIONS

from . import PATHS, ROOT

_FAILED = 1  # pytest's exit code where tests ran and some failed


def cases(_seed: int) -> list[str]:
    return [*MUTATIONS]


def run(case: str) -> dict:
    mutation = MUTATIONS[case]
    verified = _python("-m", "support.mutations.case", case)
    if verified.returncode != 0:
        return {"wrong": verified.stderr.strip().splitlines()[-1:] or ["it died"]}
    found = json.loads(verified.stdout)
    wrong = [*found["wrong"], *_missed(case, mutation)]
    return {"wrong": wrong, "finding": found["finding"], "test": mutation.test}


def _missed(name: str, mutation: Mutation) -> list[str]:
    """Return what is wrong if the mutation's test does not fail under it, or does without."""
    command = ("-m", "pytest", "-q", "-p", "support.mutations.mutation", mutation.test)
    tested = _python(*command, MUTATION=name)
    if tested.returncode != _FAILED:
        return [f"{mutation.test} does not fail: {tested.stdout.strip().splitlines()[-1:]}"]
    if _python(*command).returncode != 0:
        return [f"{mutation.test} fails without the mutation"]
    return []


def _python(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    paths = [*PATHS, str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

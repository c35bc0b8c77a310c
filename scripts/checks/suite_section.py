"""What CI has no time for in the tests: those marked `long`, but for the cases that CI runs."""

from __future__ import annotations

import subprocess
import sys

from . import ROOT

_MARK = "pytest.mark.long"
_SHOWN = 40  # lines of what pytest prints


def cases(_seed: int) -> list[str]:
    """Return the files of tests that have some."""
    files = (path for path in (ROOT / "tests").rglob("test_*.py") if _MARK in path.read_text())
    return sorted(str(path.relative_to(ROOT)) for path in files)


def run(case: str) -> dict:
    command = [sys.executable, "-m", "pytest", "--long", "-p", "no:cacheprovider", case]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {"wrong": done.stdout.splitlines()[-_SHOWN:] if done.returncode else []}

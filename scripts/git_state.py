"""What is checked out: the commit that a result belongs to."""

from __future__ import annotations

import subprocess
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def git(*arguments: str) -> str:
    """Return what git prints in this repository."""
    command = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def described_commit() -> str:
    """Return the commit's short name, with `-dirty` behind it if files differ."""
    return git("describe", "--always", "--dirty")

"""A process of its own, whose libraries in the place of CUDA's end with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def answers(module: str, *arguments: str | Path) -> Any:
    """Return the JSON that a module prints last when it is run."""
    return json.loads(printed(module, *arguments)[-1])


def printed(module: str, *arguments: str | Path) -> list[str]:
    """Return the lines that a module prints when it is run."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()

"""Run cases of one section as they come on stdin: a line in, one JSON line out.

    python -m checks.worker SECTION

A case that raises answers {"error": traceback}, as does one whose default decisions are illegal;
one that kills the process answers by its silence. Each answer says what has not been `loaded`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from types import ModuleType

from support import illegal_defaults

from .loaded import Loaded

SECTIONS = {
    "models": "whole_models",
    "matrix": "matrix",
    "random": "random_section",
    "plans": "plans_section",
    "decisions": "decisions_section",
    "blocks": "blocks_section",
    "wild": "wild_section",
    "threads": "threads_section",
    "mutations": "mutations_section",
    "tsan": "tsan_section",
    "guarded": "guarded_section",
    "hostile": "hostile_section",
    "nodes": "nodes_section",
    "nodes_left": "nodes_left_section",
    "compiled": "compiled_section",
    "operators": "operators_section",
    "aten": "aten_section",
    "suite": "suite_section",
    "gpu": "gpu_section",
    "gpu_decisions": "gpu_decisions_section",
}


def section(name: str) -> ModuleType:
    """Return a section's module: `cases(seed)` names its cases, `run(case)` answers for one.

    Cases that are not drawn at random are the same for every seed.
    """
    return importlib.import_module(f"checks.{SECTIONS[name]}")


def main() -> None:
    loaded = Loaded()
    chosen = section(sys.argv[1])
    illegal_defaults.fail()
    gc.set_threshold(50_000, 20, 50)  # planning makes many objects, and little garbage among them
    # What compilers print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = chosen.run(line.strip())
        except Exception:  # its traceback is this case's answer; the others still run
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps({**answer, "left_out": loaded.left_out()}) + "\n")


if __name__ == "__main__":
    main()

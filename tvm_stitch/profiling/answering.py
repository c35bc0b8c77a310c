"""A worker's end of its pipes: it answers messages in JSON lines, one at a time.

Whatever goes wrong ends the process with its traceback in the log; the parent shows the last line.
`CannotRun` and `StitchError` are answers, and the process lives on.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
from collections.abc import Callable, Mapping

from ..errors import StitchError
from .peer import CannotRun

_PR_SET_PDEATHSIG = 1
Action = Callable[[dict], dict]


def answer(actions: Mapping[str, Action], cpus: str, read_fd: str, write_fd: str) -> None:
    """Answer until the parent closes its end; `cpus` are numbers with commas between."""
    end_with_parent()
    os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    gc.disable()  # collected between models only: a collection also empties the caches
    with os.fdopen(int(read_fd)) as questions, os.fdopen(int(write_fd), "w") as answers:
        for line in questions:
            message = json.loads(line)
            try:
                told = actions[message["do"]](message)
            except CannotRun as reason:
                told = {"cannot": str(reason)}
            except StitchError as error:
                told = {"error": [error.given, error.rule, error.remedy]}
            print(json.dumps(told), file=answers, flush=True)


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, even when that one is killed outright."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

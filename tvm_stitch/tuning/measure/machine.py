"""Where workers run: on this machine, or on one that answers over RPC (rpc_machine.py)."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar, Protocol

from tvm_stitch.profiling.child import Child

WORKER = f"{__package__}.worker"


class Lost(Exception):
    """A machine answers no more, and whatever was asked of it is open; the message says how."""


class Worker(Protocol):
    """A process on a machine; every call raises Lost if the machine is."""

    @property
    def alive(self) -> bool: ...

    def ask(self, message: dict[str, object], timeout_s: float) -> dict[str, object]:
        """Send one message and return the answer. Raises: Died if the process ends first."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...


class Machine(Protocol):
    """Starts workers that share its CPUs.

    `usual_ns`: what so many threads take to meet, as far as that was seen (Meeting).
    """

    usual_ns: dict[int, float]

    def start(self, name: str) -> Worker: ...

    def close(self) -> None:
        """Remove what workers left, once they are ended; more than once does no harm."""


class LocalMachine:
    """This one. Workers end with the thread that started them."""

    usual_ns: ClassVar[dict[int, float]] = {}  # of all crews that are here after each other

    def __init__(self, module: str | None = None) -> None:
        self._module = module or WORKER
        self._cpus = sorted(os.sched_getaffinity(0))
        self.workdir = Path(tempfile.mkdtemp(prefix="tvm-stitch-tune-"))

    def start(self, name: str) -> Worker:
        return Child(name, self._module, self._cpus, self.workdir)

    def close(self) -> None:
        shutil.rmtree(self.workdir, ignore_errors=True)

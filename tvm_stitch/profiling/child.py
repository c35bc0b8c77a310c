"""The parent's end of a worker: start it, ask it, stop it while others run, always end it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_REASON_CHARS = 200
_MALLOC = (
    "glibc.malloc.arena_max=1",
    "glibc.malloc.hugetlb=1",
    "glibc.malloc.mmap_max=0",
    f"glibc.malloc.trim_threshold={1 << 40}",
)
# JAX takes three quarters of a GPU's memory at once, and does not leave it to the others.
_ON_GPU = {"JAX_PLATFORMS": "cuda,cpu", "XLA_FLAGS": "", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_live: set[Child] = set()


class Died(Exception):
    """The worker ended or was ended; the message is one line, `log` all that it printed."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.log = log


class Child:
    """A worker called `name` that runs a module, in a process group of its own, on `cpus` only."""

    def __init__(
        self, name: str, module: str, cpus: Sequence[int], workdir: Path, gpu: bool = False
    ) -> None:
        self._log = workdir / f"{name}.log"
        self._pending, self.owes = b"", False  # an answer
        to_child, self._write_fd = os.pipe()
        self._read_fd, from_child = os.pipe()
        command = [sys.executable, "-m", module, name]
        command += [",".join(map(str, cpus)), str(to_child), str(from_child)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(to_child, from_child),
                start_new_session=True,
                env={**_environment(len(cpus), workdir), **(_ON_GPU if gpu else {})},
            )
        os.close(to_child)
        os.close(from_child)
        _live.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self in _live

    def pause(self) -> None:
        """Stop every thread of the worker, spinning ones too."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def ask(self, message: dict[str, object], timeout_s: float) -> dict[str, object]:
        """Send one message and return the answer.

        Raises: Died if the process ends first, or is ended for taking longer than `timeout_s`, or
        has ended over an earlier message.
        """
        self.post(message)
        return self.answer(timeout_s)

    def answer(self, timeout_s: float) -> dict[str, object]:
        """Return the answer to what was posted. Raises: Died as `ask` does."""
        answer = self.poll(timeout_s)
        if answer is None:
            self.kill()
            raise Died(f"not done in the {timeout_s:.1f} s left to it")
        return answer

    def post(self, message: dict[str, object]) -> None:
        """Send one message, whose answer `poll` returns. Raises: Died as `ask` does."""
        if not self.alive:
            raise Died("its process ended over an earlier message")
        try:
            os.write(self._write_fd, json.dumps(message).encode() + b"\n")
            self.owes = True
        except BrokenPipeError:
            raise self._died() from None

    def poll(self, timeout_s: float) -> dict[str, object] | None:
        """Return the answer, None if it takes longer. Raises: Died as `ask` does."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._read_fd], [], [], left)[0]:
                return None
            chunk = os.read(self._read_fd, 1 << 20)
            if not chunk:
                raise self._died()
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        self.owes = False
        return json.loads(line)

    def kill(self) -> None:
        """End the worker and what it started; more than once does no harm."""
        if self not in _live:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._write_fd)
        os.close(self._read_fd)
        _live.discard(self)

    def _signal(self, number: int) -> None:
        # Gone already if it ended by itself; the next answer that does not come says so.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _died(self) -> Died:
        code = self._process.wait()
        self.kill()
        log = self._log.read_text(errors="replace")
        if code < 0:
            return Died(f"killed by {signal.Signals(-code).name}", log)
        return Died(last_error(log) or f"ended with status {code}", log)


def last_error(log: str) -> str:
    """Return the line that names the error in a traceback, or the last line; "" for no lines.

    Torch prints advice after its errors.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Failure)\b", line)]
    return (named or lines or [""])[-1].strip()[:_REASON_CHARS]


@atexit.register
def _kill_all() -> None:
    for child in list(_live):
        child.kill()


def _environment(threads: int, workdir: Path) -> dict[str, str]:
    """Return the variables all workers get alike: N threads, and memory that is kept.

    Left alone, a framework that mallocs its outputs pays the kernel for fresh pages in every run
    (XLA: 16385 faults and 30 of 36 ms for a 64 MiB output). One arena that is never trimmed, in
    huge pages as NumPy asks for them, takes that out for all.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS")
    return {
        **os.environ,
        **{name: str(threads) for name in (*names, "NPROC")},
        "OMP_PROC_BIND": "close",  # two threads that woke up on one CPU wait for each other
        "GLIBC_TUNABLES": ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), *_MALLOC))),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}",
        "TORCHINDUCTOR_CACHE_DIR": str(workdir / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }

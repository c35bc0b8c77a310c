"""Worker processes that share out cases; one that dies or hangs is replaced, its case recorded."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

SCRIPTS = Path(__file__).parents[1]
MOST_SECONDS = 900.0  # of a case


class Worker:
    """One process of `checks.worker`, started for its first case."""

    def __init__(self, section: str) -> None:
        self._section = section
        self._process: subprocess.Popen | None = None

    def run(self, case: str) -> dict:
        """Return the case's answer, or {"error": ...} if the process died of it or did not end."""
        process, hung = self._process or self._start(), threading.Event()

        def end() -> None:
            hung.set()
            process.kill()

        answer, clock = "", threading.Timer(MOST_SECONDS, end)
        clock.start()
        try:
            process.stdin.write(case + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            pass
        clock.cancel()
        if answer:
            return json.loads(answer)
        self._process = None
        code = process.wait()
        if hung.is_set():
            return {"error": f"no answer within {MOST_SECONDS:.0f} seconds"}
        return {"error": f"the process died with exit code {code}"}

    def stop(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()

    def _start(self) -> subprocess.Popen:
        paths = [str(SCRIPTS), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "checks.worker", self._section],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        return self._process


def run_cases(
    section: str, cases: Sequence[str], workers: int, deadline: float
) -> Iterator[tuple[str, dict]]:
    """Yield each case and its answer as they come, until `deadline` (of time.monotonic)."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, dict] | None] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)

    def work() -> None:
        worker = Worker(section)
        while time.monotonic() < deadline:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                break
            done.put((case, worker.run(case)))
        worker.stop()
        done.put(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    working = workers
    while working:
        answer = done.get()
        if answer is None:
            working -= 1
        else:
            yield answer

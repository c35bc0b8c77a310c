"""A process that appends batches to a log until it has done its number, or is killed.

`python -m support.tuning_log.writer LOG NAME BATCHES`: prints `ready`, waits for a line, and
prints the number of each batch that is in the log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from support.tuning_log.records import device, trial, workload
from tvm_stitch.tuning.log import Log, Trial

BATCH = 20  # trials of a batch that are this writer's own
SHARED = 5  # and that every writer adds


def batch(name: str, number: int) -> Iterator[Trial]:
    """Yield the trials of a batch; they have its number as their age."""
    for owner, count in ((name, BATCH), ("shared", SHARED)):
        for each in range(count):
            yield trial(f"{owner} {number} {each}", created=float(number))


def start(where: object, name: str, batches: int) -> subprocess.Popen[str]:
    """Return a writer that waits for a line of its input."""
    command = [sys.executable, "-m", "support.tuning_log.writer", str(where), name, str(batches)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def _run(where: str, name: str, batches: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    with Log.open(where, create=True) as log:
        for number in range(batches):
            log.append([workload()], [device()], batch(name, number))
            print(number, flush=True)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""A peer's process as the bench starts it, on the simulated GPU."""

from __future__ import annotations

import sys

from support.simt import machine
from tvm_stitch.profiling import worker

if __name__ == "__main__":
    machine.install()
    worker.main(*sys.argv[1:])

"""A tuner's worker, on the simulated GPU."""

from __future__ import annotations

import sys

from support.simt import machine
from tvm_stitch.tuning.measure import worker

if __name__ == "__main__":
    machine.install()
    worker.main(*sys.argv[1:])

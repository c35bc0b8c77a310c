"""Benches of the tuner begin on a machine that does nothing else.

Interleaved times share what another process takes, but a search finds what suits it: with one of
two CPUs taken all large kernels are best in many small tasks.
"""

from __future__ import annotations

import sys

from tvm_stitch.profiling.others import cpus_taken
from tvm_stitch.tuning.policy import POLICY


def require_idle() -> None:
    """Exit with a line and 1 if other processes take the CPUs."""
    if (taken := cpus_taken()) > POLICY.session.taken:
        sys.exit(f"CPUs: other processes take {taken:.1f} of them: end these, then measure")

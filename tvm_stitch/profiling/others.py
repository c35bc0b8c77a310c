"""What else takes a machine's CPUs: times taken meanwhile are of both."""

from __future__ import annotations

import os

import psutil


def cpus_taken(seconds: float = 1.0) -> float:
    """Return how many of the CPUs that we may use are busy while this process waits `seconds`.

    What a hypervisor gives to other machines counts too.
    """
    percents = psutil.cpu_percent(seconds, percpu=True)
    return sum(percents[cpu] for cpu in os.sched_getaffinity(0)) / 100.0

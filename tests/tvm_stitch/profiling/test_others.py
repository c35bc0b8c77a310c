"""What other processes take of the CPUs that we may use."""

from __future__ import annotations

import os

import psutil
import pytest

from tvm_stitch.profiling.others import cpus_taken


def test_cpus_that_we_may_not_use_do_not_count(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda seconds, percpu: [90.0, 5.0, 25.0])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2})
    assert cpus_taken() == pytest.approx(0.3)


def test_a_process_that_computes_is_seen(monkeypatch):
    asked = psutil.cpu_percent

    def busy(seconds, percpu):
        asked(percpu=percpu)
        end = psutil.Process().cpu_times().user + seconds
        while psutil.Process().cpu_times().user < end:
            sum(range(10_000))
        return asked(percpu=percpu)

    monkeypatch.setattr(psutil, "cpu_percent", busy)
    assert cpus_taken(0.5) > 0.4

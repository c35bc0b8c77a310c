"""Every test decides for one machine, whichever it runs on: its figures decide what is fused."""

from __future__ import annotations

import logging

import pytest

from tir_schedules.device import cpu as device
from tir_schedules.device.profile import Profile, default_profile

CACHES = (48 << 10, 2 << 20, 64 << 20)
MCPU = {64: "rocketlake"}  # by bytes of a register; of others the machine's own


def pytest_configure(config: pytest.Config) -> None:
    """Set figures before tests are imported, for some modules ask for a device then."""
    patch = pytest.MonkeyPatch()
    settle(patch)
    config.add_cleanup(patch.undo)


class _Raise(logging.Handler):
    """Fails where default decisions are illegal: users get a slow kernel and a warning."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


logging.getLogger("tvm_stitch.schedule").addHandler(_Raise(logging.WARNING))


def settle(patch: pytest.MonkeyPatch) -> None:
    """Let whoever asks for this machine's figures have those of the one."""

    def profile(mcpu: str, vector_bytes: int) -> Profile:
        return default_profile(MCPU.get(vector_bytes, mcpu), vector_bytes)

    patch.setattr(device, "default_profile", profile)
    patch.setattr(device, "host_caches", lambda: CACHES)

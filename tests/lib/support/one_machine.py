"""The machine that every test decides for, whichever it runs on."""

from __future__ import annotations

import pytest

from tir_schedules.device import cpu as device
from tir_schedules.device.profile import Profile, default_profile

CACHES = (48 << 10, 2 << 20, 64 << 20)
MCPU = {64: "rocketlake"}  # by bytes of a register; of others the machine's own


def settle(patch: pytest.MonkeyPatch) -> None:
    """Let whoever asks for this machine's figures have those of the one."""

    def profile(mcpu: str, vector_bytes: int) -> Profile:
        return default_profile(MCPU.get(vector_bytes, mcpu), vector_bytes)

    patch.setattr(device, "default_profile", profile)
    patch.setattr(device, "host_caches", lambda: CACHES)

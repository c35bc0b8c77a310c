"""A device as a log keeps it: what times depend on besides the kernel."""

from __future__ import annotations

import hashlib
import json

from tir_schedules.device import Device

from .trial import DeviceKey

# Of decisions and what they mean: what was measured by other code is another device's.
FORMAT = 2  # 2: one task a thread by default


def device_key(device: Device) -> DeviceKey:
    """Return the key of a CPU, its caches, and the threads that share them."""
    described = {
        "kind": device.kind,
        "mcpu": device.mcpu,
        "threads": device.threads,
        "l1_bytes": device.l1_bytes,
        "l2_bytes": device.l2_bytes,
        "l3_bytes": device.l3_bytes,
        "vector_bytes": device.vector_bytes,
        "format": FORMAT,
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return DeviceKey(hashlib.sha256(text.encode()).hexdigest(), text)

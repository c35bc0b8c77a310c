"""A device as a log keeps it: what times depend on besides the kernel."""

from __future__ import annotations

import hashlib
import json

from tir_schedules.device import CpuDevice, Device
from tir_schedules.device.cuda import CudaDevice

from .trial import DeviceKey

# Of decisions and what they mean: what was measured by other code is another device's.
FORMAT = 2  # 2: one task a thread by default


def device_key(device: Device) -> DeviceKey:
    """Return the key of a CPU, its caches, and the threads that share them; of a GPU, its arch."""
    described = _of_gpu(device) if isinstance(device, CudaDevice) else _of_cpu(device)
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return DeviceKey(hashlib.sha256(text.encode()).hexdigest(), text)


def family(device: Device) -> str:
    """Return what devices have in common that one model of gains may serve."""
    return device.arch if isinstance(device, CudaDevice) else device.mcpu


def _of_cpu(device: CpuDevice) -> dict[str, object]:
    return {
        "kind": device.kind,
        "mcpu": device.mcpu,
        "threads": device.threads,
        "l1_bytes": device.l1_bytes,
        "l2_bytes": device.l2_bytes,
        "l3_bytes": device.l3_bytes,
        "vector_bytes": device.vector_bytes,
        "format": FORMAT,
    }


def _of_gpu(device: CudaDevice) -> dict[str, object]:
    # Not its name: a model is compiled for an arch, on a machine that may have no GPU.
    return {"kind": device.kind, "arch": device.arch, "sms": device.sms, "format": FORMAT}

"""The machine that a schedule is made for, and what it was measured to do."""

from .cpu import LINE_BYTES, PAGE_BYTES, CpuDevice, llvm_features, vector_bytes_of
from .described import Device, Measured

__all__ = [
    "LINE_BYTES",
    "PAGE_BYTES",
    "CpuDevice",
    "Device",
    "Measured",
    "llvm_features",
    "vector_bytes_of",
]

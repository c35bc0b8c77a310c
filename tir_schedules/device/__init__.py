"""The machine that a schedule is made for, and what it was measured to do."""

from .cpu import LINE_BYTES, PAGE_BYTES, Device, llvm_features, vector_bytes_of

__all__ = ["LINE_BYTES", "PAGE_BYTES", "Device", "llvm_features", "vector_bytes_of"]

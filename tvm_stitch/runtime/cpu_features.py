"""The CPU features code needs, in Linux's names, and those this machine lacks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

# LLVM's X86.td names on the left, the kernel's arch/x86/include/asm/cpufeatures.h on the right.
# Names missing here are tuning hints, or instructions LLVM never chooses by itself.
_LINUX_FLAGS = {
    "avx": "avx",
    "avx2": "avx2",
    "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512f": "avx512f",
    "avx512fp16": "avx512_fp16",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "f16c": "f16c",
    "fma": "fma",
    "fma4": "fma4",
    "gfni": "gfni",
    "lzcnt": "abm",
    "movbe": "movbe",
    "popcnt": "popcnt",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "ssse3": "ssse3",
    "tbm": "tbm",
    "xop": "xop",
}


def required(llvm_features: Iterable[str]) -> list[str]:
    """Return the Linux flags, sorted, that code with these LLVM features needs."""
    return sorted(_LINUX_FLAGS[name] for name in llvm_features if name in _LINUX_FLAGS)


def masked(llvm_features: Iterable[str]) -> list[str]:
    """Return the LLVM features, sorted, that this machine does not offer after all.

    LLVM goes by the CPU's model; a hypervisor may hide features of it.
    """
    flags = machine_flags()
    return sorted(
        name
        for name in llvm_features
        if flags and name in _LINUX_FLAGS and _LINUX_FLAGS[name] not in flags
    )


def missing(flags: Iterable[str]) -> list[str]:
    """Return those of the Linux flags, sorted, that this machine lacks."""
    return sorted(set(flags) - machine_flags())


@functools.cache
def machine_flags() -> frozenset[str]:
    """Return the flags of this machine's first CPU; empty where Linux does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()

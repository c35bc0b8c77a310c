"""Which parts of a log a model goes by: all, unless less of it was measured to be faster."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations

from tvm.ir import IRModule
from tvm_ffi import structural_hash

from ..log import Log

FUSION, KERNELS = "fusion", "kernels"  # forms and fusion plans; decisions of kernels
Parts = tuple[str, ...]
EVERY: Parts = (FUSION, KERNELS)
_LEGAL = [parts for count in range(len(EVERY) + 1) for parts in combinations(EVERY, count)]


def key_of(module: IRModule) -> str:
    """Return the key by which a log keeps what was measured of a lowered module as a whole.

    The module is that of all parts: with another decision in the log it is another.
    """
    return hashlib.sha256(f"model {structural_hash(module)}".encode()).hexdigest()


def measured_parts(log: Log, device: str, module: IRModule) -> Parts:
    """Return what a model goes by on a device that is this module by all parts."""
    choice = log.choice(key_of(module), device)
    found = None if choice is None else json.loads(choice.choice)
    return next((parts for parts in _LEGAL if found == list(parts)), EVERY)

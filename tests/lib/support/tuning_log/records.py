"""Records by short names: equal names make equal records, in any process."""

from __future__ import annotations

import hashlib
from typing import Any

from tvm_stitch.tuning.log import DeviceKey, PlanChoice, Trial, Workload


def key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def uid(name: str) -> str:
    return key(name)[:32]


def workload(name: str = "w", structure: str = "s") -> Workload:
    return Workload(key(name), key(structure), f"kernel {name}\nof two lines")


def device(name: str = "d") -> DeviceKey:
    return DeviceKey(key(name), '{"kind":"llvm","mcpu":"znver5","threads":2}')


def trial(name: str, of: str = "w", on: str = "d", **others: Any) -> Trial:
    measured = {"ns": 100.0, "default_ns": 120.0, "noise": 0.01, "runs": 9, "error": None}
    fields = {"features": '{"bytes":8}', **measured, "created": 1.0, **others}
    return Trial(uid(name), key(of), key(on), '{"lanes":16}', **fields)


def failed(name: str, error: str = "the compiler died", **others: Any) -> Trial:
    return trial(name, ns=None, default_ns=None, noise=None, runs=0, error=error, **others)


def choice(name: str, of: str = "g", ns: float = 100.0, created: float = 1.0) -> PlanChoice:
    return PlanChoice(uid(name), key(of), key("d"), '[["a","b"]]', ns, 120.0, created)

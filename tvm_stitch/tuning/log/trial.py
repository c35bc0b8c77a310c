"""What a log keeps, as plain data; each record is checked as it is made.

Keys are 64 hexadecimal digits, uids 32. Times are nanoseconds, `created` is seconds since 1970.
Raises: ValueError if a field holds what it must not.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import checks

KEY, UID = 64, 32
SURE = 15  # runs from which on a time is no luck


@dataclass(frozen=True)
class Workload:
    """A kernel: `structure` is shared by those of other sizes, `text` is what `key` is of."""

    key: str
    structure: str
    text: str

    def __post_init__(self) -> None:
        checks.hex_digits("key", self.key, KEY)
        checks.hex_digits("structure", self.structure, KEY)
        checks.text("text", self.text)


@dataclass(frozen=True)
class DeviceKey:
    """What times depend on besides the kernel; `text` is the fingerprint as a JSON object."""

    key: str
    text: str

    def __post_init__(self) -> None:
        checks.hex_digits("key", self.key, KEY)
        checks.json_object("text", self.text)


@dataclass(frozen=True)
class Trial:
    """One measurement of a workload on a device: `ns`, or the `error` that left none.

    `default_ns` is what the cost model's own decisions took in the same rounds. `decisions` and
    `features`, numbers for a model to learn from by their names, are canonical JSON. `noise`:
    spread of the runs over `ns`.
    """

    uid: str
    workload: str
    device: str
    decisions: str
    features: str | None
    ns: float | None
    default_ns: float | None
    noise: float | None
    runs: int
    error: str | None
    created: float

    def __post_init__(self) -> None:
        checks.hex_digits("uid", self.uid, UID)
        checks.hex_digits("workload", self.workload, KEY)
        checks.hex_digits("device", self.device, KEY)
        checks.json_object("decisions", self.decisions)
        if self.features is not None:
            checks.json_object("features", self.features)
        if (self.ns is None) == (self.error is None):
            raise ValueError("it has not exactly one of ns and error")
        if (self.ns is None) != (self.default_ns is None):
            raise ValueError("it has one of ns and default_ns")
        if self.ns is not None:
            checks.positive("ns", self.ns)
            checks.positive("default_ns", self.default_ns)
        if self.noise is not None:
            checks.not_negative("noise", self.noise)
        checks.runs("runs", self.runs)
        if self.error is not None:
            checks.line("error", self.error)
        checks.not_negative("created", self.created)


@dataclass(frozen=True)
class PlanChoice:
    """How a part of a graph was fused, and its time beside that of the default plan.

    `graph`: the key of the part's structure. `choice`: canonical JSON.
    """

    uid: str
    graph: str
    device: str
    choice: str
    ns: float
    default_ns: float
    created: float

    def __post_init__(self) -> None:
        checks.hex_digits("uid", self.uid, UID)
        checks.hex_digits("graph", self.graph, KEY)
        checks.hex_digits("device", self.device, KEY)
        checks.canonical_json("choice", self.choice)
        checks.positive("ns", self.ns)
        checks.positive("default_ns", self.default_ns)
        checks.not_negative("created", self.created)


Record = Workload | DeviceKey | Trial | PlanChoice

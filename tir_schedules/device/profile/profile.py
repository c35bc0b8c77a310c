"""The device profile: measured figures that the latency evaluator and the templates read.

A profile is data with the device and the command that made it; nothing here measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import get_type_hints

from .reader import REMEDY, ProfileError, Reader, is_a
from .thresholds import MAY_BE_NONE, Thresholds

FORMAT = 7
LEVELS = ("L1", "L2", "L3", "memory")
# What one vector register costs, by kind of operation; `light` is an add, a product, a select,
# `libm` a call of the C library for each lane.
OP_KINDS = ("light", "divide", "sqrt", "exp", "log", "erf", "tanh", "sigmoid", "pow", "libm")


@dataclass(frozen=True)
class Bandwidth:
    """Bytes a nanosecond (GB/s) of all `threads` together, working set in `level`.

    `read` sums an array; `copy` counts bytes read and written, with plain stores; `stream` the
    same with non-temporal ones. The last two are of memory only, 0 elsewhere.
    """

    level: str
    threads: int
    read: float
    copy: float = 0.0
    stream: float = 0.0


@dataclass(frozen=True)
class Profile:
    """One CPU's figures. Times are ns on one core; `op_ns` is by vector register of float32.

    `region_ns` is what a parallel region of that many threads adds to its work, workers awake, and
    `barrier_ns` what a barrier inside one does; `handover_ns` what a byte takes longer that another
    core has just written; `call_ns` what one more kernel costs a model; `fold_ns` what it takes to
    fold the lanes of a reduction into one result; `aliasing_ns` what a step of a product takes
    longer whose rows are a page apart than with copies of them side by side, 0 or less where copies
    cost as much; `strip_bytes` by how much wider a strip of a row out of L3 or memory seems than it
    is. `vector_bytes` is the register's width.

    `assumed` tells of each figure that `command` did not measure where it is from.
    """

    name: str
    mcpu: str
    vector_bytes: int
    command: str
    bandwidths: tuple[Bandwidth, ...]
    region_ns: Mapping[int, float]
    barrier_ns: Mapping[int, float]
    handover_ns: Mapping[int, float]
    call_ns: float
    fold_ns: float
    aliasing_ns: float
    strip_bytes: float
    op_ns: Mapping[str, float]
    thresholds: Thresholds
    assumed: Mapping[str, str]

    def bandwidth(self, level: str, threads: int) -> Bandwidth:
        """Return the figures of a level at the largest measured count that `threads` reaches."""
        rows = [b for b in self.bandwidths if b.level == level]
        within = [b for b in rows if b.threads <= threads]
        return max(within, key=lambda b: b.threads) if within else min(rows, key=_threads)

    def region(self, threads: int) -> float:
        """Return the cost in ns of one parallel region; 0 for one thread."""
        return _at(self.region_ns, threads)

    def barrier(self, threads: int) -> float:
        """Return the cost in ns of one barrier in a region; 0 for one thread."""
        return _at(self.barrier_ns, threads)

    def handover(self, threads: int) -> float:
        """Return what a byte from another core's cache costs more, in ns; 0 for one thread."""
        return _at(self.handover_ns, threads)

    def to_json(self) -> dict:
        """Return the profile as JSON types, `from_json`'s inverse."""
        rows = [
            {key: value for key, value in asdict(b).items() if value != 0.0}
            for b in self.bandwidths
        ]
        device = {"name": self.name, "mcpu": self.mcpu, "vector_bytes": self.vector_bytes}
        return {
            "format": FORMAT,
            "device": device,
            "command": self.command,
            "gb_per_s": rows,
            "region_ns": {str(threads): ns for threads, ns in self.region_ns.items()},
            "barrier_ns": {str(threads): ns for threads, ns in self.barrier_ns.items()},
            "handover_ns": {str(threads): ns for threads, ns in self.handover_ns.items()},
            "call_ns": self.call_ns,
            "fold_ns": self.fold_ns,
            "aliasing_ns": self.aliasing_ns,
            "strip_bytes": self.strip_bytes,
            "op_ns": dict(self.op_ns),
            "thresholds": asdict(self.thresholds),
            "assumed": dict(self.assumed),
        }

    @classmethod
    def from_json(cls, data: object, source: str) -> Profile:
        """Return the profile in `data`, read from `source`.

        Raises: ProfileError for a missing, superfluous or impossible value, or another format.
        """
        reader = Reader(source)
        written = data.get("format") if isinstance(data, dict) else None
        if is_a(written, int) and written != FORMAT:
            rule = f"format {written}, this release reads {FORMAT}"
            raise ProfileError(source, rule, REMEDY)
        top = reader.record(data, "the profile", _TOP)
        device = reader.record(top["device"], "device", _DEVICE)
        rows = [_bandwidth(reader, row) for row in reader.listed(top["gb_per_s"], "gb_per_s")]
        seen = {(row.level, row.threads) for row in rows}
        absent = [level for level in LEVELS if (level, 1) not in seen]
        if absent or len(seen) < len(rows):
            what = f"no row of {absent[0]} at 1 thread" if absent else "two rows of one level"
            raise ProfileError(source, f"gb_per_s: {what}", REMEDY)
        op_ns = reader.record(top["op_ns"], "op_ns", dict.fromkeys(OP_KINDS, float))
        for kind, ns in op_ns.items():
            reader.positive(ns, f"op_ns {kind}")
        return cls(
            device["name"],
            device["mcpu"],
            device["vector_bytes"],
            top["command"],
            tuple(rows),
            reader.by_threads(top["region_ns"], "region_ns"),
            reader.by_threads(top["barrier_ns"], "barrier_ns"),
            reader.by_threads(top["handover_ns"], "handover_ns"),
            reader.positive(top["call_ns"], "call_ns"),
            reader.positive(top["fold_ns"], "fold_ns"),
            reader.finite(top["aliasing_ns"], "aliasing_ns"),
            reader.positive(top["strip_bytes"], "strip_bytes"),
            op_ns,
            _thresholds(reader, top["thresholds"]),
            reader.sentences(top["assumed"], "assumed"),
        )


_TOP = {
    "format": int,
    "device": dict,
    "command": str,
    "gb_per_s": list,
    "region_ns": dict,
    "barrier_ns": dict,
    "handover_ns": dict,
    "call_ns": float,
    "fold_ns": float,
    "aliasing_ns": float,
    "strip_bytes": float,
    "op_ns": dict,
    "thresholds": dict,
    "assumed": dict,
}
_DEVICE = {"name": str, "mcpu": str, "vector_bytes": int}
_ROW = {"level": str, "threads": int, "read": float}
_MEMORY = {"copy": float, "stream": float}


def _threads(row: Bandwidth) -> int:
    return row.threads


def _at(figures: Mapping[int, float], threads: int) -> float:
    """Return the figure of the largest measured count that `threads` reaches, 0 for one thread."""
    if threads < 2 or not figures:
        return 0.0
    within = [t for t in figures if t <= threads]
    return figures[max(within) if within else min(figures)]


def _bandwidth(reader: Reader, data: object) -> Bandwidth:
    memory = isinstance(data, dict) and data.get("level") == "memory"
    row = reader.record(data, "gb_per_s", _ROW | (_MEMORY if memory else {}))
    if row["level"] not in LEVELS or row["threads"] < 1:
        raise reader.refused("gb_per_s", f"has a row of {row['level']}, {row['threads']} threads")
    for key in row.keys() - {"level", "threads"}:
        reader.positive(row[key], f"gb_per_s {key}")
    return Bandwidth(**row)


def _thresholds(reader: Reader, data: dict) -> Thresholds:
    kinds = get_type_hints(Thresholds)
    for name, value in reader.record(data, "thresholds", kinds).items():
        if value or name not in MAY_BE_NONE:
            reader.positive(value, f"thresholds {name}")
    return Thresholds(**data)

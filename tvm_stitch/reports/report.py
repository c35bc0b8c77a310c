"""What the compiler did to a model: its kernels, what each fused, what it saved, why it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class GroupReport:
    """One kernel launch: the graph ops in it and why it did not grow.

    `nodes` are the model's own nodes that these come from. `bytes_saved`: modelled main-memory
    traffic avoided against one kernel an op. `fallback`: no stitch template took the group.
    `decided`: with a tuning log, how its schedule was found, and its gain over the default one.
    """

    ops: list[str]
    kernel: str
    bytes_saved: int = 0
    stopped: list[str] = field(default_factory=list)
    fallback: bool = False
    nodes: list[str] = field(default_factory=list)
    decided: str = ""


@dataclass(frozen=True)
class Unfused:
    """A group that was taken apart as its kernel was found wrong; `ops` by the model's nodes."""

    ops: list[str]
    problem: str

    def __str__(self) -> str:
        return f"taken apart: {', '.join(self.ops)}: {self.problem}"


@dataclass(frozen=True)
class Report:
    """The compilation of one model.

    `kernels` counts launches in one run, library calls and copies included. `bytes_*`: modelled
    main-memory traffic of one run. `peak_bytes`: memory of what kernels write, where tensors of
    disjoint lifetimes share it; `peak_bytes_unshared` where they do not. `overwritten`: how many
    results are written over an operand. `weight_bytes` are in the
    exported file, `resident_weight_bytes` are what they take in a process: those of the file, also
    where nothing but a preparation reads them, and those prepared when the model is loaded.
    `rewrites` counts those applied, fusions among them, and `last_rewrite` is the last one where
    their number was limited. `serial_above_threshold` and `scalar_contiguous` name kernels that
    ought to be parallel and vectorised but are not: both should be empty. `unfused` are the groups
    that verification found wrong, of which none is a kernel any more. `unrolled` are the loops that
    no kernel runs, with the reason. `log` tells of a tuning log
    how much of it is of this device.
    """

    kernels: int
    groups: list[GroupReport] = field(default_factory=list)
    bytes_unfused: int = 0
    bytes_fused: int = 0
    peak_bytes_unshared: int = 0
    peak_bytes: int = 0
    overwritten: int = 0
    weight_bytes: int = 0
    resident_weight_bytes: int = 0
    fallbacks: int = 0
    rewrites: int = 0
    last_rewrite: str = ""
    serial_above_threshold: list[str] = field(default_factory=list)
    scalar_contiguous: list[str] = field(default_factory=list)
    unfused: list[Unfused] = field(default_factory=list)
    log: str = ""
    unrolled: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that `to_json` wrote.

        Raises: ValueError, KeyError or TypeError if `text` is something else.
        """
        fields = json.loads(text)
        groups = [GroupReport(**group) for group in fields["groups"]]
        unfused = [Unfused(**group) for group in fields.get("unfused", ())]
        return cls(**{**fields, "groups": groups, "unfused": unfused})

    def __str__(self) -> str:
        lines = [
            f"{self.kernels} kernels, {len(self.groups)} groups, {self.fallbacks} on the fallback "
            f"schedule; main memory {_mib(self.bytes_unfused)} -> {_mib(self.bytes_fused)}; "
            f"intermediates {_mib(self.peak_bytes_unshared)} in {_mib(self.peak_bytes)}, "
            f"{self.overwritten} written over an operand"
        ]
        if self.resident_weight_bytes > self.weight_bytes:
            lines.append(
                f"weights {_mib(self.weight_bytes)} in the file, "
                f"{_mib(self.resident_weight_bytes)} with those prepared when it is loaded"
            )
        if self.last_rewrite:
            lines.append(f"{self.rewrites} rewrites, the last: {self.last_rewrite}")
        if self.log:
            lines.append(f"log {self.log}")
        lines += map(str, self.unfused)
        for group in self.groups:
            mark = " (fallback)" if group.fallback else ""
            lines.append(f"{group.kernel}{mark}: {', '.join(group.ops)}")
            if group.nodes:
                lines.append(f"    of {', '.join(group.nodes)}")
            lines.append(f"    saves {_mib(group.bytes_saved)}")
            if group.decided:
                lines.append(f"    decided: {group.decided}")
            stopped = [group.stopped] if isinstance(group.stopped, str) else group.stopped
            lines += [f"    stopped: {reason}" for reason in stopped]
        lines += [f"serial above the threshold: {name}" for name in self.serial_above_threshold]
        lines += [f"contiguous axis left scalar: {name}" for name in self.scalar_contiguous]
        lines += [f"loop written out: {reason}" for reason in self.unrolled]
        return "\n".join(lines)


def _mib(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"

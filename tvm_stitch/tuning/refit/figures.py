"""The figures of a profile that times tell, each scaled by a power of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tir_schedules.device.profile import LEVELS, OP_KINDS, Profile

Scale = Callable[[Profile, float], Profile]


def _op(kind: str) -> Scale:
    def scaled(profile: Profile, by: float) -> Profile:
        return replace(profile, op_ns={**profile.op_ns, kind: profile.op_ns[kind] * by})

    return scaled


def _reading(level: str) -> Scale:
    """What a byte takes is scaled: bandwidths by its inverse."""

    def scaled(profile: Profile, by: float) -> Profile:
        rows = (
            replace(row, read=row.read / by, copy=row.copy / by, stream=row.stream / by)
            if row.level == level
            else row
            for row in profile.bandwidths
        )
        return replace(profile, bandwidths=tuple(rows))

    return scaled


def _single(name: str) -> Scale:
    return lambda profile, by: replace(profile, **{name: getattr(profile, name) * by})


def _counted(name: str) -> Scale:
    def scaled(profile: Profile, by: float) -> Profile:
        figures: Mapping[int, float] = getattr(profile, name)
        return replace(profile, **{name: {count: ns * by for count, ns in figures.items()}})

    return scaled


FIGURES: dict[str, Scale] = {
    **{f"op_ns {kind}": _op(kind) for kind in OP_KINDS},
    **{f"a byte of {level}": _reading(level) for level in LEVELS},
    "fold_ns": _single("fold_ns"),
    "call_ns": _single("call_ns"),
    "region_ns": _counted("region_ns"),
    "barrier_ns": _counted("barrier_ns"),
}


def scaled(profile: Profile, powers: Sequence[float]) -> Profile:
    """Return the profile with each of FIGURES, which are times, by a power of two."""
    for scale, power in zip(FIGURES.values(), powers, strict=True):
        if power:
            profile = scale(profile, 2.0**power)
    return profile

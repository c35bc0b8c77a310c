"""Profiles in files, those that are shipped among them: read, checked, matched with a device."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from ...host import host_mcpu, host_name
from .profile import Profile
from .reader import ProfileError

_SHIPPED = Path(__file__).parent / "defaults"
_GENERIC = {64: "x86-64-v4", 32: "x86-64-v3", 16: "x86-64"}


def load_profile(path: Path) -> Profile:
    """Return the profile in a file.

    Raises: ProfileError if it is missing or not a profile of this format.
    """
    return Profile.from_json(read_profile(path), str(path))


def read_profile(path: Path) -> object:
    """Return the JSON in a file. Raises: ProfileError if there is none."""
    remedy = "write one with tvm-stitch calibrate -o FILE"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(str(path), error.strerror or "unreadable", remedy) from None
    except UnicodeDecodeError:
        raise ProfileError(str(path), "not a text file", remedy) from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProfileError(str(path), f"not JSON: {error}", remedy) from None


def refuse_cpu(profile: Profile, mcpu: str, vector_bytes: int) -> str | None:
    """Return why a profile says nothing of a CPU: it is another machine's.

    Code for this machine needs this CPU's own model; code for another one its LLVM name, for
    virtual machines name models vaguely.
    """
    if profile.mcpu != mcpu:
        return f"is of {profile.mcpu}, the target is {mcpu}"
    if profile.vector_bytes != vector_bytes:
        return f"has {profile.vector_bytes}-byte registers, the target {vector_bytes}"
    if mcpu == host_mcpu() and profile.name != host_name():
        return f"is of {profile.name}, this machine is {host_name()}"
    return None


def default_profile(mcpu: str, vector_bytes: int) -> Profile:
    """Return the shipped profile of a CPU, by its model, its LLVM name or its width.

    The generic ones (`x86-64*`) are this project's conservative guesses, as their command says.
    """
    shipped = _shipped()
    for profile in shipped.values():
        if refuse_cpu(profile, mcpu, vector_bytes) is None:
            return profile
    for profile in shipped.values():
        if (profile.mcpu, profile.vector_bytes) == (mcpu, vector_bytes):
            return profile
    return shipped[_GENERIC[vector_bytes]]


@functools.cache
def _shipped() -> dict[str, Profile]:
    return {path.stem: load_profile(path) for path in sorted(_SHIPPED.glob("*.json"))}

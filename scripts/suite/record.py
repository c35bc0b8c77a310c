"""The record of a run, that the next one goes on from: of the same code on the same GPU."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from checks import ROOT
from checks.loaded import CODE


def code() -> str:
    """Return a hash of the packages' files: a machine that is lent has no history of them."""
    made = hashlib.sha256()
    for package in CODE:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".cc", ".h", ".json") and path.is_file():
                made.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return made.hexdigest()[:16]


def load(path: Path, device: str) -> dict:
    """Return the record to go on from, an empty one of this code and device if there is none."""
    head = {"code": code(), "device": device}
    if path.exists():
        found = json.loads(path.read_text())
        if {key: found.get(key) for key in head} == head:
            return found
    return {**head, "steps": {}}


def write(path: Path, record: dict) -> None:
    """Write the record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.replace(path)

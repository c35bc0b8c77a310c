"""The record of a run: which commit, on which machine, with which versions, and what came out."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import sys
from pathlib import Path

from git_state import git

from tir_schedules.host import available_cpus, host_mcpu, host_name

CODE = ("relay_passes", "tir_schedules", "tvm_stitch")
UNCHECKED = ("tir_schedules/tuning/", "tvm_stitch/tuning/")  # nothing else imports them: a test
SAME = ("code", "clean")  # what runs that add up share
PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "onnxruntime", "onnxsim")


def commit() -> str:
    """Return the hash of the checked-out commit."""
    return git("rev-parse", "HEAD")


def code() -> str:
    """Return the hash of the packages' files as they were committed: what a check is of."""
    files = git("ls-tree", "-r", "--full-tree", "HEAD", *CODE).splitlines()
    kept = [line for line in files if not line.partition("\t")[2].startswith(UNCHECKED)]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]


def dirty_files() -> list[str]:
    """Return what differs from the commit, files that git does not know included."""
    return git("status", "--porcelain").splitlines()


def header(allow_dirty: bool) -> dict:
    return {
        "command": " ".join(["python scripts/check_all.py", *sys.argv[1:]]),
        "commit": commit(),
        "code": code(),
        "clean": not (allow_dirty and dirty_files()),
        "machine": {
            "cpu": host_name(),
            "mcpu": host_mcpu(),
            "cpus": available_cpus(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def sections_of(path: Path, head: dict) -> dict:
    """Return the sections that the file has of the same code, each run of a clean commit."""
    if not head["clean"] or not path.exists():
        return {}
    before = json.loads(path.read_text())
    return before["sections"] if all(before.get(key) == head[key] for key in SAME) else {}


def write(path: Path, head: dict, sections: dict) -> None:
    """Write the record; other sections that the file has of the same code stay in it."""
    kept = sections_of(path, head)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "sections": {**kept, **sections}}, indent=1) + "\n")

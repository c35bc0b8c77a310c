"""The record of a run: which commit, on which machine, with which versions, and what came out."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from git_state import git

from tir_schedules.host import available_cpus, host_mcpu, host_name

from .loaded import CODE

# What no case runs; a test says that nothing else imports it.
UNCHECKED = (
    "tir_schedules/cpu/tuning",
    "tir_schedules/cuda",
    "tir_schedules/device/cuda.py",
    "tir_schedules/device/gpu_profile.py",
    "tir_schedules/tuning",
    "tvm_stitch/cli",
    "tvm_stitch/doctor.py",
    "tvm_stitch/profiling",
    "tvm_stitch/runtime/cuda_toolkit.py",
    "tvm_stitch/runtime/gpu_driver.py",
    "tvm_stitch/runtime/gpu_model.py",
    "tvm_stitch/tuning",
)
PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "onnxruntime", "onnxsim")


def commit() -> str:
    """Return the hash of the checked-out commit."""
    return git("rev-parse", "HEAD")


def same_code(other: str, left_out: Iterable[str] = ()) -> bool:
    """Return whether what cases run is the same in another commit, by its hash, as in this one.

    Beside what no case runs, those in question have `left_out` some files and folders.
    """
    if other not in git("rev-list", "HEAD").split():
        return False
    excluded = (f":(exclude){path}" for path in (*UNCHECKED, *left_out))
    return not git("diff", "--name-only", other, "HEAD", "--", *CODE, *excluded)


def dirty_files() -> list[str]:
    """Return what differs from the commit, files that git does not know included."""
    return git("status", "--porcelain").splitlines()


def header(allow_dirty: bool) -> dict:
    return {
        "command": " ".join(["python scripts/check_all.py", *sys.argv[1:]]),
        "commit": commit(),
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
    if not before["clean"]:
        return {}
    return {
        name: section
        for name, section in before["sections"].items()
        if same_code(before["commit"], section.get("left_out", ()))
    }


def write(path: Path, head: dict, sections: dict) -> None:
    """Write the record; other sections that the file has of the same code stay in it."""
    kept = sections_of(path, head)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "sections": {**kept, **sections}}, indent=1) + "\n")

"""Steps that a tool watches: DRAM bytes by ncu, memory errors and races by compute-sanitizer."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from suite.child import asked, call, command
from suite.steps import Step

_METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_LISTING = "traffic.csv"
_LEFT_LINES = 4


def watched(step: Step, seconds: float, simulated: bool) -> dict:
    """Return what a tool tells of one run of a model, `missing` or `failed` if it tells nothing."""
    tool = "ncu" if step.kind == "traffic" else "compute-sanitizer"
    found = shutil.which(tool)
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as name:
        folder = Path(name)
        made = asked("build", step, folder, seconds, simulated)
        if made.get("wrong"):
            return made
        if found is None:
            return {**made, "missing": f"no {tool} here"}
        words = [found, *_options(step, folder), *command("run", step, folder, simulated)]
        if (done := call(words, seconds)) is None:
            return {**made, "failed": f"not done in {seconds:.0f} s"}
        told = _traffic(folder / _LISTING, done) if step.kind == "traffic" else _sanitized(done)
        return {**made, **told}


def _options(step: Step, folder: Path) -> list[str]:
    if step.kind != "traffic":
        return ["--tool", step.kind, "--error-exitcode", "9"]
    # The L2 is empty at the start of a kernel: ncu sees to that.
    told = ["--metrics", ",".join(_METRICS), "--clock-control", "none", "--print-units", "base"]
    return [*told, "--csv", "--page", "raw", "--log-file", str(folder / _LISTING)]


def _traffic(path: Path, done: subprocess.CompletedProcess) -> dict:
    if done.returncode or not path.exists():
        return {"failed": _end(done)}
    return dram_bytes(path.read_text()) or {"failed": path.read_text()[-300:]}


def dram_bytes(text: str) -> dict:
    """Return the bytes that kernels read and wrote of DRAM, by ncu's raw page; {} if not in it."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]  # below the units
    if not rows or any(metric not in rows[0] for metric in _METRICS):
        return {}
    read, written = (
        sum(float(row[metric].replace(",", "")) for row in rows) for metric in _METRICS
    )
    return {"read_bytes": read, "written_bytes": written, "kernels": len(rows)}


def _sanitized(done: subprocess.CompletedProcess) -> dict:
    told = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", done.stdout + done.stderr)
    if not told:
        return {"failed": _end(done)}
    return {"told": told[-1], "wrong": done.returncode != 0}


def _end(done: subprocess.CompletedProcess) -> str:
    lines = (done.stdout + done.stderr).strip().splitlines()
    return f"status {done.returncode}: {' | '.join(lines[-_LEFT_LINES:])}"

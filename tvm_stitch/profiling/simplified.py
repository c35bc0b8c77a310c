"""The model as onnxsim leaves it, for peers that cannot read what exporters write."""

from __future__ import annotations

import fcntl
from pathlib import Path

import onnx

from .peer import CannotRun, Job

NAME = "simplified.onnx"
_IN_FILE_BYTES = 1 << 20


def simplified(job: Job) -> Path:
    """Return the simplified model with static shapes, made once for all peers of a job."""
    path = job.workdir / NAME
    with (job.workdir / f"{NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _simplify(job, path)
    return path


def _simplify(job: Job, path: Path) -> None:
    import onnxsim  # a second of loading that the bench's own process can do without

    shapes = {name: list(shape) for name, shape in job.shapes.items()}
    model, _ = onnxsim.simplify(str(job.model), overwrite_input_shapes=shapes or None)
    if not model.graph.output:
        raise CannotRun("onnxsim returns an empty model")
    onnx.save_model(
        model,
        path,
        save_as_external_data=True,
        location=f"{NAME}.data",
        size_threshold=_IN_FILE_BYTES,
    )


def forget(workdir: Path) -> None:
    """Delete the simplified model of an earlier job."""
    for name in (NAME, f"{NAME}.data"):
        (workdir / name).unlink(missing_ok=True)

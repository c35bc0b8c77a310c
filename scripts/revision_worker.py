"""Compile and time models with the packages of one revision, as lines on stdin ask.

    python scripts/revision_worker.py      # PYTHONPATH is the revision's root

A line is JSON: {"compile": FILE.onnx, "inputs": FILE.npz, "threads": N} makes the model to time,
{"turn": SECONDS} times it for that long. Each is answered with a line of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

import numpy as np
import onnx
import tvm

import tvm_stitch

_WARM = 3


def main() -> None:
    # What compilers print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    model, tensors = None, []
    for line in sys.stdin:
        asked = json.loads(line)
        if "compile" in asked:
            model = tensors = None  # their memory is free before there is another model
            model, tensors = _compiled(asked)
            answer = {"kernels": model.report.kernels}
        else:
            answer = {"us": _turn(model, tensors, asked["turn"])}
        answers.write(json.dumps(answer) + "\n")


def _compiled(asked: dict) -> tuple[tvm_stitch.Model, list]:
    names = [
        value.name for value in onnx.load(asked["compile"], load_external_data=False).graph.input
    ]
    with np.load(asked["inputs"]) as arrays:
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(arrays[name])) for name in names]
    return tvm_stitch.compile(asked["compile"], threads=asked["threads"]), tensors


def _turn(model: tvm_stitch.Model, tensors: list, seconds: float) -> float:
    """Return the median time of a call in us."""
    for _ in range(_WARM):
        model(*tensors)
    samples: list[float] = []
    while not samples or sum(samples) < seconds:
        start = time.perf_counter()
        model(*tensors)
        samples.append(time.perf_counter() - start)
    return statistics.median(samples) * 1e6


if __name__ == "__main__":
    main()

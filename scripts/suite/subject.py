"""The model of a step, in the size that it is asked in."""

from __future__ import annotations

import math

import onnx
import zoo

from suite.steps import Step

# Past the L2 of any GPU that there are figures of: 60 MB of an H200.
ROW_BYTES = 256 << 20


def subject(step: Step, tiny: bool) -> onnx.ModelProto:
    """Return the model of a step; `tiny` for GPUs that fibers play."""
    if step.name not in zoo.SUBGRAPHS:
        small = tiny or step.kind in ("memcheck", "racecheck")
        return zoo.model(step.name, dtype=step.dtype, **(zoo.SMALL[step.name] if small else {}))
    if step.kind == "numbers":
        # Rows of odd lengths are in it: they are 128 bits wide nowhere.
        return zoo.subgraph(step.name, dtype=step.dtype)
    if tiny:
        return zoo.subgraph(step.name, dtype=step.dtype)
    size = "memory" if step.kind in ("row", "traffic") else "cache"
    shape = zoo.bench_shapes(step.name)[size]
    made = zoo.subgraph(step.name, shape, step.dtype)
    if size == "cache" or (times := math.ceil(ROW_BYTES / zoo.traffic_bytes(made))) == 1:
        return made
    return zoo.subgraph(step.name, (shape[0] * times, *shape[1:]), step.dtype)

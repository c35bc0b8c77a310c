"""Compile random graphs, run them, and say where an output is not what NumPy says."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from relay_passes.graph.fusion_plan import FusionPlan
from relay_passes.transform import StitchOps
from support.random_graphs import values as rv
from support.random_graphs.graphs import Graph
from support.random_graphs.plans import RandomPlanner
from support.random_graphs.values import Value
from tir_schedules.cpu.decide import planner
from tir_schedules.device import CpuDevice
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model

BOUND = 1e-5
ROUNDING = 8  # times the error of NumPy in the same dtype
SUBNORMALS = 16  # of the output's dtype: what gradual underflow may cost


def run_graph(graph: Graph, threads: int = 2) -> list[np.ndarray]:
    """Compile a graph and return its outputs in order.

    The passes are those of `tvm_stitch.compile`; linking a library would cost more than all of
    them together.
    """
    target = targets.resolve("x86", threads)
    imported = import_model(graph.model())
    module, _ = pipeline.lower(imported.mod, target, fusion="stitch", threads=threads)
    machine = relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())
    feeds = graph.feeds()
    arrays = [*(feeds[spec.name] for spec in imported.inputs), *imported.weights]
    got = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    tensors = [got] if len(imported.outputs) == 1 else list(got)
    return [tensor.numpy() for tensor in tensors]


def mismatches(graph: Graph, outputs: Sequence[np.ndarray]) -> list[str]:
    """Return a line for each output that is wrong, none if all are right."""
    found = []
    for value, output in zip(graph.outputs, outputs, strict=True):
        if reason := _wrong(value, output):
            found.append(f"{value.name} {value.dtype}{list(value.shape)}: {reason}")
    return found


def describe(graph: Graph) -> str:
    """Return the graph as text, one op a line."""
    lines = [f"{v.name} = {v.dtype}{list(v.shape)}" for v in graph.inputs]
    lines += [
        f"{v.name} = {v.dtype}{list(v.shape)} constant {v.ref if v.ref.size < 9 else '...'}"
        for v in graph.initializers
    ]
    shapes = {v.name: f"{v.dtype}{list(v.shape)}" for v in graph.values}
    for node in graph.nodes:
        attrs = {a.name: a.ints or a.s or a.i or a.f for a in node.attribute}
        extra = f" {attrs}" if attrs else ""
        out = node.output[0]
        lines.append(f"{out} = {node.op_type}({', '.join(node.input)}){extra}: {shapes[out]}")
    return "\n".join([*lines, f"outputs {', '.join(v.name for v in graph.outputs)}"])


@contextmanager
def random_plans(seed: int) -> Iterator[list[FusionPlan]]:
    """Compile with random legal plans instead of the planner's; yield the plans that were made."""
    planner = RandomPlanner(CpuDevice.detect(targets.resolve("x86", 2), 2), random.Random(seed))

    def stitch(device: CpuDevice, *_: object) -> StitchOps:
        return StitchOps(device, planner=planner)

    with mock.patch.object(pipeline, "StitchOps", stitch):
        yield planner.plans


@contextmanager
def all_parallel() -> Iterator[None]:
    """Run small kernels in parallel too: as if a parallel region cost a nanosecond."""
    with mock.patch.object(planner, "region_ns", lambda device: 1.0):
        yield


def _wrong(value: Value, output: np.ndarray) -> str | None:
    if output.shape != value.shape or output.dtype != rv.numpy_dtype(value.dtype):
        return f"got {output.dtype}{list(output.shape)}"
    if not value.is_float:
        differ = output != value.ref
        return _at(value, output, differ) if differ.any() else None
    got = output.astype(np.float64)
    known = ~_near_overflow(value)
    for lane in value.lanes[1:]:
        known &= _kind(lane) == _kind(value.ref)
    differ = known & (_kind(got) != _kind(value.ref))
    if differ.any():
        return "NaN or infinity: " + _at(value, output, differ)
    checked = known & np.isfinite(value.ref)
    if not checked.any():
        return None
    ref, got = np.where(checked, value.ref, 0.0), np.where(checked, got, 0.0)
    rounding = max(np.abs(np.where(checked, lane, ref) - ref).max() for lane in value.lanes[1:])
    size = np.abs(ref)
    info = np.finfo(value.dtype) if value.dtype != "bfloat16" else np.finfo(np.float32)
    allowed = ROUNDING * rounding + BOUND * (size + size.max())
    allowed += SUBNORMALS * float(info.smallest_subnormal)
    if value.dtype in rv.HALF:
        allowed += rv.EPSILON[value.dtype] * size
    differ = np.abs(got - ref) > allowed
    return _at(value, output, differ) if differ.any() else None


def _kind(array: np.ndarray) -> np.ndarray:
    """Return 0 for finite elements, 1, -1 and 2 for the infinities and NaN."""
    return np.where(np.isnan(array), 2, np.where(np.isinf(array), np.sign(array), 0))


def _near_overflow(value: Value) -> np.ndarray:
    """Return where a few roundings decide between the largest finite number and infinity."""
    margin = ROUNDING * rv.EPSILON[value.dtype]
    largest = float(ml_dtypes.finfo(rv.numpy_dtype(value.dtype)).max)
    sizes = np.abs(np.stack(value.lanes))
    near = (sizes > largest * (1 - margin)) & np.isfinite(sizes)
    return near.any(axis=0)


def _at(value: Value, output: np.ndarray, differ: np.ndarray) -> str:
    """Name the first difference."""
    place = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differ)))[: value.rank]
    count = int(differ.sum())
    lanes = ", ".join(f"{lane[place]!s}" for lane in value.lanes[:2])
    return f"{count} of {differ.size} differ; at {place} got {output[place]}, want {lanes}"

"""Compile a random network as a user would, run it in several ways, and say what is wrong."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

import tir_schedules
import tvm_stitch
from support.blocks.graph import BlockGraph
from support.random_graphs.case import mismatches
from tir_schedules.device import llvm_features
from tvm_stitch import targets
from tvm_stitch.runtime import cpu_features

logger = logging.getLogger(__name__)

PROFILES = Path(tir_schedules.__file__).parent / "device" / "profile" / "defaults"
SHIPPED = sorted(path.stem for path in PROFILES.glob("*.json"))
OFFSETS = range(0, 64, 4)


@dataclass(frozen=True)
class Way:
    """How a case is compiled and run; `target` is this machine's or a shipped profile's name."""

    target: str
    fusions: tuple[str, ...]
    threads: tuple[int, ...]
    offset: int  # bytes behind a multiple of 64 that each input begins at, rounded to its items

    def compiled(self, graph: BlockGraph, fusion: str, threads: int) -> tvm_stitch.Model:
        """Compile a graph for the target by its profile, or for this machine if it is not one."""
        target, profile = "x86", None
        if runs(self.target):
            target, profile = self.target, PROFILES / f"{self.target}.json"
        return tvm_stitch.compile(
            graph.model(), target, profile=profile, threads=threads, fusion=fusion
        )


def random_way(rng: Random) -> Way:
    """Draw a way; `stitch` is always in it."""
    other = rng.choice((*((),) * 8, ("tvm",), ("none",)))
    return Way(
        rng.choice(("x86", "x86", *SHIPPED)),
        ("stitch", *other),
        rng.choice(((1,), *((2,),) * 4, (1, 2), (2, 3), (1, 8))),
        rng.choice(OFFSETS),
    )


@functools.cache
def runs(target: str) -> bool:
    """Return whether this machine is another one than `target` and has what its code needs."""
    if target in ("x86", targets.machine().mcpu):
        return False
    needed = cpu_features.required(llvm_features(targets.resolve(target, 1)))
    return not cpu_features.missing(needed)


def wrong(graph: BlockGraph, way: Way) -> list[str]:
    """Return a line for each thing that is not as it must be."""
    feeds = {name: _placed(array, way.offset) for name, array in graph.feeds().items()}
    for fusion in way.fusions:
        before = None
        for threads in way.threads:
            model = way.compiled(graph, fusion, threads)
            outputs = _run(model, graph, feeds)
            found = mismatches(graph, outputs)
            found = found and excused(graph, outputs, found)
            if not found:
                model.run({name: _spoiled(array) for name, array in feeds.items()})
                if differ := _different(graph, outputs, _run(model, graph, feeds)):
                    found = [f"{differ} differs in the second run"]
            if not found and (differ := before and _different(graph, before, outputs)):
                found = [f"{differ} differs on {threads} threads"]
            if found:
                return [f"fusion={fusion} threads={threads}: {line}" for line in found]
            before = outputs
    return []


def _run(model: tvm_stitch.Model, graph: BlockGraph, feeds) -> list[np.ndarray]:
    results = model.run(feeds)
    return [results[value.name] for value in graph.outputs]


def _different(graph: BlockGraph, one: list[np.ndarray], other: list[np.ndarray]) -> str:
    for value, a, b in zip(graph.outputs, one, other, strict=True):
        if not same_bits(a, b):
            return value.name
    return ""


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether arrays have the same bits; IEEE 754 leaves open what those of a NaN are."""
    words = f"u{one.itemsize}"
    same = one.view(words) == other.view(words)
    if one.dtype.kind not in "bi":
        same |= np.isnan(one) & np.isnan(other)
    return bool(same.all())


def _placed(array: np.ndarray, offset: int) -> np.ndarray:
    """Return a copy that begins `offset` bytes behind a cache line."""
    offset -= offset % array.itemsize
    room = np.empty(array.nbytes + 128, np.uint8)
    start = -room.__array_interface__["data"][0] % 64 + offset
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _spoiled(array: np.ndarray) -> np.ndarray:
    """Return NaN in the place of numbers: what a run leaves in the arena must not show later."""
    if array.dtype.kind in "bi":
        return array
    return np.full_like(array, np.nan)


def excused(graph: BlockGraph, outputs: list[np.ndarray], found: list[str]) -> list[str]:
    """Return what is found but for special numbers that ONNX Runtime gives in the same places."""
    if not all("NaN or infinity" in line for line in found):
        return found
    theirs = onnxruntime_outputs(graph)
    if theirs is None:
        return found
    for ours, other in zip(outputs, theirs, strict=True):
        if ours.dtype != other.dtype or not np.array_equal(_kinds(ours), _kinds(other)):
            return found
    return []


def _kinds(array: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        values = array.astype(np.float64)
        return np.where(np.isnan(values), 2, np.where(np.isinf(values), np.sign(values), 0))


def onnxruntime_outputs(graph: BlockGraph) -> list[np.ndarray] | None:
    """Return what ONNX Runtime gives, unoptimised; None if it lacks a kernel for a dtype."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            graph.model().SerializeToString(), options, ["CPUExecutionProvider"]
        )
    except NotImplemented as error:
        logger.debug("no kernel in ONNX Runtime: %s", error)
        return None
    return session.run([value.name for value in graph.outputs], graph.feeds())

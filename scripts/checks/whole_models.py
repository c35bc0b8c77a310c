"""Whole models of the zoo at full size: compiled, run, and compared with ONNX Runtime."""

from __future__ import annotations

import statistics
import time

import numpy as np
import onnx
import onnxruntime
import zoo

import tvm_stitch

BOUND = 1e-4  # max difference over max magnitude
RUNS = 5
# What a model must show beside right numbers.
LIMITS = {"bert": {"kernels": 150, "compile_s": 60.0}}
CLEAN = ("bert",)  # no kernel serial above the threshold, none with a contiguous axis left scalar


def cases(_seed: int) -> list[str]:
    return list(zoo.MODELS)


def run(name: str) -> dict:
    """Return what was measured, and `wrong`: a line for each thing that is not as it must be."""
    proto = zoo.model(name)
    inputs = zoo.random_inputs(proto, seed=1)
    start = time.perf_counter()
    model = tvm_stitch.compile(proto)
    compile_s = time.perf_counter() - start
    got = model.run(inputs)
    measured = {
        "error_of_max": _error(got, _expected(proto, inputs)),
        "compile_s": round(compile_s, 2),
        "run_ms": round(_run_ms(model, inputs), 3),
        "kernels": model.report.kernels,
        "fallbacks": model.report.fallbacks,
        "serial_above_threshold": model.report.serial_above_threshold,
        "scalar_contiguous": model.report.scalar_contiguous,
        "bytes_unfused": model.report.bytes_unfused,
        "bytes_fused": model.report.bytes_fused,
    }
    return {**measured, "wrong": _wrong(name, measured)}


def _wrong(name: str, measured: dict) -> list[str]:
    found = []
    if not measured["error_of_max"] < BOUND:
        found.append(f"error of max {measured['error_of_max']:.3g}, the bound is {BOUND}")
    for key, limit in LIMITS.get(name, {}).items():
        if measured[key] > limit:
            found.append(f"{key} {measured[key]}, the limit is {limit}")
    if name in CLEAN:
        for key in ("serial_above_threshold", "scalar_contiguous"):
            if measured[key]:
                found.append(f"{key}: {', '.join(measured[key])}")
    return found


def _expected(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def _error(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Return the largest difference of any output, over the largest magnitude in that output."""
    worst = 0.0
    for name, reference in expected.items():
        difference = np.abs(got[name].astype(np.float64) - reference).max()
        worst = float(np.maximum(worst, difference / np.abs(reference).max()))
    return worst


def _run_ms(model: tvm_stitch.Model, inputs: dict[str, np.ndarray]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        model.run(inputs)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)

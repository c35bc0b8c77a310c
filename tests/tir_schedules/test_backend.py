"""Passes and tools reach a target through its backend alone: another takes the CPU's place."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import tvm
import zoo
from tvm import tirx
from tvm.target import Target

import tir_schedules
import tvm_stitch
from relay_passes.transform import PackWeights, PointwiseProducts, StitchOps
from support.toy_backend import SerialLoops
from tir_schedules import ApplyStitchSchedules
from tir_schedules.backend import registered
from tvm_stitch.frontend import import_model

BOUND = 1e-4  # max difference over max magnitude


@pytest.mark.long(every=4)
@pytest.mark.parametrize("name", ["bert", "resnet50", "mobilenetv2", "gpt2"])
def test_a_whole_model_runs_by_a_backend_of_serial_loops(name):
    model = zoo.model(name, **zoo.SMALL[name])
    feeds = zoo.random_inputs(model, seed=1)
    with registered("llvm", SerialLoops()):
        made = tvm_stitch.compile(model, threads=2)
    stitched = [group for group in made.report.groups if len(group.ops) > 1]
    assert stitched
    assert made.report.overwritten == 0
    session = onnxruntime.InferenceSession(model.SerializeToString())
    got = made.run(feeds)
    for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        error = np.abs(got[output.name].astype(np.float64) - expected).max()
        assert error < BOUND * np.abs(expected).max()


def test_its_plans_are_pages_and_its_kernels_serial():
    model = zoo.subgraph("layernorm_decomposed", (64, 96))
    with registered("llvm", SerialLoops()):
        pages = tvm_stitch.plans(model)
    assert all(page.startswith("serial loops of ") for page in pages.values())
    assert not any(page.startswith("serial loops") for page in tvm_stitch.plans(model).values())


def test_a_target_without_a_backend_is_left_alone():
    other = Target("opencl")
    assert tir_schedules.backend(other) is None
    mod = import_model(zoo.subgraph("softmax", (64, 96))).mod
    with other:
        for each in (PointwiseProducts(), PackWeights(), StitchOps(), ApplyStitchSchedules()):
            tvm.ir.assert_structural_equal(each(mod), mod)


def test_the_backend_of_a_device_is_that_of_its_target():
    target = Target("llvm")
    found = tir_schedules.backend(target)
    device = found.device(target)
    assert tir_schedules.backend(device) is found
    assert isinstance(found.fallback(tirx.PrimFunc([], tirx.Evaluate(0)), device), tirx.PrimFunc)

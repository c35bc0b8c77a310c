"""Cheap ops computed again where they are read: each op is still at home in one kernel."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import tvm_stitch
from relay_passes.fusion.stitch_ops import StitchOps
from support.kernels import stitch_case as sc
from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import default_profile
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model

MIB = 1 << 20
DEVICE = CpuDevice("znver4", 2, MIB >> 5, MIB, 32 * MIB, 64, default_profile("znver4", 64))
# A maximum of a product with itself is copied into the Softplus behind it, then its absolute value,
# which leaves the first kernel with the product alone: twice.
SOFTPLUS = """
<ir_version: 8, opset_import: ["" : 17]>
copied (float[129, 5, 7, 3, 1] x, float[3, 1] c) => (float[129, 5, 7, 3, 1] soft,
                                                    float[129, 5, 7, 3, 1] most) {
  scaled = Mul(x, c)
  soft = Softplus(scaled)
  most = Max(scaled, scaled)
}
"""


def owners(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ops of a model's plan, each as often as a group has it for its own."""
    found: list[StitchOps] = []

    def keep(*_: object, **__: object) -> StitchOps:
        found.append(StitchOps(DEVICE))
        return found[-1]

    monkeypatch.setattr(pipeline, "StitchOps", keep)
    target = targets.resolve("x86", 2)
    pipeline.lower(import_model(model).mod, target, fusion="stitch", threads=2)
    groups = [g for stitch in found for plan in stitch.graphs for g in plan.groups]
    assert any(g.copies for g in groups)
    return [n.var.name for g in groups for n in g.nodes if n not in g.copies]


def test_an_op_whose_kernel_changes_twice_is_in_one_kernel(monkeypatch):
    owned = owners(onnx.parser.parse_model(SOFTPLUS), monkeypatch)
    assert len(owned) == len(set(owned))


def test_a_model_with_copies_of_copies_is_right():
    model = tvm_stitch.compile(onnx.parser.parse_model(SOFTPLUS), threads=2)
    rng = np.random.default_rng()
    x = rng.standard_normal((129, 5, 7, 3, 1)).astype(np.float32)
    c = rng.standard_normal((3, 1)).astype(np.float32)
    got = model.run({"x": x, "c": c})
    scaled = x * c
    expected = {"soft": np.logaddexp(0.0, scaled.astype(np.float64)), "most": scaled}
    sc.assert_close(got, expected, 1e-5)

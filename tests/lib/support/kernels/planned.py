"""The groups of nodes that the planner makes kernels of."""

from __future__ import annotations

import onnx

from relay_passes.graph.group import Group
from relay_passes.policy import POLICY, FusionPolicy
from support.kernels import stitch_case as sc
from tir_schedules.kernel_ir.stage import Kernel
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model
from tvm_stitch.packing import packed


def kernels(model: onnx.ModelProto, policy: FusionPolicy = POLICY.fusion) -> list[Group]:
    target = targets.resolve("x86", 2)
    mod = packed(import_model(model), sc.device()).mod
    plans = pipeline.planned(mod, target, threads=2, policy=policy)
    groups = (group for plan in plans for group in plan.groups)
    return [group for group in groups if isinstance(group.nodes[0].kernel, Kernel)]

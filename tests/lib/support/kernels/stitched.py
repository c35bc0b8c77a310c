"""The passes in a TVM pipeline, with no tool around them."""

from __future__ import annotations

import tvm
from tvm.ir import IRModule
from tvm.relax.transform import (
    AnnotateTIROpPattern,
    FoldConstant,
    FuseOps,
    FuseTIR,
    LegalizeOps,
)

import relay_passes as relay
import tir_schedules
from support.models import relax_models as rm

FRONT = (LegalizeOps, AnnotateTIROpPattern, FoldConstant)
BACK = (FuseOps, FuseTIR)


def stitched(
    mod: IRModule, *, schedule: bool = True, target: tvm.target.Target | None = None
) -> IRModule:
    """Run the passes as the design's example does."""
    passes = [*(p() for p in FRONT), relay.transform.StitchOps(), *(p() for p in BACK)]
    if schedule:
        passes.append(tir_schedules.ApplyStitchSchedules())
    with target or rm.cpu():
        return relay.transform.Sequential(passes)(mod)

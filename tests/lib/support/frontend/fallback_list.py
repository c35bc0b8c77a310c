"""What docs/fallbacks.md says the template declines, and what it does decline."""

from __future__ import annotations

import re

from tvm import relax
from tvm.ir import IRModule
from tvm.ir.transform import Sequential

from relay_passes.rewrites.legalize.legalize import LEGALIZATIONS
from relay_passes.transform import BlockScans, SortRows
from support import ROOT
from support.models import relax_models as rm
from tir_schedules import ApplyStitchSchedules

_TABLE = (ROOT / "docs/fallbacks.md").read_text()
_ROWS = [line.split("|")[1:3] for line in _TABLE.splitlines() if line.startswith("| `")]
RELAX = {name for relax_name, _ in _ROWS for name in re.findall(r"`(\w+)`", relax_name)}
ONNX = {name for _, onnx_names in _ROWS for name in re.findall(r"`(\w+)`", onnx_names)}


def declined(mod: IRModule) -> dict[str, str]:
    """Return the kernels of a module's operators, one each, that the template declines, and why."""
    schedule = ApplyStitchSchedules()
    ours = (SortRows(), BlockScans())
    dispatch = (relax.backend.DispatchSampling(), relax.backend.DispatchSortScan())
    with rm.cpu():
        Sequential([*ours, *dispatch, relax.transform.LegalizeOps(LEGALIZATIONS), schedule])(mod)
    return schedule.declined

"""A kernel as templates read it: the stages that are worth a place, on any target."""

from __future__ import annotations

from ..kernel_ir.stage import Kernel
from .inline import inline_stages
from .late_division import divide_late
from .mark_signs import mark_signs
from .softmax import drop_nan
from .widen import widen


def reduced(kernel: Kernel) -> Kernel:
    """Return the kernel with sub-roots and outputs left as stages, halves computed in float32."""
    return divide_late(drop_nan(mark_signs(inline_stages(widen(kernel)))))

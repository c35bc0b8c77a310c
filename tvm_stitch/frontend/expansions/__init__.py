"""Operators that hold others, replaced by these: functions, counted loops, known branches."""

from __future__ import annotations

from tvm_stitch.frontend.expansions.branch import known_branch
from tvm_stitch.frontend.expansions.function_body import function_body
from tvm_stitch.frontend.expansions.loop import unrolled_loop
from tvm_stitch.frontend.expansions.narrow.cast import narrow_cast
from tvm_stitch.frontend.expansions.narrow.quantise import narrow_dequantise, narrow_quantise
from tvm_stitch.frontend.expansions.scan import unrolled_scan

EXPANSIONS = (
    narrow_cast,
    narrow_quantise,
    narrow_dequantise,
    known_branch,
    unrolled_loop,
    unrolled_scan,
    function_body,
)

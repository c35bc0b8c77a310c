"""How many rows of a window's register tile are made at a time."""

from __future__ import annotations

from ....analysis.iteration_space import Atom, Node
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...facts.products.register_file import REGISTERS
from ...facts.shapes import SHAPES
from ...plan.window import Window


def window_rows(
    node: Node, window: Window, lane: Atom, lanes: int, extent: int, device: CpuDevice
) -> int:
    """Return the rows whose accumulators, with the other operand's taps and a line, fit registers.

    1 if so few lanes are not worth it.
    """
    if lanes < SHAPES.window_lanes:
        return 1
    each = max(1, lanes * dtype_bytes(node.stage.value.dtype) // device.vector_bytes)
    beside = [a for a in node.reads.values() if a.stride(window.tap) and not a.stride(window.row)]
    taps = sum(window.tap.extent * (each if a.stride(lane) else 1) for a in beside)
    most = min(extent, (REGISTERS[device.vector_bytes] - taps - each) // each)
    return next((n for n in range(most, most // 2, -1) if extent % n == 0), max(1, most))
